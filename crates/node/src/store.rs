//! The log in memory, as the consensus engine reads it.
//!
//! What is handed out to be persisted is readable here at once. That is safe because the engine
//! itself keeps apart what is durable, and it lets several batches be on their way to the disk.

use raft::prelude::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Result, Storage, StorageError};

use crate::machine::{LogTime, stamp_of};
use crate::wal::{self, Recovered, Start};

/// The log after the last snapshot, and what the engine must not forget.
#[derive(Debug, Default)]
pub struct Store {
    hard_state: HardState,
    conf_state: ConfState,
    /// What stands just before the first entry.
    start: Start,
    entries: Vec<Entry>,
}

impl Store {
    /// A log as it was recovered from disk, with the members as the snapshot before it has them.
    pub fn recovered(recovered: Recovered, conf_state: ConfState) -> Store {
        let wal::HardState { term, vote, commit } = recovered.hard_state;
        // A snapshot stands for what was committed.
        let commit = commit.max(recovered.start.index);
        let hard_state = HardState { term, vote, commit };
        let entries = recovered.entries.into_iter().map(engine_entry).collect();
        Store { hard_state, conf_state, start: recovered.start, entries }
    }

    /// Notes that everything up to `index` is committed, as far as it is there.
    pub fn raise_commit(&mut self, index: u64) {
        self.hard_state.commit = self.hard_state.commit.max(index.min(self.last()));
    }

    /// Appends entries. The first one replaces what stands at its index and all after it.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.start.index, "an entry of the snapshot is never replaced");
        let keep = usize::try_from(first.index - self.start.index - 1).unwrap_or(usize::MAX);
        assert!(keep <= self.entries.len(), "a gap before entry {}", first.index);
        self.entries.truncate(keep);
        self.entries.extend_from_slice(entries);
    }

    /// Notes a new term, vote or commit index.
    pub fn set_hard_state(&mut self, hard_state: HardState) {
        self.hard_state = hard_state;
    }

    /// The term, the vote and the commit index.
    pub fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    /// Notes who the members are.
    pub fn set_conf_state(&mut self, conf_state: ConfState) {
        self.conf_state = conf_state;
    }

    /// Who the members are.
    pub fn conf_state(&self) -> &ConfState {
        &self.conf_state
    }

    /// The last stamp in the log. Entries of the engine itself have none.
    pub fn last_stamp(&self) -> Option<LogTime> {
        let stamped = |entry: &Entry| match entry.get_entry_type() {
            EntryType::EntryNormal => stamp_of(&entry.data),
            EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => None,
        };
        self.entries.iter().rev().find_map(stamped)
    }

    fn last(&self) -> u64 {
        self.start.index + self.entries.len() as u64
    }

    fn at(&self, index: u64) -> Option<&Entry> {
        let offset = index.checked_sub(self.start.index + 1)?;
        self.entries.get(usize::try_from(offset).ok()?)
    }
}

fn engine_entry(entry: wal::Entry) -> Entry {
    let wal::Entry { index, term, kind, data } = entry;
    Entry { entry_type: i32::from(kind), index, term, data, ..Entry::default() }
}

impl Storage for Store {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.conf_state.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        if low <= self.start.index {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let mut found: Vec<Entry> =
            (low..high).map_while(|index| self.at(index).cloned()).collect();
        raft::util::limit_size(&mut found, max_size.into());
        Ok(found)
    }

    fn term(&self, index: u64) -> Result<u64> {
        if index == self.start.index {
            return Ok(self.start.term);
        }
        if index < self.start.index {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let entry = self.at(index).ok_or(raft::Error::Store(StorageError::Unavailable))?;
        Ok(entry.term)
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.start.index + 1)
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, _: u64, _: u64) -> Result<Snapshot> {
        Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
