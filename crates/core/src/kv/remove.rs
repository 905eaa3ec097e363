//! Removing one key, for whatever cause.

use crate::event::{Cause, EventKind};
use crate::ids::Key;
use crate::record::Record;
use crate::step::Step;

impl Step<'_> {
    /// Removes a key and its place in a queue. Says whether it was there.
    pub(crate) fn remove(&mut self, key: &Key, cause: Cause) -> bool {
        let Some((key, record)) = self.state.keys.remove_entry(key) else { return false };
        self.removed(key, *record, cause);
        true
    }

    /// Draws the consequences of a key's removal.
    pub(crate) fn removed(&mut self, key: Key, record: Record, cause: Cause) {
        self.change();
        self.take_record_bytes(&key, &record);
        let ended = self.leave(&key, &record, cause);
        let group = record.group();
        self.emit(EventKind::Deleted { prev: record.into_key_value(key), ended });
        self.end_group(group);
    }
}
