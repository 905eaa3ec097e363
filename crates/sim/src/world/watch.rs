//! What the checkers are told, and what they found.

use fencepost_node::io::{MemberId, Output};
use fencepost_node::node::Node;

use crate::check::Checks;
use crate::seen::{Seen, Time, Violation};

/// The checkers, and the first thing that they found. Nothing after it counts.
pub(crate) struct Watch {
    checks: Checks,
    pub(crate) violation: Option<Violation>,
}

impl Watch {
    pub(crate) fn new(checks: Checks) -> Watch {
        Watch { checks, violation: None }
    }

    /// Tells what happened.
    pub(crate) fn tell(&mut self, now: u64, seen: &Seen<'_>) {
        if self.violation.is_none() {
            self.violation = self.checks.see(Time(now), seen).err();
        }
    }

    /// The world itself has seen what must not be.
    pub(crate) fn broken(&mut self, invariant: &'static str, what: String) {
        self.violation.get_or_insert(Violation { invariant, what });
    }

    /// Tells how far a member has come since it stood at `before`.
    pub(crate) fn tell_progress(
        &mut self,
        now: u64,
        member: MemberId,
        node: &Node,
        before: u64,
        outputs: &[Output],
    ) {
        let installed = outputs.iter().rev().find_map(|output| match output {
            Output::Installed(id) => Some(id.index),
            _ => None,
        });
        let index = node.machine().applied();
        if installed.is_none() && index == before {
            return;
        }
        if let Some(index) = installed {
            self.tell(now, &Seen::Installed { member, index });
        }
        for index in installed.unwrap_or(before) + 1..=index {
            let Some((term, kind, data)) = node.entry(index) else {
                let what = format!("member {member} has applied entry {index} and lost it");
                self.broken("log", what);
                return;
            };
            self.tell(now, &Seen::Applied { member, index, term, kind, data });
        }
        self.tell_standing(now, member, node);
    }

    /// Tells where a member stands. One that has not joined yet stands nowhere.
    pub(crate) fn tell_standing(&mut self, now: u64, member: MemberId, node: &Node) {
        let (index, state) = (node.machine().applied(), node.machine().state());
        if index == 0 {
            return;
        }
        let membership = node.membership();
        self.tell(now, &Seen::Stands { member, index, state, membership });
    }
}
