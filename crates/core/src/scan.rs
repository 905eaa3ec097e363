//! Reads of many keys, in steps of bounded cost.
//!
//! Owns: how far a read is, what it has found, and what a step may cost. Guarantees: whatever is
//! applied between two steps, the answer is that of one read of everything at one revision: that of
//! the last step, or the earlier one that was asked for. Refuses: answers beyond a number of bytes,
//! and to start over more than [`RESTARTS_MAX`] times.
//!
//! A read of the present applies the events since its last step to the part that it has read. A
//! read of the past takes them back in the part that it has not read yet.

mod budget;
mod scanned;
mod sum;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem::take;

use crate::event::{Event, EventKind, KeyValue};
use crate::ids::{Key, Revision, Value};
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::outcome::Reason;
use crate::range::{KeyRange, RangeQuery, SortBy};
use crate::record::Record;
use crate::state::State;

use budget::{ANSWER_BYTES_PER_UNIT, KEY_UNITS};
pub use budget::{STEP_UNITS, StepBudget};
pub use scanned::Scanned;
use sum::Sum;

/// How often a scan starts over because the history since its last step is gone.
pub const RESTARTS_MAX: u32 = 3;

/// What a key that is only counted costs.
const COUNT_UNITS: u32 = 1;
/// What an event costs beside its bytes. A scan must catch up faster than entries are applied.
const EVENT_UNITS: u32 = 4;
/// What an event costs that is taken back, beside its bytes.
const PAST_EVENT_UNITS: u32 = 16;
/// Bytes that cost one unit if they are hashed.
const HASHED_BYTES_PER_UNIT: usize = 32;
/// What a key takes in an answer beside its bytes, roughly.
const KEY_VALUE_BYTES: u64 = 64;

/// What a key takes at most.
const KEY_VALUE_BYTES_MAX: u64 = KEY_VALUE_BYTES + KEY_LEN_MAX as u64 + VALUE_LEN_MAX as u64;

/// What has come of a step.
#[derive(Debug)]
pub enum Progress {
    /// There is more to do.
    More,
    /// The scan is at its end.
    Done(Scanned),
    /// The scan cannot be finished.
    Failed(ScanError),
}

/// Why a scan cannot be finished.
#[derive(Clone, Debug, PartialEq)]
pub enum ScanError {
    /// The revision cannot be read.
    Refused(Reason),
    /// The answer would have more bytes than this.
    TooLarge(u64),
    /// The history was gone each time before the next step.
    Outrun,
}

/// What a scan is after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Keys,
    Count,
    Hash,
}

/// How far a scan is in the order of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Cursor {
    #[default]
    Start,
    /// Everything up to this key is done.
    At(Key),
    End,
}

impl Cursor {
    fn covers(&self, key: &[u8]) -> bool {
        match self {
            Cursor::Start => false,
            Cursor::At(last) => *key <= **last,
            Cursor::End => true,
        }
    }

    fn is_end(&self) -> bool {
        *self == Cursor::End
    }

    fn after(&self) -> Option<&[u8]> {
        match self {
            Cursor::At(last) => Some(last),
            Cursor::Start | Cursor::End => None,
        }
    }
}

/// A read of many keys, between two steps.
#[derive(Debug)]
pub struct Scan {
    query: RangeQuery,
    wants: Wants,
    /// The revision that is read; none for the present.
    at: Revision,
    bytes_max: u64,
    restarts: u32,
    /// Where the history goes on: at a revision, behind so many of its events. Nothing before the
    /// first step.
    next: Option<(Revision, usize)>,
    /// Up to where keys are collected. Never behind `counted`.
    collected: Cursor,
    /// Up to where keys are counted, or hashed.
    counted: Cursor,
    kvs: Vec<KeyValue>,
    /// In the present: changes of what was collected. In the past: what stood at keys that are not
    /// reached yet.
    changes: BTreeMap<Key, Option<KeyValue>>,
    /// How many keys `kvs` and `changes` come to.
    kept: u64,
    /// How many bytes they have.
    bytes: u64,
    count: u64,
    sum: Sum,
}

impl Scan {
    /// A read of a range at a revision; none for the present. Its answer has at most so many bytes.
    pub fn range(query: RangeQuery, at: Revision, bytes_max: u64) -> Scan {
        let wants = if query.count_only { Wants::Count } else { Wants::Keys };
        Scan::new(query, wants, at, bytes_max)
    }

