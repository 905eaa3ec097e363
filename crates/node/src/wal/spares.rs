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

#[derive(Debug)]
pub(super) struct Spares {
    bytes_each: u64,
    names: Vec<String>,
}

impl Spares {
    /// Finds the spares among all names. One that a crash left half made is removed.
    pub(super) fn find<D: Disk>(disk: &D, all: &[String], bytes_each: u64) -> io::Result<Spares> {
        let mut spares = Spares { bytes_each, names: Vec::new() };
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

    /// Makes a spare if there is none. A full disk is no error here: the log still has room, and
    /// purging may find a spare before it is needed.
    pub(super) fn prepare<D: Disk>(&mut self, disk: &D, sequence: u64) -> io::Result<()> {
        if !self.names.is_empty() {
            return Ok(());
        }
        match self.make(disk, sequence, self.bytes_each) {
            Ok((name, _)) => {
                self.names.push(name);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                let name = self.free_name(sequence);
                if disk.list()?.contains(&name) { disk.remove(&name) } else { Ok(()) }
            }
            Err(error) => Err(error),
        }
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
        if to_u64(len) == self.bytes_each
            && self.names.len() < SPARES_MAX
            && !self.names.contains(&to)
        {
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
        let mut file = disk.create(&name)?;
        file.write_zeros(0, len)?;
        file.sync_data()?;
        Ok((name, file))
    }

    fn free_name(&self, sequence: u64) -> String {
        let mut number = sequence;
        while self.names.contains(&segment::spare_name(number)) {
            number = number.wrapping_add(1);
        }
        segment::spare_name(number)
    }
}
