//! The log as its records tell it, one after the other.

use std::collections::BTreeMap;

use super::item::{Entry, EntryRef, HardState, Head, Item, Start, Witness};

/// What the records read so far amount to.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) hard_state: HardState,
    pub(super) start: Start,
    /// Those after `start` and `gone`, without gaps.
    pub(super) entries: Vec<Entry>,
    /// What was seen of other members, by their numbers.
    pub(super) witnesses: BTreeMap<u64, Witness>,
    /// Entries up to here were in segments that are no longer there. That is right if `start`
    /// comes to cover them by the end of the log.
    gone: u64,
}

impl Replay {
    /// Begins with the oldest segment.
    pub(super) fn begin(head: Head) -> Replay {
        let Head { hard_state, start, last_index } = head;
        Replay { hard_state, start, gone: last_index, ..Replay::default() }
    }

    pub(super) fn last_index(&self) -> u64 {
        let covered = self.start.index.max(self.gone);
        self.entries.last().map_or(covered, |entry| entry.index)
    }

    /// The last entry, or the one that the log begins after.
    pub(super) fn last(&self) -> Start {
        let last = self.entries.last().map(|entry| Start { index: entry.index, term: entry.term });
        last.unwrap_or(self.start)
    }

    /// What the head of a segment that begins here must say.
    pub(super) fn head(&self) -> Head {
        Head { hard_state: self.hard_state, start: self.start, last_index: self.last_index() }
    }

    pub(super) fn apply(&mut self, item: Item<'_>) -> Result<(), &'static str> {
        match item {
            Item::Head(_) => Err("the head of a segment in its middle"),
            Item::Entry(entry) => self.entry(entry),
            Item::HardState(hard_state) => {
                self.hard_state = hard_state;
                Ok(())
            }
            Item::Replace(start) => self.replace(start),
            Item::Purge(start) => self.purge(start),
            Item::Witness(witness) => {
                note(&mut self.witnesses, witness);
                Ok(())
            }
        }
    }

    fn entry(&mut self, entry: EntryRef<'_>) -> Result<(), &'static str> {
        let last_index = self.last_index();
        if entry.index > last_index.saturating_add(1) {
            return Err("a gap between entries");
        }
        if entry.index <= self.start.index {
            return Err("an entry from before the beginning of the log");
        }
        self.keep_below(entry.index);
        self.gone = self.gone.min(entry.index - 1);
        self.entries.push(entry.into());
        Ok(())
    }

    fn keep_below(&mut self, index: u64) {
        let kept = self.entries.partition_point(|entry| entry.index < index);
        self.entries.truncate(kept);
    }

    fn replace(&mut self, start: Start) -> Result<(), &'static str> {
        if start.index < self.start.index {
            return Err("a beginning of the log that goes back");
        }
        self.entries.clear();
        self.gone = start.index;
        self.start = start;
        Ok(())
    }

    fn purge(&mut self, start: Start) -> Result<(), &'static str> {
        if start.index < self.start.index {
            return Err("a beginning of the log that goes back");
        }
        if start.index > self.last_index() {
            return Err("a beginning of the log after its end");
        }
        let dropped = self.entries.partition_point(|entry| entry.index <= start.index);
        self.entries.drain(..dropped);
        self.start = start;
        Ok(())
    }

    /// Whether entries that still count are not there.
    pub(super) fn lacks_entries(&self) -> bool {
        self.gone > self.start.index
    }
}

/// Keeps what was seen last of a member.
pub(super) fn note(witnesses: &mut BTreeMap<u64, Witness>, witness: Witness) {
    match witness.is_empty() {
        true => drop(witnesses.remove(&witness.member)),
        false => drop(witnesses.insert(witness.member, witness)),
    }
}
