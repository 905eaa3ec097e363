//! The write-ahead log: entries, the hard state, and where the log begins, kept in segments.
//!
//! Owns: the order of writes, syncs and renames that makes the log survive a crash at any moment.
//! `docs/format.md` describes the bytes. Guarantees: what was appended before a successful
//! [`Wal::sync`] is there after a crash; a batch is there wholly or not at all; what was never
//! appended is never there; damage is refused, not repaired. Refuses: to know what entries mean,
//! to read them back (the caller keeps those it needs), and to go on after a failed write.

mod error;
mod forge;
mod item;
mod record;
mod recover;
mod replay;
mod segment;
mod spares;
mod table;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use crate::bytes::to_u64;
use crate::disk::{Disk, DiskFile};
use crate::log_end::LogEnd;
pub use error::{Damaged, Fatal, OpenError};
pub(crate) use forge::segment_of;
pub use item::{Batch, Entry, EntryRef, HardState, Start, Witness};
use item::{Head, Item};
use recover::{Found, Sealed};
use segment::{Active, Header};
use spares::Spares;
pub use spares::{SpareMade, SpareOrder, discard_spares, spare_bytes};

/// The number of the first segment.
const FIRST_SEQUENCE: u64 = 1;

/// Whether a file of this name is a part of a log.
pub fn is_segment(name: &str) -> bool {
    segment::sequence(name).is_some()
}

/// How a log is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalConfig {
    /// How long a segment is, between 256 bytes and 1 GiB. Others are brought into these bounds.
    /// May change from one opening to the next.
    pub segment_bytes: u64,
    /// A number that clients cannot guess. It goes into every checksum, so that nobody can store
    /// a value that passes as a record where the log ends. Only used when the log is made: after
    /// that the one in the log counts.
    pub salt: u64,
}

impl WalConfig {
    /// Small enough that making one does not stall the node for long, large enough that changing
    /// segments costs nothing beside the syncs within one.
    pub const SEGMENT_BYTES: u64 = 16 << 20;

    /// The usual, with this salt.
    #[must_use]
    pub fn with_salt(salt: u64) -> WalConfig {
        WalConfig { segment_bytes: WalConfig::SEGMENT_BYTES, salt }
    }

    fn segment_bytes(self) -> u64 {
        let bytes = self.segment_bytes.next_multiple_of(8);
        bytes.clamp(segment::SEGMENT_BYTES_MIN, segment::SEGMENT_BYTES_MAX)
    }
}

/// What a log held when it was opened. All of it is durable.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// There was no log, and one was made. A node that has been a member before must not go on
    /// with this: it would forget its votes.
    pub is_new: bool,
    /// The last one that was appended.
    pub hard_state: HardState,
    /// Where the log begins.
    pub start: Start,
    /// All entries after that, without gaps.
    pub entries: Vec<Entry>,
    /// What was seen of other members, by their numbers.
    pub witnesses: BTreeMap<u64, Witness>,
}

/// An open log. There must be only one for a directory: [`crate::data_dir`] sees to that.
#[derive(Debug)]
pub struct Wal<D: Disk> {
    disk: D,
    /// Oldest first. Their numbers have no gap, and the active segment comes next.
    sealed: VecDeque<Sealed>,
    active: Active<D::File>,
    spares: Spares,
    /// What the head of the next segment will say.
    state: Head,
    /// The term of the last entry, or of the one that the log begins after.
    last_term: u64,
    /// The format that the next segment gets.
    version: u32,
    /// What was seen of other members. Written again in each segment, because older ones go away.
    witnesses: BTreeMap<u64, Witness>,
    /// The record that is being made. Kept to use its memory again.
    buffer: Vec<u8>,
    /// What failed, if something did.
    failed: Option<&'static str>,
}

impl<D: Disk> Wal<D> {
    /// Opens the log of a directory, or makes one.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. After a refusal the log is as it was before.
    pub fn open(disk: D, config: WalConfig) -> Result<(Wal<D>, Recovered), OpenError> {
        Wal::open_if(disk, config, |_| Ok(()))
    }

