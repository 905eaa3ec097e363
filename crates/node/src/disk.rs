//! The disk as the node sees it: one directory of files with flat names.
//!
//! Owns: every OS call of the storage code, and the simulated disk that stands in for them.
//! Assumes of a disk only this: what was written before a successful [`DiskFile::sync_data`] is
//! there after a crash, a name that stood in the directory at a successful [`Disk::sync_dir`] is
//! there after a crash, and a rename is seen either wholly or not at all. Nothing is assumed
//! about the order of what was not synced.

mod memory;
mod real;

use std::io;

pub use memory::{Crash, Fault, MemoryDisk, MemoryFile, NamesKept, UnsyncedWrite, WritesKept};
pub use real::{LockFile, RealDisk, RealFile};

/// One directory. Clones stand for the same directory.
pub trait Disk: Clone {
    /// An open file of it.
    type File: DiskFile;

    /// All names, in ascending order.
    ///
    /// # Errors
    ///
    /// What the operating system says; so for every call here.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes an empty file. One of that name must not exist.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name, in the place of a file that may have had it. Durable after
    /// [`Disk::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Durable after [`Disk::sync_dir`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names durable. Without it a crash can take a file away whose bytes were synced.
    fn sync_dir(&self) -> io::Result<()>;

    /// How large the disk is and how much of it is free. Nothing if the disk cannot say.
    fn space(&self) -> io::Result<Option<Space>>;
}

/// How large a disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this process can still write.
    pub free: u64,
    /// Bytes of the whole file system.
    pub total: u64,
}

/// Whether the disk has no room for what was to be written: it is full, or the user's quota is.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// One open file.
pub trait DiskFile {
    /// How many bytes it has.
    ///
    /// # Errors
    ///
    /// What the operating system says; so for every call here.
    fn size(&self) -> io::Result<u64>;

    /// Fills `into` with the bytes from `offset` on. All of them must exist.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `bytes`. After an error any part of them may have been written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Takes the blocks for these bytes, without making the file longer. A disk without room for them
    /// refuses before anything is written. Where this cannot be asked for, it does nothing.
    fn reserve(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Writes `len` zeros. A hole would do for the contents, but then each later write would have
    /// to find blocks, and each sync would have to record them: about twice the time.
    fn write_zeros(&mut self, offset: u64, len: u64) -> io::Result<()>;

    /// Lets the disk begin with these bytes, which were written, so that a sync of them has less to wait
    /// for. Promises nothing.
    fn begin_sync(&self, _offset: u64, _len: u64) {}

    /// Makes what was written durable. After an error nobody knows what is; calling it again
    /// proves nothing, because the system may have dropped what it could not write.
    fn sync_data(&mut self) -> io::Result<()>;
}

/// Reads a whole file.
///
/// # Errors
///
/// What the operating system says.
pub fn read_all(file: &impl DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; crate::bytes::to_usize(file.size()?)];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}
