//! I30, convergence: when the run is over, all members that run, learners included, have the same
//! state at the same index, and none is further behind than a moment.

use std::collections::VecDeque;

use fencepost_node::io::MemberId;
use fencepost_node::node::Node;

use super::i02_state_hash::StateHash;
use super::oracle::Oracle;
use super::{Check, broken};
use crate::seen::Time;

/// What was first applied so long before the end must have reached everybody.
const A_MOMENT: u64 = 800_000;

/// When the reference came how far, lately.
#[derive(Default)]
pub(super) struct Converge {
    heads: VecDeque<(Time, u64)>,
    /// Everything up to this was applied by somebody more than a moment ago.
    old: u64,
}

impl Converge {
    pub(super) fn reached(&mut self, at: Time, head: u64) {
        self.heads.push_back((at, head));
        self.forget(at);
    }

    fn forget(&mut self, at: Time) {
        while let Some(&(then, head)) =
            self.heads.front().filter(|(then, _)| then.0 + A_MOMENT < at.0)
        {
            let _ = then;
            self.old = head;
            self.heads.pop_front();
        }
    }

    pub(super) fn restore(&mut self) {
        self.heads.clear();
        self.old = 0;
    }

    pub(super) fn over(
        &mut self,
        oracle: &Oracle,
        hashes: &mut StateHash,
        at: Time,
        nodes: &[(MemberId, &Node)],
    ) -> Check {
        self.forget(at);
        let furthest = nodes.iter().max_by_key(|(_, node)| node.machine().applied());
        let Some((_, furthest)) = furthest else { return Ok(()) };
        for (member, node) in nodes.iter().filter(|(id, _)| furthest.membership().contains(*id)) {
            let index = node.machine().applied();
            if index < self.old {
                let what = format!("member {member} stands at {index}, others at {}", self.old);
                return Err(broken("I30", what));
            }
            hashes
                .same(oracle, *member, index, node.machine().state())
                .map_err(|wrong| broken("I30", wrong.what))?;
        }
        Ok(())
    }
}
