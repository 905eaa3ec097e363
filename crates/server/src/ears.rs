//! Hears everything that happens to the node, on its loop, and passes it on.

use std::sync::Weak;

use fencepost_core::{Key, Millis, State};
use fencepost_node::machine::Machine;
use fencepost_node::shell::{Notice, Observer};

use crate::house::House;
use crate::pending::Standing;
use crate::watch::Said;

/// So many are told of their locks on this thread. If there are more, they wake others.
const FEW: usize = 2;

/// Hears everything that happens to the node.
pub(crate) struct Ears(pub(crate) Weak<House>);

impl Observer for Ears {
    /// There is no state: the node has not begun, or has ended.
    fn observe(&mut self, notices: &[Notice]) -> bool {
        let Some(house) = self.0.upgrade() else { return false };
        if notices.iter().any(|notice| matches!(notice, Notice::Ended(_))) {
            house.head.refresh();
            house.close();
        }
        true
    }

    fn observe_state(&mut self, notices: &[Notice], machine: &Machine) -> bool {
        let Some(house) = self.0.upgrade() else { return false };
        let state = machine.state();
        // Before somebody is told of it.
        house.head.reach(state.revision());
        for notice in notices {
            match notice {
                Notice::Applied(_, events) if !events.is_empty() => {
                    applied(&house, events, state);
                }
                Notice::Installed(_) => installed(&house, state),
                Notice::Role(role) => {
                    house.metrics.role(*role);
                    house.head.refresh();
                }
                Notice::Members(_) => house.head.refresh(),
                // Trouble is logged by the process that runs the node.
                Notice::Applied(..)
                | Notice::Trouble(_)
                | Notice::Connected(_)
                | Notice::Waiting(_)
                | Notice::Ended(_) => {}
            }
        }
        if let Some(lost) = state.lost_boot(house.node) {
            house.shares.outlive(lost);
        }
        house.signing.look(state);
        true
    }
}

fn applied(house: &House, events: &[std::sync::Arc<fencepost_core::Event>], state: &State) {
    let mut told = Vec::new();
    {
        let mut pending = house.pending();
        for event in events {
            pending.observe(event, |key| remaining(state, key), &mut told);
        }
    }
    let are_few = told.len() <= FEW;
    for (postbox, verdict) in told {
        match are_few {
            true => postbox.tell_at_once(verdict),
            false => postbox.tell(verdict),
        }
    }
    house.metrics.events(events, state.now());
    house.fan_out.happened(events, state.revision(), state.now());
}

fn installed(house: &House, state: &State) {
    let told = house.pending().installed(state.revision(), |key| standing(state, key));
    for (postbox, verdict) in told {
        postbox.tell(verdict);
    }
    house.metrics.recount(state);
    house.fan_out.say(Said::Gap);
}

/// How long the lease of a holder still lives. Nothing, if it does not hold any more.
fn remaining(state: &State, key: &Key) -> Millis {
    match standing(state, key) {
        Standing::Holds { remaining, .. } => remaining,
        Standing::Waits | Standing::Absent => Millis::ZERO,
    }
}

/// How a contender stands.
pub(crate) fn standing(state: &State, key: &Key) -> Standing {
    match state.standing(key) {
        Some(one) if one.holds => Standing::Holds { token: one.token, remaining: one.remaining },
        Some(_) => Standing::Waits,
        None => Standing::Absent,
    }
}
