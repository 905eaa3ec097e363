//! Removes keys. Locks that stood on them pass on.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::command::DeleteRange;
use crate::event::{Cause, KeyValue};
use crate::ids::Key;
use crate::limits::{COMMAND_BYTES_MAX, DELETE_KEYS_MAX, KEY_VALUE_WEIGHT};
use crate::outcome::{DeletedPart, Outcome};
use crate::range::KeyRange;
use crate::state::State;
use crate::step::Step;

impl Step<'_> {
    /// Removes a range of keys. From feature level 2 on only as many as one command may, and
    /// answers with the key at which the caller goes on.
    pub(crate) fn delete_range(&mut self, delete: &DeleteRange) -> Outcome {
        let next = match self.state.feature_level {
            ..2 => None,
            _ => self.state.end_of_slice(delete),
        };
        let Some(next) = next else {
            let (count, removed) = self.delete_keys(delete);
            return Outcome::Deleted(count, removed);
        };
        let range = KeyRange::Span(delete.range.start().clone(), next.clone());
        let (count, removed) = self.delete_keys(&DeleteRange { range, prev: delete.prev });
        Outcome::DeletedPart(Box::new(DeletedPart { count, removed, next }))
    }

    pub(crate) fn delete_keys(&mut self, delete: &DeleteRange) -> (u64, Vec<KeyValue>) {
        let Some(bounds) = delete.range.bounds() else {
            return (0, Vec::new());
        };
        let shown = delete.prev && self.answers;
        let doomed: Vec<(Key, Option<KeyValue>)> = self
            .state
            .keys
            .range::<[u8], _>(bounds)
            .map(|(key, record)| (key.clone(), shown.then(|| record.key_value(key))))
            .collect();
        let count = doomed.len() as u64;
        self.state.work.key_visits += count;
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

impl State {
    /// The first key of the range that one command does not remove any more, if there is one. What
    /// goes along with a contender that wants several locks counts as well.
    fn end_of_slice(&self, delete: &DeleteRange) -> Option<Key> {
        let (mut keys, mut bytes) = (0, 0);
        for (key, record) in self.keys.range::<[u8], _>(delete.range.bounds()?) {
            if keys >= DELETE_KEYS_MAX || bytes >= COMMAND_BYTES_MAX / 2 {
                return Some(key.clone());
            }
            let group = record.group().and_then(|created| self.groups.get(&created));
            keys += group.map_or(1, Vec::len) as u64;
            bytes += KEY_VALUE_WEIGHT + (key.len() + record.value.len()) as u64;
        }
        None
    }
}
