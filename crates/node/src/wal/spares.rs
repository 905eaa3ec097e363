//! Files that are ready to become segments.
//!
//! A spare is as long as a segment and its blocks are allocated, so that a sync of the log never
//! has to record where they are. What it contains does not matter: a fresh one is zeros, a
//! recycled one holds the records of its former life, and those cannot pass in the next one.
//!
//! Guarantees: a spare that cannot be made is no error of the log and leaves nothing behind; it is
//! tried again only after the log has grown, so that a full disk does not cause writes of its own.

use std::io;

use super::segment;
use crate::bytes::{to_u64, to_usize};
use crate::disk::{Disk, DiskFile, is_full};

/// More are removed. One is used while the next is being waited for.
const SPARES_MAX: usize = 2;

/// What is written to a new spare between two syncs. Measured: meanwhile a sync of the log takes half
/// as long again; with all of it in one piece, a hundred times as long.
const PIECE_BYTES: u64 = 64 << 10;

/// On a disk without room for a whole segment, the log goes on in segments of this part.
const SMALL_PART: u64 = 16;

/// After a failure the log grows by this part of a segment before the next try, and by twice as much
/// after each further one.
const PAUSE_PART: usize = 16;
const DOUBLINGS_MAX: u32 = 4;

#[derive(Debug)]
pub(super) struct Spares {
    bytes_each: u64,
    names: Vec<String>,
    /// The name of one that is being made.
    ordered: Option<String>,
    /// How many orders have failed in a row, and where in the active segment the next one is due.
    failures: u32,
    not_before: usize,
}

impl Spares {
    /// Finds the spares among all names. One that a crash left half made is removed.
    pub(super) fn find<D: Disk>(disk: &D, all: &[String], bytes_each: u64) -> io::Result<Spares> {
        let mut spares = Spares::none(bytes_each);
        for name in all.iter().filter(|name| segment::is_spare(name)) {
            spares.keep(disk, name)?;
        }
        Ok(spares)
    }

    fn none(bytes_each: u64) -> Spares {
        Spares { bytes_each, names: Vec::new(), ordered: None, failures: 0, not_before: 0 }
    }

    /// How long each of them is.
    pub(super) fn bytes_each(&self) -> u64 {
        self.bytes_each
    }

    fn keep<D: Disk>(&mut self, disk: &D, name: &str) -> io::Result<()> {
        let fits = self.names.len() < SPARES_MAX && disk.open(name)?.size()? == self.bytes_each;
        if fits {
            self.names.push(name.to_owned());
            return Ok(());
        }
        disk.remove(name)
    }

    /// Wants a spare made, if there is none and none is being made. The active segment has the number
    /// before `sequence` and is full up to `end`.
    pub(super) fn order<D: Disk>(
        &mut self,
        disk: &D,
        sequence: u64,
        end: usize,
    ) -> Option<SpareOrder<D>> {
        if !self.names.is_empty() || self.ordered.is_some() || end < self.not_before {
            return None;
        }
        let name = self.free_name(sequence);
        self.ordered = Some(name.clone());
        Some(SpareOrder { disk: disk.clone(), name, bytes: self.bytes_each })
    }

    /// Takes what was made of an order. The active segment is full up to `end`.
    pub(super) fn put(&mut self, made: SpareMade, end: usize) {
        self.ordered = None;
        match made.result {
            Ok(name) => {
                self.names.push(name);
                self.failures = 0;
            }
            Err(_) => {
                let part = to_usize(self.bytes_each) / PAUSE_PART;
                self.not_before = end + (part << self.failures);
                self.failures = (self.failures + 1).min(DOUBLINGS_MAX);
            }
        }
    }

    /// A file of at least `needed` bytes, to become the segment `sequence`.
    ///
    /// On a disk without room for a whole one it is shorter: the log goes on as long as there is room
    /// for what is to be written.
    pub(super) fn take<D: Disk>(
        &mut self,
        disk: &D,
        sequence: u64,
        needed: usize,
    ) -> io::Result<(String, D::File)> {
        self.not_before = 0;
        if to_u64(needed) > self.bytes_each {
            return self.make(disk, sequence, to_u64(needed));
        }
        if let Some(name) = self.names.pop() {
            let file = disk.open(&name)?;
            return Ok((name, file));
        }
        let whole = check_room(disk, self.bytes_each)
            .and_then(|()| self.make(disk, sequence, self.bytes_each));
        match whole {
            Err(error) if is_full(&error) => {
                self.make(disk, sequence, to_u64(needed).max(self.bytes_each / SMALL_PART))
            }
            made => made,
        }
    }

