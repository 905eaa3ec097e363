//! A naive log, and a driver that runs a real one beside it.

use std::collections::BTreeMap;

use fencepost_node::disk::{Crash, Disk, MemoryDisk, NamesKept, WritesKept};
use fencepost_node::wal::{
    Batch, Entry, EntryRef, HardState, Recovered, SpareOrder, Start, Wal, WalConfig, Witness,
};

/// Small, so that a few batches fill a segment and some need one of their own.
pub(crate) const CONFIG: WalConfig = WalConfig { segment_bytes: 1024, salt: 0x5eed_0001_5a17_0002 };

/// What a log should hold.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Model {
    pub(crate) hard_state: HardState,
    pub(crate) start: Start,
    pub(crate) entries: Vec<Entry>,
    pub(crate) witnesses: BTreeMap<u64, Witness>,
}

impl Model {
    pub(crate) fn last_index(&self) -> u64 {
        self.entries.last().map_or(self.start.index, |entry| entry.index)
    }

    pub(crate) fn term_of(&self, index: u64) -> u64 {
        let entry = self.entries.iter().find(|entry| entry.index == index);
        entry.map_or(self.start.term, |entry| entry.term)
    }

    pub(crate) fn append(&mut self, batch: &Batch<'_>) {
        if let Some(start) = batch.start {
            self.start = start;
            self.entries.clear();
        }
        if let Some(hard_state) = batch.hard_state {
            self.hard_state = hard_state;
        }
        for entry in &batch.entries {
            self.entries.retain(|old| old.index < entry.index);
            self.entries.push(Entry::from(*entry));
        }
        for witness in &batch.witnesses {
            self.witnesses.insert(witness.member, *witness);
        }
        self.witnesses.retain(|_, witness| (witness.index, witness.boot) != (0, 0));
    }

    pub(crate) fn purge(&mut self, start: Start) {
        self.start = start;
        self.entries.retain(|entry| entry.index > start.index);
    }
}

impl From<Recovered> for Model {
    fn from(recovered: Recovered) -> Model {
        let Recovered { hard_state, start, entries, witnesses, .. } = recovered;
        Model { hard_state, start, entries, witnesses }
    }
}

/// One thing to do to a log, relative to what is in it.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// `count` entries of `size` bytes, the first one `back` places before the end.
    Append {
        back: u64,
        count: u64,
        size: usize,
        hard_state: bool,
    },
    /// A snapshot from elsewhere, `ahead` entries further, with one entry after it.
    Replace {
        ahead: u64,
    },
    Sync,
    /// The log begins `keep` entries before its end.
    Purge {
        keep: u64,
    },
    /// The log may order a spare, and one that it has ordered before is made.
    Spare,
    Reopen,
    Close,
}

/// A log and what it should hold.
pub(crate) struct Pair<D: Disk> {
    disk: D,
    wal: Option<Wal<D>>,
    order: Option<SpareOrder<D>>,
    /// What the log was after each change, oldest first. The first one is known to be durable.
    pub(crate) states: Vec<Model>,
    changes: u64,
}

/// The disk would not go on. What it holds by now is one of `states`.
#[derive(Debug)]
pub(crate) struct Failed;

impl<D: Disk> Pair<D> {
    pub(crate) fn new(disk: D) -> Pair<D> {
        Pair { disk, wal: None, order: None, states: vec![Model::default()], changes: 0 }
    }

    pub(crate) fn with_states(disk: D, states: Vec<Model>) -> Pair<D> {
        Pair { disk, wal: None, order: None, states, changes: 1_000 }
    }

    pub(crate) fn now(&self) -> &Model {
        self.states.last().expect("there is always one")
    }

