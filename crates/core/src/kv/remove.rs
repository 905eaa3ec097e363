//! Removing one key, for whatever cause.

use alloc::boxed::Box;

use crate::event::{Cause, EventKind};
use crate::ids::Key;
use crate::step::Step;

impl Step<'_> {
    /// Removes a key and its place in a queue. Says whether it was there.
    pub(crate) fn remove(&mut self, key: &Key, cause: Cause) -> bool {
        let Some(record) = self.state.keys.remove(key) else { return false };
        self.change();
        self.detach(key, record.lease);
        let ended = self.leave(key, &record, cause);
        self.emit(EventKind::Deleted { prev: Box::new(record.key_value(key)), ended });
        self.end_group_of(&record);
        true
    }
}