    /// Gives a segment that is no longer needed another name, or removes it.
    ///
    /// The name is synced at once. Segments go away oldest first, and if a crash kept the second
    /// change but not the first, there would be a gap that looks like a lost segment.
    pub(super) fn recycle<D: Disk>(
        &mut self,
        disk: &D,
        sequence: u64,
        len: usize,
    ) -> io::Result<()> {
        let from = segment::name(sequence);
        let to = segment::spare_name(sequence);
        if to_u64(len) == self.bytes_each && self.names.len() < SPARES_MAX && !self.is_taken(&to) {
            disk.rename(&from, &to)?;
            self.names.push(to);
        } else {
            disk.remove(&from)?;
        }
        disk.sync_dir()
    }

    /// The name is not synced here: it is changed, and synced then, before anything depends on it.
    fn make<D: Disk>(&self, disk: &D, sequence: u64, len: u64) -> io::Result<(String, D::File)> {
        let name = self.free_name(sequence);
        let file = make(disk, &name, len, len)?;
        Ok((name, file))
    }

    fn free_name(&self, sequence: u64) -> String {
        let mut number = sequence;
        while self.is_taken(&segment::spare_name(number)) {
            number = number.wrapping_add(1);
        }
        segment::spare_name(number)
    }

    fn is_taken(&self, name: &String) -> bool {
        self.names.contains(name) || self.ordered.as_ref() == Some(name)
    }
}

/// How many bytes the spares of a directory have.
///
/// # Errors
///
/// What the operating system says.
pub fn spare_bytes<D: Disk>(disk: &D) -> io::Result<u64> {
    let names = disk.list()?;
    let spares = names.iter().filter(|name| segment::is_spare(name));
    spares.map(|name| disk.open(name)?.size()).sum()
}

/// Removes the spares that are shorter than `whole` bytes: those that were not completed.
///
/// # Errors
///
/// What the operating system says.
pub fn discard_spares<D: Disk>(disk: &D, whole: u64) -> io::Result<()> {
    for name in disk.list()?.iter().filter(|name| segment::is_spare(name)) {
        if disk.open(name)?.size()? < whole {
            disk.remove(name)?;
        }
    }
    Ok(())
}

/// A spare that is to be made, beside the log: nothing of it is needed for that.
#[derive(Debug)]
pub struct SpareOrder<D> {
    disk: D,
    name: String,
    bytes: u64,
}

/// What was made of an order, for [`super::Wal::put_spare`].
#[derive(Debug)]
pub struct SpareMade {
    result: io::Result<String>,
}

impl SpareMade {
    /// Why there is no spare, if there is none.
    #[must_use]
    pub fn failure(&self) -> Option<&io::Error> {
        self.result.as_ref().err()
    }
}

impl<D: Disk> SpareOrder<D> {
    /// Makes the spare, piece by piece: the log is synced meanwhile, and would have to wait for a large
    /// one. Failing is no error of the log: it still has room, and purging may find a spare before it is
    /// needed.
    pub fn make(self) -> SpareMade {
        let SpareOrder { disk, name, bytes } = self;
        let made = check_room(&disk, bytes).and_then(|()| make(&disk, &name, bytes, PIECE_BYTES));
        SpareMade { result: made.map(|_| name) }
    }
}

/// Refuses to take more than half of what is free for what is only prepared. Nothing is written to find
/// that out.
fn check_room<D: Disk>(disk: &D, bytes: u64) -> io::Result<()> {
    // If the disk cannot say how full it is, the write finds out.
    let space = disk.space().ok().flatten();
    match space.is_some_and(|space| space.free < 2 * bytes) {
        true => Err(io::ErrorKind::StorageFull.into()),
        false => Ok(()),
    }
}

/// Makes a file of `len` zeros, and syncs it after every `piece` bytes. Leaves nothing behind if it
/// fails.
fn make<D: Disk>(disk: &D, name: &str, len: u64, piece: u64) -> io::Result<D::File> {
    let mut file = match disk.create(name) {
        // What an earlier failure could not remove.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(name)?;
            disk.create(name)?
        }
        created => created?,
    };
    match fill(&mut file, len, piece) {
        Ok(()) => Ok(file),
        Err(error) => {
            // If it cannot be removed now, the next try or the next start does.
            drop(disk.remove(name));
            Err(error)
        }
    }
}

fn fill(file: &mut impl DiskFile, len: u64, piece: u64) -> io::Result<()> {
    file.reserve(0, len)?;
    let mut done = 0;
    while done < len {
        let next = piece.min(len - done);
        file.write_zeros(done, next)?;
        file.sync_data()?;
        done += next;
    }
    Ok(())
}
