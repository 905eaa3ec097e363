//! Forgets a free lock: from feature level 2 on, the delay that keeps it free after a lost holder.

use crate::command::DeleteLock;
use crate::outcome::{Outcome, Reason};
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    pub(crate) fn delete_lock(&mut self, delete: &DeleteLock) -> Result<Outcome, Reason> {
        if self.state.locks.contains_key(&delete.name) {
            return Err(Reason::LockInUse);
        }
        if self.state.feature_level >= 2
            && let Some(delay) = self.state.delays.remove(&delete.name)
        {
            self.state.timers.disarm(delay.until, Timer::Delay(delete.name.clone()));
        }
        Ok(Outcome::Done)
    }
}
