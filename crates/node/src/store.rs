//! The log in memory, as the consensus engine reads it.
//!
//! What is handed out to be persisted is readable here at once. That is safe because the engine
//! itself keeps apart what is durable, and it lets several batches be on their way to the disk.

use std::cell::Cell;
use std::collections::BTreeMap;

use raft::prelude::{ConfState, Entry, EntryType, HardState, Snapshot, SnapshotMetadata};
use raft::{GetEntriesContext, RaftState, Result, Storage, StorageError};

use crate::bytes::to_u64;
use crate::machine::{LogTime, stamp_of};
use crate::snapshot_store::SnapshotId;
use crate::wal::{self, Recovered, Start, Witness};

/// The log after the last snapshot, and what the engine must not forget.
#[derive(Debug, Default)]
pub struct Store {
    hard_state: HardState,
    conf_state: ConfState,
    /// What stands just before the first entry.
    start: Start,
    entries: Vec<Entry>,
    /// The newest snapshot on disk, and who the members are there.
    snapshot: (SnapshotId, ConfState),
    /// What the log said about other members when it was opened.
    witnesses: BTreeMap<u64, Witness>,
    /// Somebody needs a newer snapshot than there is. Set while the engine only reads.
    wanted: Cell<bool>,
}

impl Store {
    /// A log as it was recovered from disk, with the members as the snapshot before it has them.
    pub fn recovered(recovered: Recovered, conf_state: ConfState, id: SnapshotId) -> Store {
        let wal::HardState { term, vote, commit } = recovered.hard_state;
        // A snapshot stands for what was committed.
        let commit = commit.max(recovered.start.index);
        let hard_state = HardState { term, vote, commit };
        let entries = recovered.entries.into_iter().map(engine_entry).collect();
        let snapshot = (id, conf_state.clone());
        let start = recovered.start;
        let witnesses = recovered.witnesses;
        let wanted = Cell::new(false);
        Store { hard_state, conf_state, start, entries, snapshot, witnesses, wanted }
    }

    /// Begins anew behind a snapshot that came from another member.
    pub fn install(&mut self, id: SnapshotId, conf_state: ConfState) {
        assert!(id.index >= self.start.index, "a log does not go back to an older snapshot");
        self.start = Start { index: id.index, term: id.term };
        self.entries.clear();
        self.hard_state.commit = self.hard_state.commit.max(id.index);
        self.conf_state = conf_state.clone();
        self.snapshot = (id, conf_state);
    }

    /// A snapshot was made here.
    pub fn set_snapshot(&mut self, id: SnapshotId, conf_state: ConfState) {
        self.snapshot = (id, conf_state);
    }

    /// Takes out what the log said about other members when it was opened.
    pub fn take_witnesses(&mut self) -> BTreeMap<u64, Witness> {
        std::mem::take(&mut self.witnesses)
    }

    /// The newest snapshot on disk.
    pub fn snapshot_id(&self) -> SnapshotId {
        self.snapshot.0
    }

    /// Who the members are in the newest snapshot.
    pub fn snapshot_members(&self) -> &ConfState {
        &self.snapshot.1
    }

    /// Whether a member needs a newer snapshot than there is. Asking forgets it.
    pub fn take_wanted(&self) -> bool {
        self.wanted.take()
    }

    /// Forgets the entries up to this one.
    pub fn compact(&mut self, start: Start) {
        assert!(start.index >= self.start.index, "the beginning of the log goes back");
        assert!(start.index <= self.last(), "a log cannot begin after its end");
        let gone = usize::try_from(start.index - self.start.index).unwrap_or(usize::MAX);
        self.entries.drain(..gone);
        self.start = start;
    }

    /// What stands just before the first entry.
    pub fn start(&self) -> Start {
        self.start
    }

    /// The entry at an index, if it is there.
    pub fn entry(&self, index: u64) -> Option<&Entry> {
        self.at(index)
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
        // Not all of it first: the log of a member that lags is long, and the engine asks often.
        let (max, mut size) = (max_size.into().unwrap_or(u64::MAX), 0);
        let fits = |entry: &&Entry| {
            let is_first = size == 0;
            size += to_u64(prost_for_raft::Message::encoded_len(*entry));
            is_first || size <= max
        };
        let wanted = (low..high).map_while(|index| self.at(index));
        Ok(wanted.take_while(fits).cloned().collect())
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

    /// Only what it is: its bytes travel by themselves. A member cannot use a snapshot that does
    /// not know it, nor one from before an index that it asks for.
    fn snapshot(&self, request_index: u64, to: u64) -> Result<Snapshot> {
        let (id, conf_state) = &self.snapshot;
        let ConfState { voters, learners, voters_outgoing, .. } = conf_state;
        let known = [voters, learners, voters_outgoing].iter().any(|ids| ids.contains(&to));
        if !known || id.index < request_index || id.index < self.start.index {
            self.wanted.set(true);
            return Err(raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        }
        let metadata = SnapshotMetadata {
            index: id.index,
            term: id.term,
            conf_state: Some(conf_state.clone()),
        };
        Ok(Snapshot { data: Vec::new(), metadata: Some(metadata) })
    }
}
