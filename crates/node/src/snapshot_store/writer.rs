//! Makes a snapshot file, piece by piece.

use std::io;

use super::format::{
    CHUNK_HEADER_BYTES, HEADER_BYTES, Totals, chunk_sum, header, name, unfinished_name,
};
use super::{Error, SNAPSHOTS_KEPT, SnapshotId, SnapshotReader, ids};
use crate::bytes::to_u64;
use crate::disk::{Disk, DiskFile};

/// A snapshot that is being written. Holds one chunk in memory. If it is dropped, the snapshot
/// does not exist, and the next opening of the store clears its file away.
#[derive(Debug)]
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    file: D::File,
    id: SnapshotId,
    /// Where the next chunk goes.
    at: u64,
    /// Room for the header of a chunk, then what is in it so far.
    chunk: Vec<u8>,
    /// How much goes into one.
    chunk_bytes: usize,
    totals: Totals,
}

impl<D: Disk> SnapshotWriter<D> {
    pub(super) fn begin(
        disk: D,
        id: SnapshotId,
        chunk_bytes: usize,
    ) -> io::Result<SnapshotWriter<D>> {
        let unfinished = unfinished_name(id);
        if disk.list()?.contains(&unfinished) {
            disk.remove(&unfinished)?;
        }
        let mut file = disk.create(&unfinished)?;
        if let Err(error) = file.write_at(0, &header(id)) {
            drop(disk.remove(&unfinished));
            return Err(error);
        }
        let chunk = vec![0; CHUNK_HEADER_BYTES];
        let at = to_u64(HEADER_BYTES);
        let totals = Totals::default();
        Ok(SnapshotWriter { disk, file, id, at, chunk, chunk_bytes, totals })
    }

    /// Appends bytes. How they are cut into pieces makes no difference.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let room = CHUNK_HEADER_BYTES + self.chunk_bytes - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == CHUNK_HEADER_BYTES + self.chunk_bytes {
                self.flush().map_err(|source| Error::Io { doing: "writing a snapshot", source })?;
            }
        }
        Ok(())
    }

    /// Completes the snapshot. After this it is durable and can be found, and all but the last
    /// two are removed.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]. Nothing of it is left behind then, if the disk allows.
    pub fn finish(self) -> Result<(), Error> {
        self.seal()?.publish()
    }

    /// Makes all of it durable. It can be read, but not be found by others yet.
    ///
    /// # Errors
    ///
    /// As [`SnapshotWriter::finish`].
    pub fn seal(mut self) -> Result<SealedSnapshot<D>, Error> {
        match self.complete() {
            Ok(()) => Ok(SealedSnapshot { disk: self.disk, id: self.id }),
            Err(source) => {
                drop(self.abandon());
                Err(Error::Io { doing: "completing a snapshot", source })
            }
        }
    }

    /// Gives up, and removes what was written.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn abandon(self) -> Result<(), Error> {
        clear_away(&self.disk, self.id)
    }

    /// The bytes are durable before the file has its name: otherwise a crash could leave a
    /// snapshot that can be found and is not whole.
    fn complete(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.write_at(self.at, &self.totals.trailer(self.id))?;
        self.file.sync_data()
    }

    fn flush(&mut self) -> io::Result<()> {
        let (front, data) = self.chunk.split_at_mut(CHUNK_HEADER_BYTES);
        if data.is_empty() {
            return Ok(());
        }
        let len = u32::try_from(data.len()).expect("a chunk is short");
        let sum = chunk_sum(self.id, self.totals.chunks, data);
        front[..4].copy_from_slice(&len.to_le_bytes());
        front[4..].copy_from_slice(&sum.to_le_bytes());
        self.totals.add(data);
        self.file.write_at(self.at, &self.chunk)?;
        self.at += to_u64(self.chunk.len());
        self.chunk.truncate(CHUNK_HEADER_BYTES);
        Ok(())
    }
}

/// A snapshot that is whole and durable, and that nobody finds yet: there is still time to look
/// whether it can be used.
#[derive(Debug)]
pub struct SealedSnapshot<D: Disk> {
    disk: D,
    id: SnapshotId,
}

impl<D: Disk> SealedSnapshot<D> {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// As [`super::SnapshotStore::read`].
    pub fn read(&self) -> Result<SnapshotReader<D::File>, Error> {
        let name = unfinished_name(self.id);
        let file = self.disk.open(&name);
        let file = file.map_err(|source| Error::Io { doing: "opening a snapshot", source })?;
        SnapshotReader::open(file, name, self.id)?.verified()
    }

    /// Gives it its name. All but the last two and this one are removed.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn publish(self) -> Result<(), Error> {
        self.give_name().map_err(|source| Error::Io { doing: "completing a snapshot", source })
    }

    /// Gives up, and removes it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn abandon(self) -> Result<(), Error> {
        clear_away(&self.disk, self.id)
    }

    /// The name is durable before older ones go. One that came from another member may be older
    /// than those that are there, and stays all the same: it is what its receiver waits for.
    fn give_name(&self) -> io::Result<()> {
        if let Err(error) = self.disk.rename(&unfinished_name(self.id), &name(self.id)) {
            drop(clear_away(&self.disk, self.id));
            return Err(error);
        }
        self.disk.sync_dir()?;
        for id in ids(&self.disk)?.into_iter().rev().skip(SNAPSHOTS_KEPT) {
            if id != self.id {
                self.disk.remove(&name(id))?;
            }
        }
        Ok(())
    }
}

fn clear_away<D: Disk>(disk: &D, id: SnapshotId) -> Result<(), Error> {
    let removed = disk.remove(&unfinished_name(id));
    removed.map_err(|source| Error::Io { doing: "clearing away an unfinished snapshot", source })
}
