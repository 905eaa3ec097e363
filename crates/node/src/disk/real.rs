//! The disk of the operating system.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, DiskFile, Space};
use crate::bytes::{to_u64, to_usize};

/// Zeros are written in pieces of this size.
const ZEROS: &[u8] = &[0; 256 * 1024];

/// A page of the system's memory, or a part of one.
#[cfg(target_os = "linux")]
const PAGE_BYTES: u64 = 4_096;
/// So many pages are begun with before a sync.
#[cfg(target_os = "linux")]
const PAGES_BEGUN_MAX: u64 = 4;

/// Entries hold what clients store, so others of the machine have no business here.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// A directory of the file system.
#[derive(Clone, Debug)]
pub struct RealDisk {
    path: Arc<PathBuf>,
    /// Kept open: its names can be synced although no more files can be opened.
    dir: Arc<File>,
}

/// A file of a [`RealDisk`].
#[derive(Debug)]
pub struct RealFile {
    file: File,
}

/// A lock file that this process holds until the value is dropped, or the process ends.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

impl RealDisk {
    /// Uses a directory, and makes it if it does not exist.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotADirectory`] if something else has that name; otherwise what the
    /// operating system says.
    pub fn open(path: &Path) -> io::Result<RealDisk> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_dir(path)?,
            Err(error) => return Err(error),
        }
        let dir = Arc::new(File::open(path)?);
        Ok(RealDisk { path: Arc::new(path.to_owned()), dir })
    }

    /// Takes the lock of a file, which is made if it does not exist. `None` if it is taken.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn lock(&self, name: &str) -> io::Result<Option<LockFile>> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        // The file is never cut or written: only its lock means something.
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(LockFile { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Makes a directory and those above it. The new names are synced: a directory that vanishes in
/// a crash takes its synced files with it.
fn make_dir(path: &Path) -> io::Result<()> {
    let above = path.ancestors().skip(1);
    // A relative path ends with an empty one, which stands for the working directory.
    let above = above.map(|above| if above == Path::new("") { Path::new(".") } else { above });
    let above: Vec<&Path> = above.collect();
    let new = above.iter().take_while(|above| !above.exists()).count();
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)?;
    above.iter().take(new + 1).try_for_each(|above| sync_dir(above))
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Disk for RealDisk {
    type File = RealFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path.as_path())? {
            let name: OsString = entry?.file_name();
            // A name that is not text is none of ours.
            names.extend(name.into_string().ok());
        }
        names.sort();
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(FILE_MODE);
        Ok(RealFile { file: options.open(self.path.join(name))? })
    }

    fn open(&self, name: &str) -> io::Result<RealFile> {
        let file = OpenOptions::new().read(true).write(true).open(self.path.join(name))?;
        Ok(RealFile { file })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }

    fn space(&self) -> io::Result<Option<Space>> {
        let found = rustix::fs::fstatvfs(&*self.dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        // Some file systems, such as those of processes, have no blocks at all.
        let is_known = found.f_blocks > 0;
        let space = || Space { free: bytes(found.f_bavail), total: bytes(found.f_blocks) };
        Ok(is_known.then(space))
    }
}

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, len) {
            // The file system cannot do it, or a signal came: the write finds out.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => Ok(()),
            reserved => Ok(reserved?),
        }
    }

    fn write_zeros(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let piece = to_usize(len - done).min(ZEROS.len());
            self.file.write_all_at(&ZEROS[..piece], offset + done)?;
            done += to_u64(piece);
        }
        Ok(())
    }

    /// The system begins to write what it is told not to keep. No page is told to it whole: then it would
    /// also look for a way to drop the page, on all processors.
    #[cfg(target_os = "linux")]
    fn begin_sync(&self, offset: u64, len: u64) {
        let (first, end) = (offset / PAGE_BYTES, (offset + len).div_ceil(PAGE_BYTES));
        // For more, there is so much to work out meanwhile that the sync hardly counts.
        if end - first > PAGES_BEGUN_MAX {
            return;
        }
        for page in (first..end).step_by(2) {
            let begin = page * PAGE_BYTES + 1;
            let len = end.min(page + 2) * PAGE_BYTES - 1 - begin;
            let len = std::num::NonZeroU64::new(len);
            // Without it the sync takes longer, and nothing is wrong.
            let _ = rustix::fs::fadvise(&self.file, begin, len, rustix::fs::Advice::DontNeed);
        }
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}
