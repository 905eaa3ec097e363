//! Fits the quota of the state to the memory of the members.
//!
//! Owns: the decision when to propose a lower quota. Guarantees: none is proposed before the memory
//! of every voter is known. Refuses: to raise it; only an operator does that.

use super::Node;
use super::propose::Asker;
use crate::io::{Class, Output};
use crate::machine::{fit_quota, quota_for};

/// A leader looks after so many ticks: one second.
const LOOK_AGAIN_TICKS: u64 = 100;

impl Node {
    /// Proposes a quota that fits the smallest voter, if the present one does not.
    pub(super) fn fit_quota(&mut self, outputs: &mut Vec<Output>) {
        if self.ticks < self.quota_again || !self.leads() || self.feature_level() < 2 {
            return;
        }
        self.quota_again = self.ticks + LOOK_AGAIN_TICKS;
        let Some(memory) = self.smallest_voter_memory() else { return };
        let Some(bytes) = quota_for(self.machine.state(), memory) else { return };
        self.enqueue(Asker::Itself, Class::Ordinary, fit_quota(bytes), outputs);
    }
}
