//! Reading keys.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::event::KeyValue;
use crate::ids::{Key, Revision, Value};
use crate::range::{Order, RangeAnswer, RangeQuery, SortBy};
use crate::record::Record;
use crate::state::State;

impl State {
    /// Answers a question about a range of keys.
    pub fn range(&self, query: &RangeQuery) -> RangeAnswer {
        let Some(bounds) = query.range.bounds() else {
            return RangeAnswer::default();
        };
        let records = self.keys.range::<[u8], _>(bounds);
        if query.count_only {
            return RangeAnswer { count: records.count() as u64, ..RangeAnswer::default() };
        }
        let mut count = 0;
        let mut found: Vec<(&Key, &Record)> = Vec::new();
        for (key, record) in records {
            count += 1;
            if query.admits(record) {
                found.push((key, record));
            }
        }
        query.sort(&mut found);
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let more = limit > 0 && found.len() > limit;
        if more {
            found.truncate(limit);
        }
        let kvs = found.into_iter().map(|(key, record)| query.show(key, record)).collect();
        RangeAnswer { kvs, more, count }
    }
}

impl RangeQuery {
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

    fn show(&self, key: &Key, record: &Record) -> KeyValue {
        let mut kv = record.key_value(key);
        if self.keys_only {
            kv.value = Value::default();
        }
        kv
    }
}