    /// Opens the log of a directory if `check` finds nothing wrong with its last entry.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. After a refusal the log is as it was before.
    pub fn open_if(
        disk: D,
        config: WalConfig,
        check: impl FnOnce(Start) -> Result<(), OpenError>,
    ) -> Result<(Wal<D>, Recovered), OpenError> {
        let io = |doing| move |source| OpenError::Io { doing, source };
        let names = disk.list().map_err(io("listing the directory"))?;
        let found = recover::read(&disk, &recover::sequences(&names))?;
        let is_new = found.is_none();
        let spares = Spares::find(&disk, &names, config.segment_bytes());
        let spares = spares.map_err(io("looking for spare segments"))?;
        let (wal, entries) = match found {
            None => (Wal::make(disk, config.salt, spares).map_err(io("making a log"))?, Vec::new()),
            Some(found) => {
                check(found.replay.last())?;
                Wal::resume(disk, config, spares, found).map_err(io("cutting off a torn tail"))?
            }
        };
        let Head { hard_state, start, .. } = wal.state;
        let witnesses = wal.witnesses.clone();
        Ok((wal, Recovered { is_new, hard_state, start, entries, witnesses }))
    }

    fn make(disk: D, salt: u64, mut spares: Spares) -> io::Result<Wal<D>> {
        let version = segment::VERSION_FIRST;
        let header = Header { version, sequence: FIRST_SEQUENCE, salt, previous_end: 0 };
        let state = Head::default();
        let (name, file) = spares.take(&disk, FIRST_SEQUENCE, 0)?;
        let active = segment::begin(&disk, &name, file, header, state)?;
        Ok(Wal::with(disk, VecDeque::new(), active, spares, state))
    }

    fn with(
        disk: D,
        sealed: VecDeque<Sealed>,
        active: Active<D::File>,
        spares: Spares,
        state: Head,
    ) -> Wal<D> {
        Wal {
            disk,
            sealed,
            active,
            spares,
            state,
            last_term: state.start.term,
            version: segment::VERSION_FIRST,
            witnesses: BTreeMap::new(),
            buffer: Vec::new(),
            failed: None,
        }
    }

    /// Goes on with a log that was read.
    ///
    /// What was read may never have been synced, if only the process died. It is synced now,
    /// names and bytes: the caller will act on it, and then it must not vanish any more. Bytes
    /// that no mark vouches for are written once more before that. If the process ended because a
    /// sync failed, the system can still show them, believe that they are written, and let the
    /// next sync succeed without them.
    ///
    /// The tail becomes zeros before anything is appended. A sound record in it could otherwise
    /// come to lie right behind a new one and be taken for the next.
    fn resume(
        disk: D,
        config: WalConfig,
        spares: Spares,
        found: Found,
    ) -> io::Result<(Wal<D>, Vec<Entry>)> {
        let Found { replay, sealed, last } = found;
        let mut file = disk.open(&segment::name(last.header.sequence))?;
        if last.proven < last.end {
            file.write_at(to_u64(last.proven), &last.bytes[last.proven..last.end])?;
        }
        for (offset, len) in recover::soiled(&last.bytes, last.end) {
            file.write_zeros(offset, len)?;
        }
        let capacity = recover::fill_up(&mut file, &last, config.segment_bytes())?;
        file.sync_data()?;
        disk.sync_dir()?;
        let (header, end, max_index) = (last.header, last.end, last.max_index);
        let active = Active { file, header, capacity, end, synced: end, max_index };
        let mut wal = Wal::with(disk, sealed, active, spares, replay.head());
        wal.last_term = replay.last().term;
        wal.witnesses = replay.witnesses;
        wal.version = header.version;
        if !last.is_proven {
            wal.mark()?;
        }
        // A crash at the change of segments can lose the table, which comes first. Without it the
        // witnesses would go away with the older segments.
        if end == segment::FIRST_RECORD_AT {
            wal.rewrite_table()?;
        }
        Ok((wal, replay.entries))
    }

    /// Appends a batch with one write, or two at a change of segments; three if there are witnesses.
    /// It is durable after the next successful [`Wal::sync`].
    ///
    /// # Panics
    ///
    /// If the batch does not fit the log: a gap between entries, an entry from before the
    /// beginning, a beginning that goes back. Recovery would refuse such a log.
    ///
    /// # Errors
    ///
    /// See [`Fatal`].
    pub fn append(&mut self, batch: &Batch<'_>) -> Result<(), Fatal> {
        self.check_alive()?;
        let state = self.after(batch);
        record::begin(&mut self.buffer);
        if let Some(start) = batch.start {
            Item::Replace(start).put(&mut self.buffer);
        }
        if let Some(hard_state) = batch.hard_state {
            Item::HardState(hard_state).put(&mut self.buffer);
        }
        for entry in &batch.entries {
            Item::Entry(*entry).put(&mut self.buffer);
        }
        for witness in &batch.witnesses {
            // From the first one on, segments have a format that earlier builds refuse.
            self.version = segment::VERSION;
            Item::Witness(*witness).put(&mut self.buffer);
        }
        self.write_record()?;
        self.state = state;
        let start_term = batch.start.map(|start| start.term);
        let last_term = batch.entries.last().map(|entry| entry.term).or(start_term);
        self.last_term = last_term.unwrap_or(self.last_term);
        for witness in &batch.witnesses {
            replay::note(&mut self.witnesses, *witness);
        }
        if batch.start.is_some() {
            self.active.max_index = 0;
            self.sealed.iter_mut().for_each(|segment| segment.max_index = 0);
        }
        let last = batch.entries.last().map_or(0, |entry| entry.index);
        self.active.max_index = self.active.max_index.max(last);
        Ok(())
    }