    /// Counts a range at present.
    pub fn count(range: KeyRange) -> Scan {
        Scan::new(RangeQuery::from(range), Wants::Count, Revision::NONE, u64::MAX)
    }

    /// A hash of all keys and values at a revision; none for the present. It does not depend on
    /// the steps, nor on what else the state holds.
    pub fn hash(at: Revision) -> Scan {
        let everything = RangeQuery::from(KeyRange::From(Key::default()));
        Scan::new(everything, Wants::Hash, at, u64::MAX)
    }

    fn new(query: RangeQuery, wants: Wants, at: Revision, bytes_max: u64) -> Scan {
        Scan {
            query,
            wants,
            at,
            bytes_max,
            restarts: 0,
            next: None,
            collected: Cursor::Start,
            counted: Cursor::Start,
            kvs: Vec::new(),
            changes: BTreeMap::new(),
            kept: 0,
            bytes: 0,
            count: 0,
            sum: Sum::default(),
        }
    }

    /// Takes one step.
    pub fn step(&mut self, state: &State, budget: &mut StepBudget) -> Progress {
        let next = match self.next {
            Some(next) => next,
            None => match self.start(state) {
                Ok(next) => next,
                Err(reason) => return Progress::Failed(ScanError::Refused(reason)),
            },
        };
        if next.0 <= state.revision && state.history.compacted() > next.0 {
            return self.restart(state, budget);
        }
        if !self.catch_up(state, next, budget) {
            return Progress::More;
        }
        match self.at {
            Revision::NONE => self.visit_present(state, budget),
            _ => self.visit_past(state, budget),
        }
        // The key behind the limit is not in the answer.
        let spare = if self.has_enough() { KEY_VALUE_BYTES_MAX } else { 0 };
        if self.bytes > self.bytes_max.saturating_add(spare) {
            return Progress::Failed(ScanError::TooLarge(self.bytes_max));
        }
        let is_done = self.counted.is_end() && (self.is_collected() || self.at != Revision::NONE);
        if is_done { Progress::Done(self.finish(state.revision)) } else { Progress::More }
    }

    /// Where the history matters from.
    fn start(&self, state: &State) -> Result<(Revision, usize), Reason> {
        if self.at == Revision::NONE {
            return Ok((state.revision.next(), 0));
        }
        if self.at > state.revision {
            return Err(Reason::RevisionFuture(state.revision));
        }
        if self.at < state.history.compacted() {
            return Err(Reason::Compacted(state.history.compacted()));
        }
        Ok((self.at.next(), 0))
    }

    /// Starts over at the present. What is gone of the past does not come back.
    fn restart(&mut self, state: &State, budget: &mut StepBudget) -> Progress {
        if self.at != Revision::NONE {
            let reason = Reason::Compacted(state.history.compacted());
            return Progress::Failed(ScanError::Refused(reason));
        }
        if self.restarts == RESTARTS_MAX {
            return Progress::Failed(ScanError::Outrun);
        }
        let Scan { query, wants, at, bytes_max, restarts, .. } = self;
        let again = Scan::new(query.clone(), *wants, *at, *bytes_max);
        *self = Scan { restarts: *restarts + 1, ..again };
        self.step(state, budget)
    }

    /// Applies the events since the last step. Whether those were all.
    fn catch_up(
        &mut self,
        state: &State,
        mut next: (Revision, usize),
        budget: &mut StepBudget,
    ) -> bool {
        let is_present = self.at == Revision::NONE;
        let units = if is_present { EVENT_UNITS } else { PAST_EVENT_UNITS };
        if next.0 <= state.revision {
            for (event, bytes) in state.history.starting_behind(next.0, next.1) {
                if budget.is_spent() {
                    self.next = Some(next);
                    return false;
                }
                budget.spend_on(units, bytes, ANSWER_BYTES_PER_UNIT);
                next = match event.revision == next.0 {
                    true => (next.0, next.1 + 1),
                    false => (event.revision, 1),
                };
                self.apply(&event);
            }
        }
        // What may still come at this revision changes no key.
        self.next = Some((state.revision.next(), 0));
        true
    }

