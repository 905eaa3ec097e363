//! Forgets a free lock. There is nothing to forget but to say that it is free.

use crate::command::DeleteLock;
use crate::outcome::{Outcome, Reason};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn delete_lock(&mut self, delete: &DeleteLock) -> Result<Outcome, Reason> {
        if self.state.locks.contains_key(&delete.name) {
            return Err(Reason::LockInUse);
        }
        Ok(Outcome::Done)
    }
}
