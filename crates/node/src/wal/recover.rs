//! Reads the log when a node starts.
//!
//! Owns: telling a torn tail from damage. A segment is synced before the next one gets its name,
//! and the next one says where it ends; so in all but the last, everything must be there. In the
//! last one the first place without a sound record is the end, *unless a sound record after it
//! proves the contrary*: each record carries a mark, the offset up to which the segment had been
//! synced when it was written. A mark beyond the place says that the bytes there were durable
//! once, so that no crash has torn them: damage. Without such a mark all that follows was never
//! synced, nobody was told that it is kept, and it is cut off, sound records or not: a disk
//! writes the sectors of one write in any order, so a sound record after a bad one proves nothing
//! by itself.

use std::collections::VecDeque;
use std::io;

use super::error::{Damaged, OpenError};
use super::item::{Item, items};
use super::record::{self, ALIGN, Record, Seeds};
use super::replay::Replay;
use super::segment::{self, HEADER_BYTES, Header};
use crate::bytes::{to_u64, to_usize};
use crate::disk::{Disk, DiskFile, is_full, read_all};

/// A segment that is no longer written to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed {
    pub(super) sequence: u64,
    pub(super) capacity: usize,
    /// The highest index of an entry in it that may still count; 0 if there is none.
    pub(super) max_index: u64,
}

/// All that the segments hold.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) replay: Replay,
    pub(super) sealed: VecDeque<Sealed>,
    pub(super) last: Last,
}

/// The last segment.
#[derive(Debug)]
pub(super) struct Last {
    pub(super) header: Header,
    pub(super) bytes: Vec<u8>,
    /// Where its records end.
    pub(super) end: usize,
    pub(super) max_index: u64,
    /// Up to where its last record says that it is durable.
    pub(super) proven: usize,
    /// Whether its last record says that all before it is durable.
    pub(super) is_proven: bool,
}

/// Reads the segments of these numbers, which ascend. `None` if there are none.
pub(super) fn read<D: Disk>(disk: &D, sequences: &[u64]) -> Result<Option<Found>, OpenError> {
    let mut found: Option<Found> = None;
    for &sequence in sequences {
        let bytes = read_segment(disk, sequence)?;
        let header = Header::decode(&bytes, sequence)?;
        let (mut replay, mut sealed) = match found {
            None => (Replay::default(), VecDeque::new()),
            Some(found) => follow(found, header)?,
        };
        let is_first = sealed.is_empty();
        let last = scan(header, bytes, &mut replay, &mut sealed, is_first)?;
        found = Some(Found { replay, sealed, last });
    }
    if let Some(found) = &found {
        check_whole(found)?;
    }
    Ok(found)
}

fn read_segment<D: Disk>(disk: &D, sequence: u64) -> Result<Vec<u8>, OpenError> {
    let io = |source| OpenError::Io { doing: "reading a segment", source };
    let file = disk.open(&segment::name(sequence)).map_err(io)?;
    let bytes = read_all(&file).map_err(io)?;
    if u32::try_from(bytes.len()).is_err() {
        return Err(damaged(sequence, 0, "a segment that is longer than any can be"));
    }
    Ok(bytes)
}

/// Closes the books on a segment that another one follows.
fn follow(found: Found, next: Header) -> Result<(Replay, VecDeque<Sealed>), OpenError> {
    let Found { replay, mut sealed, last } = found;
    let sequence = last.header.sequence;
    if next.sequence != sequence + 1 {
        return Err(damaged(sequence + 1, 0, "a segment that is missing"));
    }
    if next.salt != last.header.salt {
        return Err(damaged(next.sequence, 0, "a segment of another log"));
    }
    if last.end < next.previous_end {
        return Err(damaged(sequence, last.end, "a record that fails its checksum"));
    }
    if last.end > next.previous_end {
        return Err(damaged(sequence, next.previous_end, "records after the end of a segment"));
    }
    let capacity = last.bytes.len();
    sealed.push_back(Sealed { sequence, capacity, max_index: last.max_index });
    Ok((replay, sealed))
}