    fn apply(&mut self, event: &Event) {
        let (before, after) = match &event.kind {
            EventKind::Put { kv, prev } => (prev.as_deref(), Some(kv)),
            EventKind::Deleted { prev, .. } => (Some(prev), None),
            _ => return,
        };
        let key = event.key();
        if !self.query.range.contains(key) {
            return;
        }
        let is_counted = self.counted.covers(key);
        if self.at != Revision::NONE {
            if !is_counted && !self.changes.contains_key(key) {
                self.changes.insert(key.clone(), before.cloned());
            }
            return;
        }
        if is_counted {
            if let Some(before) = before {
                self.count -= 1;
                self.hash_with(|sum| sum.remove(before));
            }
            if let Some(after) = after {
                self.count += 1;
                self.hash_with(|sum| sum.add(after));
            }
        }
        if self.wants == Wants::Keys && self.collected.covers(key) {
            let after = after.filter(|kv| self.query.admits(kv.create_revision, kv.mod_revision));
            let after = after.map(|kv| self.shown(kv.clone()));
            self.change(key, after);
        }
    }

    fn hash_with(&mut self, act: impl FnOnce(&mut Sum)) {
        if self.wants == Wants::Hash {
            act(&mut self.sum);
        }
    }

    /// Changes a key that was collected, or passed over.
    fn change(&mut self, key: &Key, after: Option<KeyValue>) {
        let before = match self.changes.get(key) {
            Some(changed) => changed.as_ref(),
            None => {
                let place = self.kvs.binary_search_by(|kv| kv.key.cmp(key));
                place.ok().map(|place| &self.kvs[place])
            }
        };
        if let Some(size) = before.map(|kv| self.size(kv)) {
            self.kept -= 1;
            self.bytes -= size;
        }
        if let Some(size) = after.as_ref().map(|kv| self.size(kv)) {
            self.kept += 1;
            self.bytes += size;
        }
        self.changes.insert(key.clone(), after);
    }

    /// Whether all keys of the answer are collected.
    fn is_collected(&self) -> bool {
        self.wants != Wants::Keys || self.collected.is_end() || self.has_enough()
    }

    /// Whether the limit is reached, and one more key was seen, so that the rest only counts.
    fn has_enough(&self) -> bool {
        self.query.limit > 0 && self.query.sorts_what_it_takes() && self.kept > self.query.limit
    }

    fn visit_present(&mut self, state: &State, budget: &mut StepBudget) {
        if !self.is_collected() {
            self.collect(state, budget);
        }
        if self.is_collected() && !self.counted.is_end() && !budget.is_spent() {
            self.count_present(state, budget);
        }
    }

    /// Collects keys, and counts those that are not counted yet.
    fn collect(&mut self, state: &State, budget: &mut StepBudget) {
        let collected = take(&mut self.collected);
        let counted_ahead = self.counted != collected;
        let mut last = None;
        if let Some(bounds) = self.query.range.clone().bounds_after(collected.after()) {
            for (key, record) in state.keys.range::<[u8], _>(bounds) {
                if !(counted_ahead && self.counted.covers(key)) {
                    self.count += 1;
                }
                let bytes = self.keep(key, record);
                budget.spend_on(KEY_UNITS, bytes, ANSWER_BYTES_PER_UNIT);
                if budget.is_spent() || self.has_enough() {
                    last = Some(key.clone());
                    break;
                }
            }
        }
        self.collected = last.map_or(Cursor::End, Cursor::At);
        let is_ahead = match &self.collected {
            Cursor::At(last) => !self.counted.covers(last),
            Cursor::Start | Cursor::End => true,
        };
        if is_ahead {
            self.counted = self.collected.clone();
        }
    }

    /// Collects a key, unless the query leaves it out. How many bytes that adds.
    fn keep(&mut self, key: &Key, record: &Record) -> usize {
        if !self.query.admits(record.created, record.modified) {
            return 0;
        }
        let kv = self.shown(record.key_value(key));
        self.push(kv)
    }

    fn push(&mut self, kv: KeyValue) -> usize {
        let size = self.size(&kv);
        self.kept += 1;
        self.bytes += size;
        self.kvs.push(kv);
        usize::try_from(size).unwrap_or(usize::MAX)
    }

