//! What a power cut leaves of a simulated disk. The caller chooses; nothing here is random.

use super::{Change, Content, State, Write};
use crate::bytes::{to_u64, to_usize};

/// The smallest part of a file that a real disk writes in one go.
const SECTOR: u64 = 512;

/// What survives of all that was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crash {
    /// Bytes that were written and not synced.
    pub writes: WritesKept,
    /// Names that were made, changed or removed and not synced.
    pub names: NamesKept,
}

/// Which un-synced writes survive. They are counted over all files, in the order of writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WritesKept {
    /// None.
    None,
    /// Every one.
    All,
    /// The first so many.
    First(usize),
    /// The first `whole`, and of the next one its first `bytes` bytes.
    Torn {
        /// How many survive wholly.
        whole: usize,
        /// How much of the next one survives.
        bytes: usize,
    },
    /// Sector `n` of a file if bit `n % 64` is set: disks write in the order that suits them.
    Sectors(u64),
}

/// Which un-synced changes of names survive, in the order in which they were made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamesKept {
    /// None.
    None,
    /// Every one.
    All,
    /// The first so many.
    First(usize),
    /// Change `n` if bit `n % 64` is set.
    Chosen(u64),
}

pub(super) fn crash(state: &mut State, crash: Crash) {
    keep_writes(state, crash.writes);
    keep_names(state, crash.names);
    let names = &state.names;
    state.inodes.retain(|inode, _| names.values().any(|named| named == inode));
    state.start_again();
}

fn keep_writes(state: &mut State, kept: WritesKept) {
    let mut writes: Vec<(u64, Write)> = Vec::new();
    for (inode, file) in &mut state.inodes {
        writes.extend(file.unsynced.drain(..).map(|write| (*inode, write)));
    }
    writes.sort_by_key(|(_, write)| write.order);
    for (place, (inode, write)) in writes.into_iter().enumerate() {
        let Some(file) = state.inodes.get_mut(&inode) else {
            continue;
        };
        for (from, to) in surviving(&write, place, kept) {
            match &write.content {
                Content::Bytes(bytes) => {
                    let part = &bytes[to_usize(from)..to_usize(to)];
                    file.durable.write(write.offset + from, part);
                }
                Content::Zeros(_) => file.durable.write_zeros(write.offset + from, to - from),
            }
        }
    }
    for file in state.inodes.values_mut() {
        file.live = file.durable.clone();
    }
}

/// The parts of a write that survive, as stretches within it.
fn surviving(write: &Write, place: usize, kept: WritesKept) -> Vec<(u64, u64)> {
    let len = write.content.len();
    let whole = vec![(0, len)];
    match kept {
        WritesKept::None => Vec::new(),
        WritesKept::All => whole,
        WritesKept::First(count) | WritesKept::Torn { whole: count, .. } if place < count => whole,
        WritesKept::Torn { whole: count, bytes } if place == count => {
            vec![(0, len.min(to_u64(bytes)))]
        }
        WritesKept::First(_) | WritesKept::Torn { .. } => Vec::new(),
        WritesKept::Sectors(chosen) => {
            let (first, end) = (write.offset / SECTOR, (write.offset + len).div_ceil(SECTOR));
            let sectors = (first..end).filter(|sector| chosen >> (sector % 64) & 1 == 1);
            let part = |sector: u64| {
                let from = (sector * SECTOR).saturating_sub(write.offset);
                (from, ((sector + 1) * SECTOR - write.offset).min(len))
            };
            sectors.map(part).collect()
        }
    }
}

fn keep_names(state: &mut State, kept: NamesKept) {
    for (place, change) in state.changes.drain(..).enumerate() {
        let survives = match kept {
            NamesKept::None => false,
            NamesKept::All => true,
            NamesKept::First(count) => place < count,
            NamesKept::Chosen(chosen) => chosen >> (place % 64) & 1 == 1,
        };
        if survives {
            change.apply(&mut state.durable_names);
        }
    }
    state.names = state.durable_names.clone();
}

impl Change {
    pub(super) fn apply(&self, names: &mut super::Names) {
        match self {
            Change::Created { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            Change::Renamed { from, to, inode } => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
            Change::Removed { name } => {
                names.remove(name);
            }
        }
    }
}
