//! Marks in a text file.
//!
//! Guarantees: every mark is on the disk before a caller is told of it, also one that an earlier
//! process wrote and did not sync. A torn last line is cut off; a file that was damaged is refused.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Error, MarkStore, RESOURCES_MAX, check_name};
use crate::journal::{Journal, OpenError};
use crate::mark_text;
use crate::rule::{Floor, Mark, Repeats};
use crate::token::Presented;

const TITLE: &str = "fencepost-marks";
/// Lines beyond the live ones before the file is written anew: so many that it happens rarely, so
/// few that reading them at the start takes no time.
const SPARE_LINES: usize = 1_024;

/// Marks that survive the process and the machine, in one text file.
///
/// Only a *higher* exclusive token is written down, so a holder that writes often costs one sync.
#[derive(Debug)]
pub struct FileMarks {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    journal: Journal,
    marks: HashMap<String, Mark>,
    lines: usize,
}

impl FileMarks {
    /// Opens a file of marks, or makes it. No other process can open it meanwhile.
    ///
    /// # Errors
    ///
    /// The file cannot be used; it is as it was.
    pub fn open(path: impl AsRef<Path>) -> Result<FileMarks, OpenError> {
        let mut marks = HashMap::new();
        let mut lines = 0;
        let journal = Journal::open(path.as_ref(), TITLE, |payload| {
            let (resource, mark) = read(payload).ok_or("this is no mark")?;
            marks.insert(resource, mark);
            lines += 1;
            Ok(())
        })?;
        Ok(FileMarks { inner: Mutex::new(Inner { journal, marks, lines }) })
    }

    /// A panic cannot leave the map ahead of the file, so a poisoned guard is still whole.
    fn guard(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MarkStore for FileMarks {
    fn present(&self, resource: &str, presented: Presented, repeats: Repeats) -> Result<(), Error> {
        check_name(resource)?;
        let mut inner = self.guard();
        let mut mark = inner.marks.get(resource).cloned().unwrap_or_default();
        if mark.present(presented, repeats)? { inner.keep(resource, mark) } else { Ok(()) }
    }

    fn raise_floor(&self, resource: &str, floor: &Floor) -> Result<(), Error> {
        check_name(resource)?;
        let mut inner = self.guard();
        let mut mark = inner.marks.get(resource).cloned().unwrap_or_default();
        if mark.raise_floor(floor)? { inner.keep(resource, mark) } else { Ok(()) }
    }

    fn mark(&self, resource: &str) -> Result<Mark, Error> {
        check_name(resource)?;
        Ok(self.guard().marks.get(resource).cloned().unwrap_or_default())
    }
}

impl Inner {
    /// Writes a mark down, and only then believes it: a mark that is not durable must not let
    /// anybody write.
    fn keep(&mut self, resource: &str, mark: Mark) -> Result<(), Error> {
        if self.marks.len() >= RESOURCES_MAX && !self.marks.contains_key(resource) {
            return Err(Error::TooMany);
        }
        if self.lines > SPARE_LINES + 2 * self.marks.len() {
            let all = self.marks.iter().map(|(resource, mark)| write(resource, mark));
            self.journal.rewrite(all)?;
            self.lines = self.marks.len();
        }
        self.journal.append(&[write(resource, &mark)])?;
        self.lines += 1;
        self.marks.insert(resource.to_owned(), mark);
        Ok(())
    }
}

fn write(resource: &str, mark: &Mark) -> String {
    format!("{} {}", mark_text::write(mark), mark_text::escape(resource))
}

fn read(payload: &str) -> Option<(String, Mark)> {
    let at = payload.match_indices(' ').nth(2)?.0;
    let mark = mark_text::read(&payload[..at])?;
    Some((mark_text::unescape(&payload[at + 1..])?, mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{Synced, synced};
    use crate::token::Token;

    #[test]
    fn equal_token_is_not_answered_before_its_mark_is_durable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marks");
        let six = Presented::exclusive(Token::new(6).unwrap());
        let open = || FileMarks::open(&path).unwrap();
        open().present("a", six, Repeats::Accepted).unwrap();
        // Nothing tells the next process whether the one before lived to sync its last line.
        let before = synced().len();
        let marks = open();
        let syncs = synced().split_off(before);
        assert_eq!(syncs, [Synced::File, Synced::Folder]);
        marks.present("a", six, Repeats::Accepted).unwrap();
        assert_eq!(synced().len(), before + syncs.len(), "it is durable, and not written again");
    }

    #[test]
    fn equal_token_is_not_answered_after_a_failed_sync() {
        let folder = tempfile::tempdir().unwrap();
        let marks = FileMarks::open(folder.path().join("marks")).unwrap();
        marks.guard().journal.break_down();
        let six = Presented::exclusive(Token::new(6).unwrap());
        for _ in 0..2 {
            let outcome = marks.present("a", six, Repeats::Accepted);
            assert!(matches!(outcome, Err(Error::Disk(_))), "{outcome:?}");
        }
    }
}
