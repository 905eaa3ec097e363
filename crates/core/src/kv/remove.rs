//! Removing one key, for whatever cause.

use alloc::boxed::Box;

use crate::event::{Cause, EventKind, KeyValue};
use crate::ids::Key;
use crate::step::Step;

impl Step<'_> {
    /// Removes a key and its place in a queue. Answers with what stood there.
    pub(crate) fn remove(&mut self, key: &Key, cause: Cause) -> Option<KeyValue> {
        let record = self.state.keys.remove(key)?;
        self.change();
        self.detach(key, record.lease);
        let prev = record.key_value(key);
        let ended = self.leave(key, &record, cause);
        self.emit(EventKind::Deleted {
            prev: Box::new(prev.clone()),
            ended,
        });
        self.end_group_of(&record);
        Some(prev)
    }
}
