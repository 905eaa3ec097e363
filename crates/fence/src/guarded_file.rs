//! A file that only the latest holder of a lock can replace.
//!
//! Owns: the file `F`, its mark in `F.fence`, and the lock `F.fence.lock` by which processes of
//! one machine take turns.
//! Guarantees: readers of `F` see one whole version, whenever a writer dies. Once a token has
//! written, no lower one does.
//!
//! The order is what makes it safe: the mark is durable before the contents appear. The other way
//! round, a crash between the two would leave new contents without a mark, and a stale holder
//! could replace them. This way the worst is a mark without contents: the same holder may write
//! again, and nobody older can.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::durable::{sync_all, sync_folder_of};
use crate::journal::beside;
use crate::mark_text;
use crate::rule::{Floor, FloorFull, Mark, Refusal, Repeats};
use crate::token::Presented;

const TITLE: &str = "fencepost-mark 1";
/// Places in one replacement where a process may die.
const STEPS: usize = 6;

/// A file whose contents are replaced as a whole, by holders in the order of their tokens.
///
/// Several processes of one machine may use it at once. It is no help between machines: a network
/// file system may not keep its locks.
#[derive(Clone, Debug)]
pub struct GuardedFile {
    path: PathBuf,
    repeats: Repeats,
    #[cfg(test)]
    dies_at: Option<usize>,
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The token may not write.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The floor lists too much.
    #[error(transparent)]
    FloorFull(#[from] FloorFull),
    /// The side file is not what was written.
    #[error("{0} is damaged: restore it from a copy; without it a stale holder could write")]
    Damaged(PathBuf),
    /// The operating system refuses. The contents are the old ones or the new ones, whole.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

impl GuardedFile {
    /// Guards the file at this path. Neither it nor its mark has to exist yet.
    pub fn new(path: impl Into<PathBuf>) -> GuardedFile {
        GuardedFile {
            path: path.into(),
            repeats: Repeats::default(),
            #[cfg(test)]
            dies_at: None,
        }
    }

    /// What to do when a token writes again. With [`Repeats::Refused`] a holder that dies in the
    /// middle of its write cannot repeat it: each token writes at most once. With
    /// [`Repeats::SameData`] it can repeat a write that has come to its end.
    #[must_use]
    pub fn repeats(mut self, repeats: Repeats) -> GuardedFile {
        self.repeats = repeats;
        self
    }

    /// Replaces the contents. When this returns, they are on the disk.
    ///
    /// # Errors
    ///
    /// The token may not write, and nothing has changed; or the disk failed.
    pub fn write(&self, presented: Presented, contents: &[u8]) -> Result<(), WriteError> {
        let _turn = self.take_turn()?;
        let mut mark = self.read_mark()?;
        let is_same = self.repeats == Repeats::SameData
            && mark.highest() == Some(presented.token)
            && self.holds(contents)?;
        if mark.present_data(presented, self.repeats, is_same)? {
            self.write_mark(&mark)?;
        }
        self.replace(&self.path, STEPS, contents)?;
        Ok(())
    }

    /// Whether the file has these contents.
    fn holds(&self, contents: &[u8]) -> io::Result<bool> {
        match fs::metadata(&self.path) {
            Ok(found) if found.len() == contents.len() as u64 => {
                Ok(fs::read(&self.path)? == contents)
            }
            Ok(_) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes over what an operator took away.
    ///
    /// # Errors
    ///
    /// The disk failed, or the floor lists too much.
    pub fn raise_floor(&self, floor: &Floor) -> Result<(), WriteError> {
        let _turn = self.take_turn()?;
        let mut mark = self.read_mark()?;
        if mark.raise_floor(floor)? {
            self.write_mark(&mark)?;
        }
        Ok(())
    }

    /// What is remembered about the file.
    ///
    /// # Errors
    ///
    /// The side file cannot be read.
    pub fn mark(&self) -> Result<Mark, WriteError> {
        let _turn = self.take_turn()?;
        self.read_mark()
    }

    /// Waits for the other writers. The lock ends with the file that is returned, or with the
    /// process.
    fn take_turn(&self) -> io::Result<File> {
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(beside(&self.path, ".fence.lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    fn side_file(&self) -> PathBuf {
        beside(&self.path, ".fence")
    }

    fn read_mark(&self) -> Result<Mark, WriteError> {
        let path = self.side_file();
        match fs::read_to_string(&path) {
            Ok(text) => {
                let mark =
                    read_side_file(&text).ok_or_else(|| WriteError::Damaged(path.clone()))?;
                // A process that died may not have made the mark's name durable. Nobody may be told
                // of a mark that can still vanish.
                sync_folder_of(&path)?;
                Ok(mark)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Mark::default()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(WriteError::Damaged(path))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn write_mark(&self, mark: &Mark) -> io::Result<()> {
        self.replace(&self.side_file(), 0, side_file(mark).as_bytes())
    }

    /// Puts new bytes in the place of a file, so that a reader sees the old or the new ones.
    fn replace(&self, path: &Path, first_step: usize, bytes: &[u8]) -> io::Result<()> {
        // One name is enough: whoever has the turn is alone, and a draft left over by a process
        // that died is written anew.
        let draft = beside(path, ".new");
        self.step(first_step)?;
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&draft)?;
        if let Ok(old) = fs::metadata(path) {
            // Who could not read the old version cannot read the new one.
            file.set_permissions(old.permissions())?;
        }
        self.step(first_step + 1)?;
        file.write_all(bytes)?;
        self.step(first_step + 2)?;
        sync_all(&file)?;
        self.step(first_step + 3)?;
        fs::rename(&draft, path)?;
        self.step(first_step + 4)?;
        sync_folder_of(path)?;
        self.step(first_step + 5)
    }

    /// A place where the process may die. Tests let it, at each of them.
    #[cfg(test)]
    fn step(&self, number: usize) -> io::Result<()> {
        if self.dies_at == Some(number) { Err(io::Error::other("it died")) } else { Ok(()) }
    }

    #[cfg(not(test))]
    fn step(&self, _number: usize) -> io::Result<()> {
        Ok(())
    }
}

fn side_file(mark: &Mark) -> String {
    let rest = format!("{TITLE} {}", mark_text::write(mark));
    format!("{rest} {:08x}\n", crc32c::crc32c(rest.as_bytes()))
}

fn read_side_file(text: &str) -> Option<Mark> {
    let (rest, crc) = text.strip_suffix('\n')?.rsplit_once(' ')?;
    if crc != format!("{:08x}", crc32c::crc32c(rest.as_bytes())) {
        return None;
    }
    mark_text::read(rest.strip_prefix(TITLE)?.strip_prefix(' ')?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::durable::{Synced, synced};
    use crate::token::Token;

    fn exclusive(number: u64) -> Presented {
        Presented::exclusive(Token::new(number).unwrap())
    }

    fn refusal(outcome: Result<(), WriteError>) -> String {
        match outcome {
            Err(WriteError::Refused(refusal)) => refusal.to_string(),
            other => panic!("it was not refused: {other:?}"),
        }
    }

    // Requirements: S0-076, S0-077, S2-001, S2-005.
    #[test]
    fn a_late_holder_cannot_replace_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.csv");
        let file = GuardedFile::new(&path);
        file.write(exclusive(101), b"by B").unwrap();
        assert_eq!(
            refusal(file.write(exclusive(100), b"by A")),
            "Token 100 is stale, last seen was 101"
        );
        assert_eq!(fs::read(&path).unwrap(), b"by B");
        file.write(exclusive(101), b"by B again").unwrap();
        let strict = file.clone().repeats(Repeats::Refused);
        assert_eq!(refusal(strict.write(exclusive(101), b"x")), "Token 101 already used");
        assert_eq!(fs::read(&path).unwrap(), b"by B again");
    }

    #[test]
    fn mark_is_durable_before_a_caller_is_told_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = GuardedFile::new(folder.path().join("f"));
        file.write(exclusive(6), b"six").unwrap();
        let syncs = |act: &dyn Fn()| {
            let before = synced().len();
            act();
            synced().split_off(before)
        };
        let refused = syncs(&|| drop(refusal(file.write(exclusive(5), b"late"))));
        assert_eq!(refused, [Synced::Folder]);
        let equal = syncs(&|| file.write(exclusive(6), b"again").unwrap());
        assert_eq!(equal, [Synced::Folder, Synced::File, Synced::Folder]);
        assert_eq!(syncs(&|| drop(file.mark().unwrap())), [Synced::Folder]);
    }

    #[test]
    fn a_forced_release_shuts_the_file_to_its_old_holder() {
        let folder = tempfile::tempdir().unwrap();
        let file = GuardedFile::new(folder.path().join("f"));
        file.write(exclusive(7), b"seven").unwrap();
        let floor = Floor { below: Token::new(8), taken: BTreeSet::new() };
        file.raise_floor(&floor).unwrap();
        assert!(refusal(file.write(exclusive(7), b"x")).contains("below the fence floor 8"));
        file.write(exclusive(9), b"nine").unwrap();
    }

    /// The page cache outlives a killed process, so an error at a step leaves what a kill leaves.
    #[test]
    fn a_writer_may_die_at_every_step() {
        for step in 0..2 * STEPS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("f");
            let file = GuardedFile::new(&path);
            file.write(exclusive(5), b"five").unwrap();
            let dying = GuardedFile { dies_at: Some(step), ..file.clone() };
            assert!(matches!(dying.write(exclusive(6), b"sixsix"), Err(WriteError::Io(_))));

            let contents = fs::read(&path).unwrap();
            let highest = file.mark().unwrap().highest().unwrap().get();
            match contents.as_slice() {
                b"five" => assert!(highest == 5 || highest == 6, "step {step}"),
                // New contents without their mark: a stale holder could replace them.
                b"sixsix" => assert_eq!(highest, 6, "step {step}"),
                other => panic!("step {step}: half a version: {other:?}"),
            }
            if highest == 6 {
                refusal(file.write(exclusive(5), b"late"));
            }
            file.write(exclusive(6), b"six again").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"six again");
        }
    }

    #[test]
    fn a_damaged_mark_lets_nobody_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let file = GuardedFile::new(&path);
        file.write(exclusive(12), b"x").unwrap();
        let side = folder.path().join("f.fence");
        let whole = fs::read(&side).unwrap();
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            fs::write(&side, &broken).unwrap();
            let outcome = file.write(exclusive(99), b"y");
            assert!(matches!(outcome, Err(WriteError::Damaged(_))), "byte {at}: {outcome:?}");
            fs::write(&side, &whole[..at]).unwrap();
            assert!(matches!(file.mark(), Err(WriteError::Damaged(_))), "cut at {at}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"x");
    }
}
