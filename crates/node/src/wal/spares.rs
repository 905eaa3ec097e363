//! Files that are ready to become segments.
//!
//! A spare is as long as a segment and its blocks are allocated, so that a sync of the log never
//! has to record where they are. What it contains does not matter: a fresh one is zeros, a
//! recycled one holds the records of its former life, and those cannot pass in the next one.

use std::io;

use super::segment;
use crate::bytes::to_u64;
use crate::disk::{Disk, DiskFile};

/// More are removed. One is used while the next is being waited for.
const SPARES_MAX: usize = 2;

/// What is written to a new spare between two syncs. Measured: meanwhile a sync of the log takes half
/// as long again; with all of it in one piece, a hundred times as long.
const PIECE_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Spares {
    bytes_each: u64,
    names: Vec<String>,
    /// The name of one that is being made.
    ordered: Option<String>,
}

impl Spares {
    /// Finds the spares among all names. One that a crash left half made is removed.
    pub(super) fn find<D: Disk>(disk: &D, all: &[String], bytes_each: u64) -> io::Result<Spares> {
        let mut spares = Spares { bytes_each, names: Vec::new(), ordered: None };
        for name in all.iter().filter(|name| segment::is_spare(name)) {
            spares.keep(disk, name)?;
        }
        Ok(spares)
    }

    fn keep<D: Disk>(&mut self, disk: &D, name: &str) -> io::Result<()> {
        let fits = self.names.len() < SPARES_MAX && disk.open(name)?.size()? == self.bytes_each;
        if fits {
            self.names.push(name.to_owned());
            return Ok(());
        }
        disk.remove(name)
    }

    /// Wants a spare made, if there is none and none is being made.
    pub(super) fn order<D: Disk>(&mut self, disk: &D, sequence: u64) -> Option<SpareOrder<D>> {
        if !self.names.is_empty() || self.ordered.is_some() {
            return None;
        }
        let name = self.free_name(sequence);
        self.ordered = Some(name.clone());
        Some(SpareOrder { disk: disk.clone(), name, bytes: self.bytes_each })
    }

    /// Takes what was made of an order.
    pub(super) fn put(&mut self, made: SpareMade) {
        self.ordered = None;
        self.names.extend(made.name);
    }

    /// A file of at least `needed` bytes, to become the segment `sequence`.
    pub(super) fn take<D: Disk>(
        &mut self,
        disk: &D,
        sequence: u64,
        needed: usize,
    ) -> io::Result<(String, D::File)> {
        if to_u64(needed) > self.bytes_each {
            return self.make(disk, sequence, to_u64(needed));
        }
        match self.names.pop() {
            Some(name) => {
                let file = disk.open(&name)?;
                Ok((name, file))
            }
            None => self.make(disk, sequence, self.bytes_each),
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
    /// Nothing, if the disk is full.
    name: Option<String>,
}

impl<D: Disk> SpareOrder<D> {
    /// Makes the spare, piece by piece: the log is synced meanwhile, and would have to wait for a large
    /// one. A full disk is no error here: the log still has room, and purging may find a spare before it
    /// is needed.
    ///
    /// # Errors
    ///
    /// What the operating system says. Then the log must not go on.
    pub fn make(self) -> io::Result<SpareMade> {
        let SpareOrder { disk, name, bytes } = self;
        match make(&disk, &name, bytes, PIECE_BYTES) {
            Ok(_) => Ok(SpareMade { name: Some(name) }),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                if disk.list()?.contains(&name) {
                    disk.remove(&name)?;
                }
                Ok(SpareMade { name: None })
            }
            Err(error) => Err(error),
        }
    }
}

/// Makes a file of `len` zeros, and syncs it after every `piece` bytes.
fn make<D: Disk>(disk: &D, name: &str, len: u64, piece: u64) -> io::Result<D::File> {
    let mut file = disk.create(name)?;
    let mut done = 0;
    while done < len {
        let next = piece.min(len - done);
        file.write_zeros(done, next)?;
        file.sync_data()?;
        done += next;
    }
    Ok(file)
}