/// Reads the records of one segment up to the first place without a sound one.
fn scan(
    header: Header,
    bytes: Vec<u8>,
    replay: &mut Replay,
    sealed: &mut VecDeque<Sealed>,
    is_first: bool,
) -> Result<Last, OpenError> {
    let (sequence, seeds) = (header.sequence, header.seeds());
    let head = record::check(&bytes, HEADER_BYTES, seeds);
    // Like the header, the head is durable before the segment has its name.
    let head = head.ok_or_else(|| damaged(sequence, HEADER_BYTES, "a head that is not sound"))?;
    open_head(&head, replay, is_first).map_err(|what| damaged(sequence, HEADER_BYTES, what))?;
    let mut end = head.end;
    let (mut max_index, mut proven, mut is_proven) = (0, end, true);
    while let Some(found) = record::check(&bytes, end, seeds) {
        for item in items(found.body) {
            let applied = item.and_then(|item| {
                replay.apply(item)?;
                Ok(item)
            });
            match applied.map_err(|what| damaged(sequence, end, what))? {
                Item::Entry(entry) => max_index = max_index.max(entry.index),
                Item::Replace(_) => {
                    max_index = 0;
                    sealed.iter_mut().for_each(|segment| segment.max_index = 0);
                }
                Item::Head(_) | Item::HardState(_) | Item::Purge(_) | Item::Witness(_) => {}
            }
        }
        proven = found.synced;
        is_proven = found.body.is_empty() && found.synced == end;
        end = found.end;
    }
    Ok(Last { header, bytes, end, max_index, proven, is_proven })
}

fn open_head(head: &Record<'_>, replay: &mut Replay, is_first: bool) -> Result<(), &'static str> {
    let mut items = items(head.body);
    let Some(Item::Head(head)) = items.next().transpose()? else {
        return Err("a segment that does not begin with a head");
    };
    if items.next().is_some() {
        return Err("a head with something after it");
    }
    if is_first {
        *replay = Replay::begin(head);
    } else if replay.head() != head {
        return Err("a head that contradicts the segments before it");
    }
    Ok(())
}

/// Checks what can only be known at the end of the log.
fn check_whole(found: &Found) -> Result<(), OpenError> {
    let Last { header, bytes, end, .. } = &found.last;
    if proves_durable(bytes, *end, header.seeds()) {
        return Err(damaged(header.sequence, *end, "a record that fails its checksum"));
    }
    if found.replay.lacks_entries() {
        let first = found.sealed.front().map_or(header.sequence, |segment| segment.sequence);
        return Err(damaged(first.saturating_sub(1), 0, "a segment that is missing"));
    }
    Ok(())
}

/// Whether some record after `place` says that the bytes at `place` were durable.
fn proves_durable(segment: &[u8], place: usize, seeds: Seeds) -> bool {
    let later = (place..segment.len()).step_by(ALIGN);
    later.filter_map(|at| record::check(segment, at, seeds)).any(|record| record.synced > place)
}

/// The stretches of the tail that are not zero, in blocks.
pub(super) fn soiled(segment: &[u8], from: usize) -> impl Iterator<Item = (u64, u64)> {
    const BLOCK: usize = 4096;
    let starts = std::iter::successors(Some(from), |at| Some((at / BLOCK + 1) * BLOCK));
    starts.take_while(|at| *at < segment.len()).filter_map(|at| {
        let end = ((at / BLOCK + 1) * BLOCK).min(segment.len());
        let is_soiled = segment[at..end].iter().any(|byte| *byte != 0);
        is_soiled.then(|| (to_u64(at), to_u64(end - at)))
    })
}

/// The numbers of the segments among all names, ascending.
pub(super) fn sequences(names: &[String]) -> Vec<u64> {
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| segment::sequence(name)).collect();
    sequences.sort_unstable();
    sequences
}

fn damaged(sequence: u64, offset: usize, what: &'static str) -> OpenError {
    Damaged { file: segment::name(sequence), offset: to_u64(offset), what }.into()
}

/// Makes the last segment as long as the next ones will be, if the disk has room for that. How long it
/// is then.
pub(super) fn fill_up(
    file: &mut impl DiskFile,
    last: &Last,
    segment_bytes: u64,
) -> io::Result<usize> {
    let (len, capacity) = (last.bytes.len(), last.bytes.len().max(to_usize(segment_bytes)));
    let (from, lacking) = (to_u64(len), to_u64(capacity - len));
    if lacking == 0 {
        return Ok(capacity);
    }
    match file.reserve(from, lacking).and_then(|()| file.write_zeros(from, lacking)) {
        // The log goes on in what there is.
        Err(error) if is_full(&error) => Ok(len),
        filled => filled.map(|()| capacity),
    }
}
