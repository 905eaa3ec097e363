//! A text file of lines that survives a crash.
//!
//! Owns: the bytes of such a file, its lock, and what is done about a torn end.
//! Guarantees: when [`Journal::append`] returns, its lines are on the disk, and so are all lines of the
//! file when [`Journal::open`] returns: an earlier process may have died before its sync. What was on
//! the disk and is damaged is never skipped in silence: the file is refused.
//! Refuses: going on after a failed write. What the disk holds is unknown then.
//!
//! The first line is a title, and says how many bytes were synced when the file was written as a
//! whole. Each other line is `crc synced payload`: a checksum, how many bytes of the file were
//! known to be durable when the line was written, and what the caller wants to keep. A crash can
//! leave anything after the last sync, also good lines after bad ones. So a bad line is cut off
//! with all that follows, unless a later line or the title proves that it was durable.

mod scan;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::durable::{sync_all, sync_data, sync_folder_of};
use scan::{Scan, Whole};

/// The version of this format.
const VERSION: u32 = 1;

/// An open file, locked against other processes.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    title: &'static str,
    file: File,
    /// Bytes in the file, all of them durable.
    len: u64,
    /// Set while a write is under way, and left set if it fails.
    is_broken: bool,
    /// Held as long as the journal lives. A file of its own, because the other one is replaced.
    _lock: File,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system refuses.
    #[error("cannot open {path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// It holds something else.
    #[error("{0} is not such a file: name another one, nothing was changed")]
    Foreign(PathBuf),
    /// It is not what was written.
    #[error("{path} is damaged at byte {at}: {what}; restore it from a copy, do not delete it")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        at: u64,
        /// What is wrong there.
        what: String,
    },
    /// Another process has it.
    #[error("{0} is in use by another process: stop that one first")]
    InUse(PathBuf),
}

impl Journal {
    /// Opens a file or makes it, and hands every payload to `replay` in order. A payload that
    /// `replay` cannot read counts as damage.
    ///
    /// # Errors
    ///
    /// The file cannot be used; it is as it was.
    pub(crate) fn open(
        path: &Path,
        title: &'static str,
        replay: impl FnMut(&str) -> Result<(), String>,
    ) -> Result<Journal, OpenError> {
        let failed = |error| OpenError::Io { path: path.to_owned(), error };
        let lock = lock_beside(path).map_err(|error| match error {
            TryLockError::WouldBlock => OpenError::InUse(path.to_owned()),
            TryLockError::Error(error) => failed(error),
        })?;
        let is_new = match fs::metadata(path) {
            Ok(metadata) => metadata.len() == 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(failed(error)),
        };
        if is_new {
            let (file, len) = write_whole(path, title, []).map_err(failed)?;
            let path = path.to_owned();
            return Ok(Journal { path, title, file, len, is_broken: false, _lock: lock });
        }
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let Whole { len, proven } = Scan { path, title, replay }.run(&file)?;
        if file.metadata().map_err(failed)?.len() > len {
            file.set_len(len).map_err(failed)?;
        }
        settle(&file, path, proven..len).map_err(failed)?;
        file.seek(SeekFrom::Start(len)).map_err(failed)?;
        Ok(Journal { path: path.to_owned(), title, file, len, is_broken: false, _lock: lock })
    }

    /// Bytes in the file.
    #[cfg(any(test, feature = "store"))]
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Writes lines, with one sync for all of them.
    ///
    /// # Errors
    ///
    /// The disk failed, now or before. The lines may or may not be there.
    pub(crate) fn append<S: AsRef<str>>(&mut self, payloads: &[S]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for payload in payloads {
            push_line(&mut bytes, self.len, payload.as_ref());
        }
        self.start()?;
        self.file.write_all(&bytes)?;
        sync_data(&self.file)?;
        self.len += u64::try_from(bytes.len()).expect("a buffer in memory fits into 64 bits");
        self.is_broken = false;
        Ok(())
    }

    /// Replaces the file by one that has only these lines.
    ///
    /// # Errors
    ///
    /// The disk failed, now or before. The old file or the new one is there, whole.
    pub(crate) fn rewrite(&mut self, payloads: impl IntoIterator<Item = String>) -> io::Result<()> {
        self.start()?;
        (self.file, self.len) = write_whole(&self.path, self.title, payloads)?;
        self.is_broken = false;
        Ok(())
    }

