//! Reading keys.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::event::KeyValue;
use crate::ids::{Key, Revision, Value};
use crate::range::{KeyRange, Order, Page, PageQuery, RangeAnswer, RangeQuery, SortBy};
use crate::record::Record;
use crate::state::State;

impl State {
    /// Answers a question about a range of keys.
    pub fn range(&self, query: &RangeQuery) -> RangeAnswer {
        if query.count_only {
            return RangeAnswer { count: self.count(&query.range), ..RangeAnswer::default() };
        }
        let Some(bounds) = query.range.bounds() else {
            return RangeAnswer::default();
        };
        query.answer(self.keys.range::<[u8], _>(bounds).map(|(key, record)| (key, &**record)))
    }

    /// One page of a range of keys.
    pub fn page(&self, query: &PageQuery) -> Page {
        let Some(bounds) = query.range.bounds_after(query.after.as_deref()) else {
            return Page::default();
        };
        let (mut kvs, mut bytes) = (Vec::new(), 0);
        for (key, record) in self.keys.range::<[u8], _>(bounds) {
            let kv = shown(key, record, query.keys_only);
            bytes += kv.key.len() + kv.value.len() + KEY_VALUE_BYTES;
            let fits = kvs.is_empty() || bytes <= query.bytes_max;
            if kvs.len() == query.limit || !fits {
                return Page { kvs, more: true };
            }
            kvs.push(kv);
        }
        Page { kvs, more: false }
    }

    /// How many keys a range holds. Looks at each of them.
    pub fn count(&self, range: &KeyRange) -> u64 {
        let bounds = range.bounds();
        bounds.map_or(0, |bounds| self.keys.range::<[u8], _>(bounds).count() as u64)
    }
}

/// What a key takes beside its bytes, roughly.
const KEY_VALUE_BYTES: usize = 32;

fn shown(key: &Key, record: &Record, keys_only: bool) -> KeyValue {
    let mut kv = record.key_value(key);
    if keys_only {
        kv.value = Value::default();
    }
    kv
}

impl RangeQuery {
    /// The answer, given all keys of the range in their order.
    pub(super) fn answer<'a>(
        &self,
        records: impl Iterator<Item = (&'a Key, &'a Record)>,
    ) -> RangeAnswer {
        let mut count = 0;
        let mut found: Vec<(&Key, &Record)> = Vec::new();
        for (key, record) in records {
            count += 1;
            if !self.count_only && self.admits(record.created, record.modified) {
                found.push((key, record));
            }
        }
        let more = self.arrange(&mut found, |(_, record)| Facts {
            version: record.version,
            created: record.created,
            modified: record.modified,
            value: &record.value,
        });
        let kvs = found.into_iter().map(|(key, record)| shown(key, record, self.keys_only));
        RangeAnswer { kvs: kvs.collect(), more, count }
    }

    /// Sorts what was found, in the order of keys before, and cuts it at the limit. Whether the
    /// limit left something out.
    pub(crate) fn arrange<T>(&self, found: &mut Vec<T>, facts: impl Fn(&T) -> Facts<'_>) -> bool {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        if limit > 0 && self.sorts_what_it_takes() {
            found.truncate(limit.saturating_add(1));
        }
        self.sort(found, facts);
        let more = limit > 0 && found.len() > limit;
        if more {
            found.truncate(limit);
        }
        more
    }

    /// Without an order and without bounds, etcd takes the first keys, and one more to see whether
    /// there are any, and sorts only those.
    pub(crate) fn sorts_what_it_takes(&self) -> bool {
        let bounds = [self.mod_min, self.mod_max, self.create_min, self.create_max];
        self.order == Order::Unsorted && bounds.iter().all(|&bound| bound == Revision::NONE)
    }

    /// Whether values are compared, however little of them is shown.
    pub(crate) fn sorts_by_value(&self) -> bool {
        self.order != Order::Unsorted && self.sort_by == SortBy::Value
    }

    pub(crate) fn admits(&self, created: Revision, modified: Revision) -> bool {
        let above = |min: Revision, revision| min == Revision::NONE || revision >= min;
        let below = |max: Revision, revision| max == Revision::NONE || revision <= max;
        above(self.mod_min, modified)
            && below(self.mod_max, modified)
            && above(self.create_min, created)
            && below(self.create_max, created)
    }

    fn sort<T>(&self, found: &mut [T], facts: impl Fn(&T) -> Facts<'_>) {
        let by_key_already = self.sort_by == SortBy::Key;
        let order_of = |a: &T, b: &T| self.order_of(&facts(a), &facts(b));
        match self.order {
            Order::Descending if by_key_already => found.reverse(),
            Order::Descending => found.sort_by(|a, b| order_of(b, a)),
            Order::Ascending | Order::Unsorted if by_key_already => {}
            Order::Ascending | Order::Unsorted => found.sort_by(order_of),
        }
    }

    fn order_of(&self, a: &Facts<'_>, b: &Facts<'_>) -> Ordering {
        match self.sort_by {
            SortBy::Key => Ordering::Equal,
            SortBy::Version => a.version.cmp(&b.version),
            SortBy::Create => a.created.cmp(&b.created),
            SortBy::Mod => a.modified.cmp(&b.modified),
            SortBy::Value => a.value.cmp(b.value),
        }
    }
}

/// What keys are sorted by.
pub(crate) struct Facts<'a> {
    pub(crate) version: u64,
    pub(crate) created: Revision,
    pub(crate) modified: Revision,
    pub(crate) value: &'a Value,
}
