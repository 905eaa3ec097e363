//! Snapshots on disk, beside the log.
//!
//! Owns: the files that keep snapshots, one each. `docs/format.md` describes the bytes.
//! Guarantees: a snapshot that can be found is whole; a damaged one is passed over and reported;
//! the last two are kept, so that there is another if the newest is damaged. The log must then
//! begin no later than the older one: see [`SnapshotStore::ids`]. Refuses: to know what is in a
//! snapshot, and to hold a whole one in memory.

mod error;
mod format;
mod reader;
mod writer;

use std::io;

use crate::disk::{Disk, DiskFile as _};
pub use error::Error;
pub use format::CHUNK_BYTES;
pub(crate) use format::MAGIC;
pub use reader::SnapshotReader;
pub use writer::{SealedSnapshot, SnapshotWriter};

/// How many snapshots are kept.
pub const SNAPSHOTS_KEPT: usize = 2;

/// Which snapshot: the last entry that it covers. Ordered by age.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SnapshotId {
    /// The index of that entry.
    pub index: u64,
    /// Its term.
    pub term: u64,
}

/// The snapshots of one directory.
#[derive(Debug)]
pub struct SnapshotStore<D: Disk> {
    disk: D,
    chunk_bytes: usize,
}

/// What was found when looking for the newest snapshot.
#[derive(Debug)]
pub struct Latest<F> {
    /// The newest sound one.
    pub snapshot: Option<SnapshotReader<F>>,
    /// Newer ones that are damaged. Somebody should hear of them.
    pub skipped: Vec<Error>,
}

/// Whether a file of this name is a snapshot.
pub fn is_snapshot(name: &str) -> bool {
    format::id(name).is_some()
}

impl<D: Disk> SnapshotStore<D> {
    /// Opens the store of a directory. Removes what an interrupted writer left behind.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn open(disk: D) -> Result<SnapshotStore<D>, Error> {
        let doing = "clearing away an unfinished snapshot";
        discard_unfinished(&disk).map_err(|source| Error::Io { doing, source })?;
        Ok(SnapshotStore { disk, chunk_bytes: CHUNK_BYTES })
    }

    /// The same, with smaller chunks for what it writes. For tests: small states then have
    /// several.
    #[must_use]
    pub fn with_chunk_bytes(self, chunk_bytes: usize) -> SnapshotStore<D> {
        SnapshotStore { chunk_bytes: chunk_bytes.clamp(1, CHUNK_BYTES), ..self }
    }

    /// The snapshots that are there, oldest first, sound or not.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn ids(&self) -> Result<Vec<SnapshotId>, Error> {
        ids(&self.disk).map_err(|source| Error::Io { doing: "listing snapshots", source })
    }

    /// Begins a snapshot. Nothing of it can be found before [`SnapshotWriter::finish`].
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn write(&self, id: SnapshotId) -> Result<SnapshotWriter<D>, Error> {
        let writer = SnapshotWriter::begin(self.disk.clone(), id, self.chunk_bytes);
        writer.map_err(|source| Error::Io { doing: "beginning a snapshot", source })
    }

    /// Opens one snapshot, after reading all of it once.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] and [`Error::LaterVersion`] if it cannot be used.
    pub fn read(&self, id: SnapshotId) -> Result<SnapshotReader<D::File>, Error> {
        let name = format::name(id);
        let file = self.disk.open(&name);
        let file = file.map_err(|source| Error::Io { doing: "opening a snapshot", source })?;
        SnapshotReader::open(file, name, id)?.verified()
    }

    /// The newest snapshot that is sound.
    ///
    /// # Errors
    ///
    /// [`Error::LaterVersion`]: an older one would do, but this build would lack what the later
    /// one did to the log. [`Error::Io`].
    pub fn latest(&self) -> Result<Latest<D::File>, Error> {
        let mut skipped = Vec::new();
        for id in self.ids()?.into_iter().rev() {
            match self.read(id) {
                Ok(reader) => return Ok(Latest { snapshot: Some(reader), skipped }),
                Err(damaged @ Error::Damaged { .. }) => skipped.push(damaged),
                Err(error) => return Err(error),
            }
        }
        Ok(Latest { snapshot: None, skipped })
    }
}

/// How many bytes the file of the newest snapshot has; zero if there is none.
///
/// # Errors
///
/// What the operating system says.
pub fn newest_bytes<D: Disk>(disk: &D) -> io::Result<u64> {
    match ids(disk)?.last() {
        Some(&id) => disk.open(&format::name(id))?.size(),
        None => Ok(0),
    }
}

/// Removes what interrupted writers left behind.
///
/// # Errors
///
/// What the operating system says.
pub fn discard_unfinished<D: Disk>(disk: &D) -> io::Result<()> {
    for name in disk.list()?.iter().filter(|name| format::is_unfinished(name)) {
        disk.remove(name)?;
    }
    Ok(())
}

fn ids<D: Disk>(disk: &D) -> io::Result<Vec<SnapshotId>> {
    let mut ids: Vec<SnapshotId> =
        disk.list()?.iter().filter_map(|name| format::id(name)).collect();
    ids.sort_unstable();
    Ok(ids)
}