    /// Lets the disk begin with what was appended, so that [`Wal::sync`] has less to wait for.
    pub fn begin_sync(&self) {
        let Active { end, synced, .. } = self.active;
        if synced < end && self.failed.is_none() {
            self.active.file.begin_sync(to_u64(synced), to_u64(end - synced));
        }
    }

    /// Makes durable all that was appended, with one sync.
    ///
    /// # Errors
    ///
    /// See [`Fatal`].
    pub fn sync(&mut self) -> Result<(), Fatal> {
        self.check_alive()?;
        let synced = self.sync_active();
        self.guard("syncing a segment", synced)
    }

    /// Lets the log begin after `start`, which a durable snapshot must cover, and uses segments
    /// again that hold nothing else. Later entries stay. Syncs what was appended before.
    ///
    /// # Panics
    ///
    /// If `start` lies before the beginning of the log or after its end.
    ///
    /// # Errors
    ///
    /// See [`Fatal`].
    pub fn purge(&mut self, start: Start) -> Result<(), Fatal> {
        self.check_alive()?;
        assert!(start.index >= self.state.start.index, "the beginning of the log goes back");
        assert!(start.index <= self.state.last_index, "a log cannot begin after its end");
        if start.index > self.state.start.index {
            record::begin(&mut self.buffer);
            Item::Purge(start).put(&mut self.buffer);
            self.write_record()?;
            self.state.start = start;
        }
        // Before a segment goes away it must be durable that the log does not need it.
        let synced = self.sync_active();
        self.guard("syncing a segment", synced)?;
        while let Some(oldest) = self.sealed.front().copied() {
            if oldest.max_index > start.index {
                break;
            }
            let recycled = self.spares.recycle(&self.disk, oldest.sequence, oldest.capacity);
            self.guard("recycling a segment", recycled)?;
            self.sealed.pop_front();
        }
        Ok(())
    }

    /// A spare segment that should be made now, so that the next change of segments does not have to.
    /// Whoever asks makes it beside the log, and [hands it in](Wal::put_spare).
    pub fn order_spare(&mut self) -> Option<SpareOrder<D>> {
        let Active { header, end, capacity, .. } = &self.active;
        let is_time = self.failed.is_none() && *end >= capacity / 2;
        is_time.then(|| self.spares.order(&self.disk, header.sequence + 1, *end)).flatten()
    }

    /// Takes the spare segment that was ordered.
    pub fn put_spare(&mut self, made: SpareMade) {
        self.spares.put(made, self.active.end);
    }

    /// Syncs, and leaves a mark that all of the log was durable. Without it, damage to the last
    /// record cannot be told from a torn write at the next opening.
    ///
    /// # Errors
    ///
    /// See [`Fatal`].
    pub fn close(mut self) -> Result<(), Fatal> {
        self.sync()?;
        let marked = self.mark().and_then(|()| self.sync_active());
        self.guard("closing the log", marked)
    }

    /// The same, and notes beside the log where it ends, for the next process. If the log lacks
    /// entries up to `lacking`, it notes that they must be there, so that no later process goes on
    /// without them.
    ///
    /// # Errors
    ///
    /// See [`Fatal`].
    pub fn close_at(self, boot: u64, commit: u64, lacking: Option<u64>) -> Result<(), Fatal> {
        let last = Start { index: self.state.last_index, term: self.last_term };
        let end = match lacking {
            Some(index) => LogEnd { boot, last: Start { index, term: 0 }, commit: index },
            None => LogEnd { boot, last, commit: commit.min(last.index) },
        };
        let disk = self.disk.clone();
        self.close()?;
        let doing = "noting where the log ends";
        end.store(&disk).map_err(|source| Fatal::Io { doing, source })
    }

    /// The disk that it is on.
    #[must_use]
    pub fn disk(&self) -> D {
        self.disk.clone()
    }

