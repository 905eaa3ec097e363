//! The reference: a state of the checkers' own, to which every entry is applied once.
//!
//! Owns: the log as the first member to apply each entry saw it, and the state that follows from
//! it. Guarantees: the state at any index of the present era can be had again.

use fencepost_core::codec::decode_entry;
use fencepost_core::{Effects, Entry, LogTime, Mutant, Revision, State};

use crate::seen::{Time, Violation};

use super::broken;

/// A copy of the state is kept every so many entries.
const KEEP_EVERY: u64 = 256;

/// An entry as the first member to apply it saw it.
pub(super) struct Stored {
    pub(super) term: u64,
    pub(super) kind: i32,
    pub(super) data: Box<[u8]>,
    /// The highest term in which anybody had led by then. Whoever committed it led in that term
    /// or an earlier one.
    pub(super) led: u64,
}

/// What one entry did.
pub(super) struct Step<'a> {
    /// When it was first applied, in true time.
    pub(super) at: Time,
    pub(super) index: u64,
    pub(super) effects: &'a Effects,
    /// Log time before and after.
    pub(super) before: LogTime,
    pub(super) now: LogTime,
    pub(super) revision_before: Revision,
    /// How long a queue was allowed to be.
    pub(super) queue_len_max_before: u32,
    /// The state after it.
    pub(super) state: &'a State,
}

/// The reference.
pub(super) struct Oracle {
    pub(super) state: State,
    /// The log of this era begins after this index.
    base: Option<u64>,
    entries: Vec<Stored>,
    kept: Vec<(u64, State)>,
    mutant: Option<Mutant>,
}

/// An entry that was applied for the first time, and is not looked at yet.
pub(super) struct Fresh {
    pub(super) entry: Entry,
    pub(super) effects: Effects,
    pub(super) before: LogTime,
    pub(super) revision_before: Revision,
    pub(super) queue_len_max_before: u32,
}

impl Oracle {
    pub(super) fn new(mutant: Option<Mutant>) -> Oracle {
        let mut oracle =
            Oracle { state: State::new(), base: None, entries: vec![], kept: vec![], mutant };
        oracle.plant();
        oracle
    }

    fn plant(&mut self) {
        if let Some(mutant) = self.mutant {
            self.state.plant(mutant);
        }
    }

    /// The cluster goes on from a backup.
    pub(super) fn restore(&mut self, index: u64, state: &State) {
        self.state = state.clone();
        self.plant();
        self.base = Some(index);
        self.entries.clear();
        self.kept.clear();
    }

    /// The last entry that any member has applied.
    pub(super) fn head(&self) -> u64 {
        self.base.unwrap_or(0) + self.entries.len() as u64
    }

    /// The entry at an index of this era, if any member has applied it.
    pub(super) fn entry(&self, index: u64) -> Option<&Stored> {
        let place = index.checked_sub(self.base? + 1)?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    /// The first index of this era.
    pub(super) fn first(&self) -> u64 {
        self.base.unwrap_or(0) + 1
    }

    /// Takes an entry that nobody has applied before. Nothing, for what is not the state's.
    pub(super) fn take(&mut self, index: u64, stored: Stored) -> Result<Option<Fresh>, Violation> {
        let base = *self.base.get_or_insert(index - 1);
        if index != self.head() + 1 {
            return Err(broken("I1", format!("entry {index} was applied before {}", index - 1)));
        }
        if (index - base - 1).is_multiple_of(KEEP_EVERY) {
            self.kept.push((index - 1, self.state.clone()));
        }
        let entry = decoded(&stored, index)?;
        self.entries.push(stored);
        let Some(entry) = entry else { return Ok(None) };
        let (before, revision_before) = (self.state.now(), self.state.revision());
        let queue_len_max_before = self.state.limits().queue_len_max;
        let effects = self.state.apply(entry.clone());
        Ok(Some(Fresh { entry, effects, before, revision_before, queue_len_max_before }))
    }

    /// The state right after an index of this era.
    pub(super) fn state_at(&self, index: u64) -> Option<State> {
        if index == self.head() || self.base.is_none() {
            return Some(self.state.clone());
        }
        if index > self.head() {
            return None;
        }
        let (from, state) = self.kept.iter().rev().find(|(from, _)| *from <= index)?;
        let mut state = state.clone();
        for index in from + 1..=index {
            let stored = self.entry(index)?;
            if let Ok(Some(entry)) = decoded(stored, index) {
                state.apply(entry);
            }
        }
        Some(state)
    }
}

fn decoded(stored: &Stored, index: u64) -> Result<Option<Entry>, Violation> {
    if stored.kind != 0 || stored.data.is_empty() {
        return Ok(None);
    }
    match decode_entry(&stored.data) {
        Ok(entry) => Ok(Some(entry)),
        Err(why) => Err(broken("I1", format!("entry {index} cannot be read: {why}"))),
    }
}
