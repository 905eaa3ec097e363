//! The keys of one lease, in order. Most leases have one, and must not pay for a tree.

use alloc::collections::BTreeSet;

use crate::ids::Key;

/// An ordered set of keys that is small for one.
#[derive(Clone, Debug, Default)]
pub(crate) enum KeySet {
    /// No key.
    #[default]
    Empty,
    /// One key.
    One(Key),
    /// Several. Emptied one by one it stays a tree: it has shown that it needs one.
    Many(BTreeSet<Key>),
}

impl KeySet {
    pub(crate) fn insert(&mut self, key: Key) {
        match self {
            KeySet::Empty => *self = KeySet::One(key),
            KeySet::One(one) if *one == key => {}
            KeySet::One(one) => *self = KeySet::Many(BTreeSet::from([one.clone(), key])),
            KeySet::Many(many) => drop(many.insert(key)),
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        match self {
            KeySet::Empty => {}
            KeySet::One(one) if one == key => *self = KeySet::Empty,
            KeySet::One(_) => {}
            KeySet::Many(many) => drop(many.remove(key)),
        }
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        match self {
            KeySet::Empty => false,
            KeySet::One(one) => one == key,
            KeySet::Many(many) => many.contains(key),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            KeySet::Empty => 0,
            KeySet::One(_) => 1,
            KeySet::Many(many) => many.len(),
        }
    }

    /// The keys in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Key> {
        let (one, many) = match self {
            KeySet::Empty => (None, None),
            KeySet::One(one) => (Some(one), None),
            KeySet::Many(many) => (None, Some(many)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}
