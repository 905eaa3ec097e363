//! Which keys are watched.

use std::collections::HashMap;
use std::hash::Hash;

use fencepost_core::Key;
use fencepost_core::range::KeyRange;

/// Every event is compared with so many ranges, within the node's turn. If there are more, all keys count as
/// watched: whoever hands out the events compares them anyway, and not at the node's expense.
pub(super) const RANGES_MAX: usize = 16;

/// Which keys are watched, and by how many.
#[derive(Debug, Default)]
pub(super) struct Interest {
    /// The single keys, which are most.
    keys: HashMap<Key, usize>,
    ranges: HashMap<KeyRange, usize>,
}

impl Interest {
    pub(super) fn add(&mut self, range: KeyRange) {
        match range {
            KeyRange::One(key) => *self.keys.entry(key).or_default() += 1,
            range => *self.ranges.entry(range).or_default() += 1,
        }
    }

    /// One that was added is gone.
    pub(super) fn remove(&mut self, range: &KeyRange) {
        match range {
            KeyRange::One(key) => take_one(&mut self.keys, key),
            range => take_one(&mut self.ranges, range),
        }
    }

    pub(super) fn covers(&self, key: &Key) -> bool {
        self.ranges.len() > RANGES_MAX
            || self.ranges.keys().any(|range| range.contains(key))
            || self.keys.contains_key(key)
    }
}

fn take_one<T: Eq + Hash>(counts: &mut HashMap<T, usize>, what: &T) {
    if let Some(count) = counts.get_mut(what) {
        *count -= 1;
        if *count == 0 {
            counts.remove(what);
        }
    }
}