    /// As if the disk had failed.
    #[cfg(test)]
    pub(crate) fn break_down(&mut self) {
        self.is_broken = true;
    }

    fn start(&mut self) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("an earlier write failed"));
        }
        self.is_broken = true;
        Ok(())
    }
}

/// The file with this ending beside another one.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Makes durable what was read, and the name of the file: whoever is told of it must not see it vanish.
///
/// Lines that nothing proves durable are written once more before that. If a sync has failed in an
/// earlier process, the system can still show them, take them for written, and let the next sync
/// succeed without them.
fn settle(file: &File, path: &Path, unproven: Range<u64>) -> io::Result<()> {
    let mut lines = vec![0; usize::try_from(unproven.end - unproven.start).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut lines, unproven.start)?;
    file.write_all_at(&lines, unproven.start)?;
    sync_all(file)?;
    sync_folder_of(path)
}

fn lock_beside(path: &Path) -> Result<File, TryLockError> {
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(beside(path, ".lock"))
        .map_err(TryLockError::Error)?;
    lock.try_lock()?;
    Ok(lock)
}

fn push_line(bytes: &mut Vec<u8>, synced: u64, payload: &str) {
    debug_assert!(!payload.contains('\n'), "a payload is one line");
    let rest = format!("{synced} {payload}");
    bytes.extend_from_slice(format!("{:08x} {rest}\n", crc32c::crc32c(rest.as_bytes())).as_bytes());
}

/// The first line of a file of which this many bytes were durable before it got its name. Always
/// of the same length, because the number is known last and written over the first draft.
fn title_line(title: &str, sealed: u64) -> String {
    let rest = format!("{title} {VERSION} {sealed:020}");
    format!("# {rest} {:08x}\n", crc32c::crc32c(rest.as_bytes()))
}

