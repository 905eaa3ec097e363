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
        let doomed: Vec<Key> =
            self.state.keys.range::<[u8], _>(bounds).map(|(key, _)| key.clone()).collect();
        let mut count = 0;
        let mut removed = Vec::new();
        for key in doomed {
            if delete.prev {
                removed.extend(self.state.keys.get(&key).map(|record| record.key_value(&key)));
            }
            // A key may have gone already, as part of an atomic acquisition that lost another.
            count += u64::from(self.remove(&key, Cause::Deleted));
        }
        (count, removed)
    }
}
