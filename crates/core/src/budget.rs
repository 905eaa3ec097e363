//! What one command may cost.
//!
//! Owns: the count of what a transaction will visit, read and replace. Guarantees: from feature
//! level 2 on, a transaction over its budget is refused before its first write, on every replica
//! alike. Refuses: to look at anything but the state before the transaction, so the count is an
//! upper bound wherever an earlier operation of the same transaction changes what a later one
//! sees.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::command::{DeleteRange, Op, Put, Txn};
use crate::ids::{Key, Value};
use crate::kv::Path;
use crate::limits::{COMMAND_BYTES_MAX, COMMAND_KEYS_MAX, KEY_VALUE_WEIGHT};
use crate::outcome::Reason;
use crate::range::{KeyRange, RangeQuery};
use crate::state::State;

/// What a command may still cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    keys: u64,
    visited: u64,
    bytes: u64,
}

/// What a transaction has written so far: each key, and what it counts for as an answer.
type Written<'t> = Vec<(&'t Key, u64)>;

impl Budget {
    /// What every command may cost at this feature level. Level 1 knows no bound, and entries that
    /// were logged there keep their effects.
    pub(crate) fn at_level(level: u32) -> Budget {
        match level {
            ..2 => Budget { keys: u64::MAX, visited: 0, bytes: u64::MAX },
            _ => Budget { keys: COMMAND_KEYS_MAX, visited: 0, bytes: COMMAND_BYTES_MAX },
        }
    }

    pub(crate) fn is_bounded(self) -> bool {
        self.keys != u64::MAX
    }

    /// Spends on visits of keys.
    pub(crate) fn visit(&mut self, keys: u64) -> Result<(), Reason> {
        self.visited += keys;
        self.keys = self.keys.checked_sub(keys).ok_or(Reason::TooManyKeys(COMMAND_KEYS_MAX))?;
        Ok(())
    }

    /// The keys that were visited so far.
    pub(crate) fn visited(self) -> u64 {
        self.visited
    }

    /// Spends on bytes that are answered, compared, or that go into the history.
    pub(crate) fn carry(&mut self, bytes: u64) -> Result<(), Reason> {
        self.bytes =
            self.bytes.checked_sub(bytes).ok_or(Reason::TooManyBytes(COMMAND_BYTES_MAX))?;
        Ok(())
    }
}

impl State {
    /// Refuses a transaction that would cost more than `budget` on the branches that it takes.
    pub(crate) fn check_cost(
        &self,
        txn: &Txn,
        path: &Path,
        budget: &mut Budget,
    ) -> Result<(), Reason> {
        self.count_ops(txn, path, budget, &mut Written::new())
    }

    fn count_ops<'t>(
        &self,
        txn: &'t Txn,
        path: &Path,
        budget: &mut Budget,
        written: &mut Written<'t>,
    ) -> Result<(), Reason> {
        let mut inner = path.inner();
        for op in path.branch(txn) {
            match op {
                Op::Put(put) => self.count_put(put, budget, written)?,
                Op::DeleteRange(delete) => self.count_delete(delete, budget, written)?,
                Op::Range(query) => self.count_query(query, budget, written)?,
                Op::Txn(txn) => {
                    let path = inner.next().expect("each inner transaction has its path");
                    self.count_ops(txn, path, budget, written)?;
                }
            }
        }
        Ok(())
    }

    /// The history keeps the new value and the one before it.
    fn count_put<'t>(
        &self,
        put: &'t Put,
        budget: &mut Budget,
        written: &mut Written<'t>,
    ) -> Result<(), Reason> {
        budget.visit(1)?;
        let before = self.keys.get(&put.key).map_or(0, |record| weight(&put.key, &record.value));
        let after = if put.ignore_value { before } else { weight(&put.key, &put.value) };
        written.push((&put.key, after));
        budget.carry(shown_too(put.prev) * before + after)
    }

    /// The history keeps what was removed.
    fn count_delete(
        &self,
        delete: &DeleteRange,
        budget: &mut Budget,
        written: &Written<'_>,
    ) -> Result<(), Reason> {
        let mut bytes = 0;
        self.count_range(&delete.range, budget, written, |_, size| bytes += size)?;
        self.count_groups(&delete.range, budget)?;
        budget.carry(shown_too(delete.prev) * bytes)
    }

    /// A contender that wants several locks leaves all their queues with the first of its keys.
    fn count_groups(&self, range: &KeyRange, budget: &mut Budget) -> Result<(), Reason> {
        let Some(bounds) = range.bounds().filter(|_| !self.groups.is_empty()) else {
            return Ok(());
        };
        for record in self.keys.range::<[u8], _>(bounds).map(|(_, record)| record) {
            let group = record.group().and_then(|created| self.groups.get(&created));
            let Some(keys) = group else { continue };
            budget.visit(keys.len() as u64)?;
            for key in keys {
                budget.carry(self.keys.get(key).map_or(0, |record| weight(key, &record.value)))?;
            }
        }
        Ok(())
    }

    fn count_query(
        &self,
        query: &RangeQuery,
        budget: &mut Budget,
        written: &Written<'_>,
    ) -> Result<(), Reason> {
        let mut sizes = Largest::new(query.limit);
        let mut compared = 0;
        self.count_range(&query.range, budget, written, |key, size| {
            if !query.count_only {
                let shown = if query.keys_only { weight(key, &Value::default()) } else { size };
                sizes.add(shown);
                compared += if query.sorts_by_value() { size } else { 0 };
            }
        })?;
        budget.carry(sizes.sum + compared)
    }

    /// Visits a range of keys as an operation of a transaction will: those that are there, and
    /// those that the transaction has written before.
    fn count_range(
        &self,
        range: &KeyRange,
        budget: &mut Budget,
        written: &Written<'_>,
        mut each: impl FnMut(&Key, u64),
    ) -> Result<(), Reason> {
        budget.visit(1 + written.len() as u64 / WRITES_PER_VISIT)?;
        for (key, bytes) in written.iter().filter(|(key, _)| range.contains(key)) {
            each(key, *bytes);
        }
        let Some(bounds) = range.bounds() else { return Ok(()) };
        for (key, record) in self.keys.range::<[u8], _>(bounds) {
            budget.visit(1)?;
            each(key, weight(key, &record.value));
        }
        Ok(())
    }
}

/// Comparing a key that the transaction has written with a range is cheaper than a visit.
const WRITES_PER_VISIT: u64 = 32;

/// What is kept in the history and answered as well counts twice.
fn shown_too(shown: bool) -> u64 {
    1 + u64::from(shown)
}

/// The sum of the largest few of many sizes: an answer in any order has no more than that.
struct Largest {
    /// Zero for all of them.
    limit: u64,
    sum: u64,
    kept: BinaryHeap<Reverse<u64>>,
}

impl Largest {
    fn new(limit: u64) -> Largest {
        Largest { limit, sum: 0, kept: BinaryHeap::new() }
    }

    fn add(&mut self, size: u64) {
        self.sum += size;
        if self.limit == 0 {
            return;
        }
        self.kept.push(Reverse(size));
        if self.kept.len() as u64 > self.limit {
            self.sum -= self.kept.pop().map_or(0, |smallest| smallest.0);
        }
    }
}

/// What a key counts for in an answer or an event.
fn weight(key: &Key, value: &Value) -> u64 {
    KEY_VALUE_WEIGHT + (key.len() + value.len()) as u64
}
