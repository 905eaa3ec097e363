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
            if !self.count_only && self.admits(record) {
                found.push((key, record));
            }
        }
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        if limit > 0 && self.sorts_what_it_takes() {
            found.truncate(limit.saturating_add(1));
        }
        self.sort(&mut found);
        let more = limit > 0 && found.len() > limit;
        if more {
            found.truncate(limit);
        }
        let kvs = found.into_iter().map(|(key, record)| shown(key, record, self.keys_only));
        RangeAnswer { kvs: kvs.collect(), more, count }
    }

    /// Without an order and without bounds, etcd takes the first keys, and one more to see whether
    /// there are any, and sorts only those.
    fn sorts_what_it_takes(&self) -> bool {
        let bounds = [self.mod_min, self.mod_max, self.create_min, self.create_max];
        self.order == Order::Unsorted && bounds.iter().all(|&bound| bound == Revision::NONE)
    }

    fn admits(&self, record: &Record) -> bool {
        let above = |min: Revision, revision| min == Revision::NONE || revision >= min;
        let below = |max: Revision, revision| max == Revision::NONE || revision <= max;
        above(self.mod_min, record.modified)
            && below(self.mod_max, record.modified)
            && above(self.create_min, record.created)
            && below(self.create_max, record.created)
    }

    fn sort(&self, found: &mut [(&Key, &Record)]) {
        let by_key_already = self.sort_by == SortBy::Key;
        match self.order {
            Order::Descending if by_key_already => found.reverse(),
            Order::Descending => found.sort_by(|a, b| self.order_of(b.1, a.1)),
            Order::Ascending | Order::Unsorted if by_key_already => {}
            Order::Ascending | Order::Unsorted => found.sort_by(|a, b| self.order_of(a.1, b.1)),
        }
    }

    fn order_of(&self, a: &Record, b: &Record) -> Ordering {
        match self.sort_by {
            SortBy::Key => Ordering::Equal,
            SortBy::Version => a.version.cmp(&b.version),
            SortBy::Create => a.created.cmp(&b.created),
            SortBy::Mod => a.modified.cmp(&b.modified),
            SortBy::Value => a.value.cmp(&b.value),
        }
    }
}