    /// How long its segments are.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.spares.bytes_each()
    }

    /// The last entry of the log, or the one that it begins after.
    #[must_use]
    pub fn last_index(&self) -> u64 {
        self.state.last_index
    }

    /// How many segments there are, without spares.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.sealed.len() + 1
    }

    /// What the log is after this batch.
    fn after(&self, batch: &Batch<'_>) -> Head {
        let Head { mut hard_state, mut start, mut last_index } = self.state;
        if let Some(new) = batch.start {
            assert!(new.index >= start.index, "the beginning of the log goes back");
            (start, last_index) = (new, new.index);
        }
        hard_state = batch.hard_state.unwrap_or(hard_state);
        for (place, entry) in batch.entries.iter().enumerate() {
            let may_replace = place == 0 && entry.index <= last_index;
            assert!(may_replace || entry.index == last_index + 1, "a gap between entries");
            assert!(entry.index > start.index, "an entry from before the beginning of the log");
            last_index = entry.index;
        }
        Head { hard_state, start, last_index }
    }

    /// Writes the record whose body is in the buffer.
    fn write_record(&mut self) -> Result<(), Fatal> {
        let bytes = self.buffer.len();
        let Some(len) = record::pad(&mut self.buffer) else {
            self.failed = Some("appending a batch");
            return Err(Fatal::TooLarge { bytes, max: segment::RECORD_BYTES_MAX });
        };
        let is_full = self.active.end + self.buffer.len() > self.active.capacity;
        if is_full || self.active.header.version < self.version {
            let changed = self.change_segment();
            self.guard("beginning a segment", changed)?;
        }
        let written = self.write_sealed(len);
        self.guard("writing a record", written)
    }

    fn write_sealed(&mut self, len: u32) -> io::Result<()> {
        let Active { header, end, synced, .. } = self.active;
        record::seal(&mut self.buffer, len, header.seeds(), end, synced);
        self.active.file.write_at(to_u64(end), &self.buffer)?;
        self.active.end = end + self.buffer.len();
        Ok(())
    }

    /// Writes a record without contents, for its mark. There is nothing to lose if it has no
    /// room.
    fn mark(&mut self) -> io::Result<()> {
        record::begin(&mut self.buffer);
        if self.active.end + self.buffer.len() > self.active.capacity {
            return Ok(());
        }
        self.write_sealed(0)
    }

    fn sync_active(&mut self) -> io::Result<()> {
        if self.active.synced < self.active.end {
            self.active.file.sync_data()?;
            self.active.synced = self.active.end;
        }
        Ok(())
    }

    /// Begins the next segment, large enough for the record in the buffer. The present one is
    /// synced first: a segment that another one follows must be whole.
    fn change_segment(&mut self) -> io::Result<()> {
        self.sync_active()?;
        let Header { sequence, salt, .. } = self.active.header;
        let (version, previous_end) = (self.version, self.active.end);
        let header = Header { version, sequence: sequence + 1, salt, previous_end };
        let (mut table, table_len) = table::record_of(&self.witnesses);
        let needed = segment::FIRST_RECORD_AT + table.len() + self.buffer.len();
        let (name, file) = self.spares.take(&self.disk, header.sequence, needed)?;
        let next = segment::begin(&self.disk, &name, file, header, self.state)?;
        let Active { capacity, max_index, .. } = std::mem::replace(&mut self.active, next);
        self.sealed.push_back(Sealed { sequence, capacity, max_index });
        self.write_table(&mut table, table_len)
    }

    /// Writes the table into a segment that has nothing else yet.
    fn rewrite_table(&mut self) -> io::Result<()> {
        let (mut table, len) = table::record_of(&self.witnesses);
        if self.active.end + table.len() > self.active.capacity {
            self.buffer.clear();
            return self.change_segment();
        }
        self.write_table(&mut table, len)
    }

    fn write_table(&mut self, table: &mut Vec<u8>, len: u32) -> io::Result<()> {
        if table.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut self.buffer, table);
        let written = self.write_sealed(len);
        std::mem::swap(&mut self.buffer, table);
        written
    }

    fn check_alive(&self) -> Result<(), Fatal> {
        match self.failed {
            None => Ok(()),
            Some(doing) => Err(Fatal::Poisoned { doing }),
        }
    }

    /// Remembers a failure, so that nothing is tried after it.
    fn guard<T>(&mut self, doing: &'static str, result: io::Result<T>) -> Result<T, Fatal> {
        result.map_err(|source| {
            self.failed = Some(doing);
            Fatal::Io { doing, source }
        })
    }
}

// The smallest segment has room for its head.
const _: () = assert!((segment::FIRST_RECORD_AT as u64) < segment::SEGMENT_BYTES_MIN);