    fn is_durable(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// Opens the log, and insists that it holds one of the possible states.
    pub(crate) fn open(&mut self) -> Result<(), Failed> {
        (self.wal, self.order) = (None, None);
        let (wal, recovered) = match Wal::open(self.disk.clone(), CONFIG) {
            Ok(opened) => opened,
            Err(fencepost_node::wal::OpenError::Io { .. }) => return Err(Failed),
            Err(error) => panic!("a crash was taken for damage: {error}"),
        };
        let found = Model::from(recovered);
        let known = self.states.iter().rposition(|state| *state == found);
        let known = known.unwrap_or_else(|| panic!("{found:?} is none of {:?}", self.states));
        self.states = vec![self.states.swap_remove(known)];
        assert_eq!(wal.last_index(), self.now().last_index());
        self.wal = Some(wal);
        Ok(())
    }

    /// Closes the log, as a node does that is stopped.
    pub(crate) fn close(&mut self) {
        let wal = self.wal.take().expect("it is open");
        wal.close().expect("the disk has no faults");
    }

    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<(), Failed> {
        if self.wal.is_none() {
            self.open()?;
        }
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), Failed> {
        self.changes += 1;
        match *step {
            Step::Append { back, count, size, hard_state } => {
                self.append_entries(back, count, size, hard_state)
            }
            Step::Replace { ahead } => self.replace(ahead),
            Step::Sync => {
                self.wal().sync().map_err(|_| Failed)?;
                self.is_durable();
                Ok(())
            }
            Step::Purge { keep } => self.purge(keep),
            Step::Spare => {
                self.spare();
                Ok(())
            }
            Step::Reopen => self.open(),
            Step::Close => {
                self.wal.take().expect("it is open").close().map_err(|_| Failed)?;
                self.is_durable();
                self.open()
            }
        }
    }

    fn wal(&mut self) -> &mut Wal<D> {
        self.wal.as_mut().expect("it is open")
    }

    fn append_entries(
        &mut self,
        back: u64,
        count: u64,
        size: usize,
        hard: bool,
    ) -> Result<(), Failed> {
        let now = self.now();
        let first = now.last_index().saturating_sub(back).max(now.start.index) + 1;
        let term = self.changes;
        let data: Vec<Vec<u8>> = (0..count)
            .map(|place| vec![u8::try_from((term + place) % 255).expect("small") + 1; size])
            .collect();
        let kind = u8::try_from(term % 3).expect("small");
        let entries = data.iter().zip(first..);
        let entries = entries.map(|(data, index)| EntryRef { index, term, kind, data }).collect();
        let hard_state =
            hard.then_some(HardState { term, vote: term % 4, commit: now.start.index });
        let (member, boot) = (term % 3 + 1, term / 10);
        // Now and then one is deleted.
        let witness = match term % 7 {
            0 => Witness { member, ..Witness::default() },
            _ => Witness { member, index: term, boot, boot_nonce: term },
        };
        let witnesses = if term.is_multiple_of(2) { vec![witness] } else { Vec::new() };
        self.append(&Batch { start: None, hard_state, entries, witnesses })
    }

    fn replace(&mut self, ahead: u64) -> Result<(), Failed> {
        let term = self.changes;
        let start = Start { index: self.now().start.index + ahead, term };
        let entry = EntryRef { index: start.index + 1, term, kind: 0, data: b"after the snapshot" };
        self.append(&Batch {
            start: Some(start),
            hard_state: None,
            entries: vec![entry],
            ..Batch::default()
        })
    }

    fn spare(&mut self) {
        if let Some(made) = self.order.take().map(SpareOrder::make) {
            // A spare that cannot be made is no failure of the log.
            self.wal().put_spare(made);
        }
        self.order = self.wal().order_spare();
    }

    fn append(&mut self, batch: &Batch<'_>) -> Result<(), Failed> {
        let mut next = self.now().clone();
        next.append(batch);
        // It may be on the disk even if the call fails.
        self.states.push(next);
        self.wal().append(batch).map_err(|_| Failed)
    }

    fn purge(&mut self, keep: u64) -> Result<(), Failed> {
        let now = self.now();
        let index = now.last_index().saturating_sub(keep).max(now.start.index);
        let start = Start { index, term: now.term_of(index) };
        let mut next = now.clone();
        next.purge(start);
        self.states.push(next);
        self.wal().purge(start).map_err(|_| Failed)?;
        self.is_durable();
        Ok(())
    }
}

/// Every way in which this moment can end that is worth telling apart.
pub(crate) fn crashes(disk: &MemoryDisk) -> Vec<Crash> {
    let unsynced = disk.unsynced();
    let mut writes = vec![WritesKept::None, WritesKept::All];
    writes.extend((1..unsynced.len()).map(WritesKept::First));
    for (whole, write) in unsynced.iter().enumerate() {
        let len = usize::try_from(write.len).expect("writes are short");
        let to_sector = usize::try_from(512 - write.offset % 512).expect("small");
        let mut cuts = vec![1, 4, 8, 12, 15, 16, 17, 24, len / 2, len - 1, len.saturating_sub(8)];
        cuts.extend((to_sector..len).step_by(512));
        cuts.retain(|cut| *cut < len);
        cuts.sort_unstable();
        cuts.dedup();
        writes.extend(cuts.into_iter().map(|bytes| WritesKept::Torn { whole, bytes }));
    }
    if !unsynced.is_empty() {
        let masks = [0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa, !1, !2, !4, 6, 0xf0f0_f0f0];
        writes.extend(masks.map(WritesKept::Sectors));
    }
    let mut names = vec![NamesKept::None, NamesKept::All];
    if disk.unsynced_names() > 1 {
        names.extend([NamesKept::First(1), NamesKept::Chosen(2), NamesKept::Chosen(5)]);
    }
    let pairs = writes.iter().flat_map(|writes| names.iter().map(move |names| (*writes, *names)));
    pairs.map(|(writes, names)| Crash { writes, names }).collect()
}

/// Nothing un-synced survives.
pub(crate) const WORST: Crash = Crash { writes: WritesKept::None, names: NamesKept::None };