    /// Counts or hashes keys.
    fn count_present(&mut self, state: &State, budget: &mut StepBudget) {
        let counted = take(&mut self.counted);
        let mut last = None;
        if let Some(bounds) = self.query.range.clone().bounds_after(counted.after()) {
            for (key, record) in state.keys.range::<[u8], _>(bounds) {
                self.count += 1;
                self.measure(key, record, budget);
                if budget.is_spent() {
                    last = Some(key.clone());
                    break;
                }
            }
        }
        self.counted = last.map_or(Cursor::End, Cursor::At);
    }

    /// Hashes a key if that is wanted.
    fn measure(&mut self, key: &Key, record: &Record, budget: &mut StepBudget) {
        if self.wants == Wants::Hash {
            self.sum.add(&record.key_value(key));
            let bytes = key.len() + record.value.len();
            budget.spend_on(KEY_UNITS, bytes, HASHED_BYTES_PER_UNIT);
        } else {
            budget.spend(COUNT_UNITS);
        }
    }

    /// Goes through what is there now and what has changed since, in the order of keys.
    fn visit_past(&mut self, state: &State, budget: &mut StepBudget) {
        let counted = take(&mut self.counted);
        let range = self.query.range.clone();
        let bounds = range.bounds_after(counted.after());
        let mut present = bounds.into_iter().flat_map(|bounds| state.keys.range::<[u8], _>(bounds));
        let mut ahead = present.next();
        let mut last = None;
        loop {
            let changed = self.changes.first_key_value().map(|(key, _)| key);
            let key = match (ahead, changed) {
                (None, None) => break,
                (Some((key, _)), Some(changed)) if key < changed => key.clone(),
                (_, Some(changed)) => changed.clone(),
                (Some((key, _)), None) => key.clone(),
            };
            if budget.is_spent() {
                break;
            }
            let record = ahead.filter(|(at, _)| **at == key);
            if record.is_some() {
                ahead = present.next();
            }
            match self.changes.remove(&key) {
                Some(before) => before.into_iter().for_each(|kv| self.take_past(kv, budget)),
                None => {
                    let kv = record.map(|(key, record)| record.key_value(key));
                    kv.into_iter().for_each(|kv| self.take_past(kv, budget));
                }
            }
            last = Some(key);
        }
        let is_end = ahead.is_none() && self.changes.is_empty();
        self.counted = match last {
            _ if is_end => Cursor::End,
            Some(last) => Cursor::At(last),
            None => counted,
        };
    }

    fn take_past(&mut self, kv: KeyValue, budget: &mut StepBudget) {
        self.count += 1;
        match self.wants {
            Wants::Count => budget.spend(KEY_UNITS),
            Wants::Hash => {
                self.sum.add(&kv);
                let bytes = kv.key.len() + kv.value.len();
                budget.spend_on(KEY_UNITS, bytes, HASHED_BYTES_PER_UNIT);
            }
            Wants::Keys => {
                let is_wanted = self.query.admits(kv.create_revision, kv.mod_revision);
                let bytes = match is_wanted && !self.has_enough() {
                    true => self.push(self.shown(kv)),
                    false => 0,
                };
                budget.spend_on(KEY_UNITS, bytes, ANSWER_BYTES_PER_UNIT);
            }
        }
    }

    /// A key without its value, if that is neither shown nor sorted by.
    fn shown(&self, mut kv: KeyValue) -> KeyValue {
        if self.query.keys_only && self.query.sort_by != SortBy::Value {
            kv.value = Value::default();
        }
        kv
    }

    /// What a key takes. Values are shared with the state; if a limit decides later which of them
    /// are in the answer, they do not count yet.
    fn size(&self, kv: &KeyValue) -> u64 {
        let is_certain = self.query.limit == 0 || self.query.sorts_what_it_takes();
        let value = if is_certain && !self.query.keys_only { kv.value.len() } else { 0 };
        KEY_VALUE_BYTES + (kv.key.len() + value) as u64
    }

    fn finish(&mut self, revision: Revision) -> Scanned {
        Scanned {
            revision,
            query: self.query.clone(),
            kvs: take(&mut self.kvs),
            changes: take(&mut self.changes),
            kept: self.kept,
            bytes: self.bytes,
            count: self.count,
            sum: self.sum,
        }
    }
}
