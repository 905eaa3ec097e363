//! Ranges of keys, and what can be asked about them.

use alloc::vec::Vec;
use core::ops::Bound;

use crate::event::KeyValue;
use crate::ids::{Key, Revision};

/// Where a range begins and ends, as an ordered map wants it.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// A single key or a span of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyRange {
    /// Just this key.
    One(Key),
    /// From the first up to, but not including, the second.
    Span(Key, Key),
    /// This key and all after it.
    From(Key),
}

impl KeyRange {
    /// etcd's spelling: no end means one key, a zero byte means "and all after it".
    pub fn from_etcd(key: &[u8], range_end: &[u8]) -> KeyRange {
        match range_end {
            [] => KeyRange::One(Key::from(key)),
            [0] => KeyRange::From(Key::from(key)),
            end => KeyRange::Span(Key::from(key), Key::from(end)),
        }
    }

    /// All keys that begin with `prefix`. The empty prefix means every key.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let kept = prefix.iter().rposition(|&byte| byte < 0xff);
        match kept {
            None => KeyRange::From(Key::from(prefix)),
            Some(last) => {
                let mut end = Vec::from(&prefix[..=last]);
                end[last] += 1;
                KeyRange::Span(Key::from(prefix), Key::from(end.as_slice()))
            }
        }
    }

    /// Whether `key` lies inside.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            KeyRange::One(one) => **one == *key,
            KeyRange::Span(from, to) => **from <= *key && *key < **to,
            KeyRange::From(from) => **from <= *key,
        }
    }

    /// What is left of it from `start` on.
    pub fn starting_at(self, start: Key) -> KeyRange {
        match self {
            KeyRange::One(key) => KeyRange::One(key),
            KeyRange::Span(_, to) => KeyRange::Span(start, to),
            KeyRange::From(_) => KeyRange::From(start),
        }
    }

    /// Whether it names one key.
    pub fn is_one(&self) -> bool {
        matches!(self, KeyRange::One(_))
    }

    /// The first key that can lie inside.
    pub fn start(&self) -> &Key {
        match self {
            KeyRange::One(key) | KeyRange::Span(key, _) | KeyRange::From(key) => key,
        }
    }

    /// The bounds for an ordered map, or nothing if no key can lie inside: an ordered map
    /// panics on a span that ends before it starts.
    pub(crate) fn bounds(&self) -> Option<Bounds<'_>> {
        match self {
            KeyRange::One(key) => Some((Bound::Included(key), Bound::Included(key))),
            KeyRange::Span(from, to) if from >= to => None,
            KeyRange::Span(from, to) => Some((Bound::Included(from), Bound::Excluded(to))),
            KeyRange::From(from) => Some((Bound::Included(from), Bound::Unbounded)),
        }
    }
}

impl KeyRange {
    /// The bounds of what lies inside and behind `after`, so that a page begins where the last one
    /// ended without passing over what came before.
    pub(crate) fn bounds_after<'a>(&'a self, after: Option<&'a [u8]>) -> Option<Bounds<'a>> {
        let (from, to) = self.bounds()?;
        let Some(after) = after.filter(|after| **after >= **self.start()) else {
            return Some((from, to));
        };
        let is_behind_all = match to {
            Bound::Included(last) => after >= last,
            Bound::Excluded(end) => after >= end,
            Bound::Unbounded => false,
        };
        (!is_behind_all).then_some((Bound::Excluded(after), to))
    }
}

/// A page of a range of keys, in their order. Costs as much as it brings, however many keys the
/// range holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// Which keys.
    pub range: KeyRange,
    /// Only those behind this key, which need not exist.
    pub after: Option<Key>,
    /// At most so many.
    pub limit: usize,
    /// At most so many bytes of keys and values, but always the first.
    pub bytes_max: usize,
    /// Answer without values.
    pub keys_only: bool,
}

/// The answer to a [`PageQuery`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What was found.
    pub kvs: Vec<KeyValue>,
    /// Whether there are keys behind these.
    pub more: bool,
}

/// A question about a range of keys, with etcd's vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeQuery {
    /// Which keys.
    pub range: KeyRange,
    /// At most so many; zero for all.
    pub limit: u64,
    /// In which order.
    pub order: Order,
    /// By what.
    pub sort_by: SortBy,
    /// Leave out keys written before this; zero for no bound.
    pub mod_min: Revision,
    /// Leave out keys written after this; zero for no bound.
    pub mod_max: Revision,
    /// Leave out keys created before this; zero for no bound.
    pub create_min: Revision,
    /// Leave out keys created after this; zero for no bound.
    pub create_max: Revision,
    /// Answer without values.
    pub keys_only: bool,
    /// Answer only with the count.
    pub count_only: bool,
}

impl From<KeyRange> for RangeQuery {
    /// All of the range, in the order of the keys.
    fn from(range: KeyRange) -> RangeQuery {
        RangeQuery {
            range,
            limit: 0,
            order: Order::Unsorted,
            sort_by: SortBy::Key,
            mod_min: Revision::NONE,
            mod_max: Revision::NONE,
            create_min: Revision::NONE,
            create_max: Revision::NONE,
            keys_only: false,
            count_only: false,
        }
    }
}

/// The order of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// None asked for: ascending.
    Unsorted,
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// What an answer is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    /// The key.
    Key,
    /// How often it was written.
    Version,
    /// When it was created.
    Create,
    /// When it was last written.
    Mod,
    /// Its value.
    Value,
}

/// The answer to a [`RangeQuery`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeAnswer {
    /// What was found.
    pub kvs: Vec<KeyValue>,
    /// Whether the limit left something out.
    pub more: bool,
    /// How many keys the range holds, whatever the limit and the revision bounds say.
    pub count: u64,
}