/// Writes a file under another name, syncs it, and lets it take its place.
fn write_whole(
    path: &Path,
    title: &str,
    payloads: impl IntoIterator<Item = String>,
) -> io::Result<(File, u64)> {
    let draft = beside(path, ".new");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&draft)?;
    let mut to = BufWriter::new(file);
    to.write_all(title_line(title, 0).as_bytes())?;
    let mut line = Vec::new();
    for payload in payloads {
        line.clear();
        push_line(&mut line, 0, &payload);
        to.write_all(&line)?;
    }
    let len = to.stream_position()?;
    to.seek(SeekFrom::Start(0))?;
    to.write_all(title_line(title, len).as_bytes())?;
    let mut file = to.into_inner().map_err(io::IntoInnerError::into_error)?;
    sync_all(&file)?;
    fs::rename(&draft, path)?;
    sync_folder_of(path)?;
    file.seek(SeekFrom::Start(len))?;
    Ok((file, len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::durable::{Synced, synced};

    const TITLE: &str = "test-lines";

    fn open(path: &Path) -> Result<(Journal, Vec<String>), OpenError> {
        let mut seen = Vec::new();
        let journal = Journal::open(path, TITLE, |payload| {
            seen.push(payload.to_owned());
            Ok(())
        })?;
        Ok((journal, seen))
    }

    fn lines(of: &[&str]) -> Vec<String> {
        of.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn lines_come_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let (mut journal, seen) = open(&path).unwrap();
        assert!(seen.is_empty());
        journal.append(&["a", "b b"]).unwrap();
        journal.append(&[""]).unwrap();
        drop(journal);
        let (mut journal, seen) = open(&path).unwrap();
        assert_eq!(seen, ["a", "b b", ""]);
        assert_eq!(journal.len(), fs::metadata(&path).unwrap().len());
        journal.rewrite(lines(&["c"])).unwrap();
        journal.append(&["d"]).unwrap();
        drop(journal);
        assert_eq!(open(&path).unwrap().1, ["c", "d"]);
    }

    /// An earlier process may have died before its sync, and its lines vanish in a power cut.
    #[test]
    fn opened_file_is_synced_before_the_first_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let (mut journal, _) = open(&path).unwrap();
        journal.append(&["synced"]).unwrap();
        let durable = journal.len();
        drop(journal);
        let mut bytes = fs::read(&path).unwrap();
        push_line(&mut bytes, durable, "written");
        fs::write(&path, &bytes).unwrap();
        let before = synced().len();
        let (_journal, seen) = open(&path).unwrap();
        assert_eq!(seen, ["synced", "written"]);
        assert_eq!(synced()[before..], [Synced::File, Synced::Folder]);
        assert_eq!(fs::read(&path).unwrap(), bytes, "it holds what it held");
    }

    #[test]
    fn lines_that_nothing_proves_durable_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let (mut journal, _) = open(&path).unwrap();
        let title = journal.len();
        journal.append(&["a"]).unwrap();
        let first = journal.len();
        journal.append(&["b", "c"]).unwrap();
        let end = journal.len();
        drop(journal);
        let whole = |cut: u64| {
            let bytes = fs::read(&path).unwrap();
            let cut_off = folder.path().join("cut");
            fs::write(&cut_off, &bytes[..usize::try_from(cut).unwrap()]).unwrap();
            let scan = Scan { path: &cut_off, title: TITLE, replay: |_: &str| Ok(()) };
            let Whole { len, proven } = scan.run(&File::open(&cut_off).unwrap()).unwrap();
            (proven, len)
        };
        assert_eq!(whole(end), (first, end));
        assert_eq!(whole(first), (title, first));
        assert!(whole(end - 1).1 < end - 1, "half a line does not count");
    }

    #[test]
    fn one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let first = open(&path).unwrap();
        assert!(matches!(open(&path), Err(OpenError::InUse(_))));
        drop(first);
        assert!(open(&path).is_ok());
    }

    #[test]
    fn a_foreign_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letter");
        for text in ["Dear reader,\n", "#", "# test-lines 2 00000000000000000000 00000000\n"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(open(&path), Err(OpenError::Foreign(_))), "{text:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn the_end_may_be_torn_at_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let (mut journal, _) = open(&path).unwrap();
        journal.append(&["first"]).unwrap();
        let durable = usize::try_from(journal.len()).unwrap();
        journal.append(&["second", "third"]).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for cut in durable..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, seen) = open(&path).unwrap();
            assert!(
                ["first", "second"][..]
                    .starts_with(&seen.iter().map(String::as_str).collect::<Vec<_>>()),
                "cut at {cut}: {seen:?}"
            );
            assert!(!seen.is_empty(), "cut at {cut}");
            journal.append(&["after"]).unwrap();
            drop(journal);
            assert_eq!(open(&path).unwrap().1.last().unwrap(), "after");
        }
    }

    #[test]
    fn what_was_synced_is_never_dropped_in_silence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let (mut journal, _) = open(&path).unwrap();
        journal.rewrite(lines(&["zero", "one"])).unwrap();
        journal.append(&["two"]).unwrap();
        let durable = usize::try_from(journal.len()).unwrap();
        journal.append(&["three"]).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for at in 0..durable {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            fs::write(&path, &broken).unwrap();
            let outcome = open(&path);
            assert!(
                matches!(outcome, Err(OpenError::Damaged { .. } | OpenError::Foreign(_))),
                "byte {at}: {outcome:?}"
            );
            assert_eq!(fs::read(&path).unwrap(), broken, "a refused file is not changed");
        }
    }

    #[test]
    fn a_file_written_as_a_whole_cannot_lose_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let (mut journal, _) = open(&path).unwrap();
        journal.rewrite(lines(&["zero", "one"])).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for cut in 1..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(open(&path).is_err(), "cut at {cut}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever stands after the last sync is cut off, and what was before it is kept.
        #[test]
        fn any_rubbish_after_the_last_sync_is_cut(
            rubbish in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("lines");
            let (mut journal, _) = open(&path).unwrap();
            journal.append(&["kept"]).unwrap();
            drop(journal);
            let mut bytes = fs::read(&path).unwrap();
            bytes.extend_from_slice(&rubbish);
            fs::write(&path, &bytes).unwrap();
            prop_assert_eq!(open(&path).unwrap().1, ["kept"]);
        }
    }
}
