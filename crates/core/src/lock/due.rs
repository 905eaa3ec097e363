//! What happens to locks when log time comes to it.

use crate::event::{Cause, EventKind};
use crate::ids::{Key, LockName};
use crate::mutant::Mutant;
use crate::record::queue_form;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn wait_is_over(&mut self, key: &Key) {
        if !self.state.mutant(Mutant::WaitNeverEnds) {
            self.remove_with_group(key, Cause::TimedOut);
        }
    }

    pub(crate) fn forced_is_due(&mut self, key: &Key) {
        self.remove(key, Cause::Forced);
    }

    /// Only told, never taken: a silent unlock would be worse than a long hold.
    pub(crate) fn budget_is_spent(&mut self, key: &Key) {
        let Some((_, lease)) = queue_form(key) else {
            return;
        };
        let Some(record) = self.state.keys.get(key) else {
            return;
        };
        let holding = record.holding(key, &self.state.client_of(lease));
        self.emit(EventKind::OverBudget(holding));
    }

    /// The lease runs out by itself: its holder notices in time, as with any other loss.
    pub(crate) fn hold_is_over(&mut self, key: &Key) {
        let Some((_, lease)) = queue_form(key) else {
            return;
        };
        if let Some(lease) = self.state.leases.get_mut(&lease) {
            lease.spent = true;
        }
    }

    pub(crate) fn delay_is_over(&mut self, name: LockName) {
        self.state.delays.remove(&name);
        self.touched.push(name);
    }
}
