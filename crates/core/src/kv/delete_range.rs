//! Removes keys. Locks that stood on them pass on.

use alloc::vec::Vec;

use crate::command::DeleteRange;
use crate::event::{Cause, KeyValue};
use crate::ids::Key;
use crate::outcome::Outcome;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn delete_range(&mut self, delete: &DeleteRange) -> Outcome {
        let (count, removed) = self.delete_keys(delete);
        Outcome::Deleted(count, removed)
    }

    pub(crate) fn delete_keys(&mut self, delete: &DeleteRange) -> (u64, Vec<KeyValue>) {
        let Some(bounds) = delete.range.bounds() else {
            return (0, Vec::new());
        };
        let doomed: Vec<(Key, Option<KeyValue>)> = self
            .state
            .keys
            .range::<[u8], _>(bounds)
            .map(|(key, record)| (key.clone(), delete.prev.then(|| record.key_value(key))))
            .collect();
        let count = doomed.len() as u64;
        let mut removed = Vec::new();
        for (key, prev) in doomed {
            // It may have gone with another key of the range, if both stood in queues for one
            // atomic acquisition. That counts too.
            self.remove(&key, Cause::Deleted);
            removed.extend(prev);
        }
        (count, removed)
    }
}
