//! Marks of many resources, and who keeps them.
//!
//! Owns: the trait that adapters and servers use. [`MemoryMarks`] forgets with the process,
//! [`FileMarks`] does not.
//!
//! A mark that can be forgotten protects nothing after a restart: the stale writer comes back, and
//! nobody remembers that there was a later one. Use [`MemoryMarks`] only where the resource itself
//! is gone with the process.

mod file;

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use file::FileMarks;

use crate::rule::{Floor, FloorFull, Mark, Refusal, Repeats};
use crate::token::Presented;

/// Bytes in a resource's name: as many as in a key of the lock service.
pub const RESOURCE_LEN_MAX: usize = 1_024;
/// Resources that one keeper remembers. Past it a new resource is refused: to forget an old mark
/// would let a stale token in.
pub const RESOURCES_MAX: usize = 1_000_000;

/// Remembers the highest token of each resource.
///
/// The calls may block on a disk; from asynchronous code they belong on a thread of their own.
pub trait MarkStore: Send + Sync {
    /// Checks a token, and raises the resource's mark if it is to be raised. When this returns
    /// `Ok`, the mark is as durable as this keeper makes it, and the write may go on.
    ///
    /// # Errors
    ///
    /// The token may not write, or the keeper cannot say.
    fn present(&self, resource: &str, presented: Presented, repeats: Repeats) -> Result<(), Error>;

    /// Takes over what an operator took away.
    ///
    /// # Errors
    ///
    /// It could not be written down.
    fn raise_floor(&self, resource: &str, floor: &Floor) -> Result<(), Error>;

    /// What is remembered about a resource.
    ///
    /// # Errors
    ///
    /// The keeper cannot say.
    fn mark(&self, resource: &str) -> Result<Mark, Error>;
}

/// Why a write must not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The token may not write.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The floor lists too much.
    #[error(transparent)]
    FloorFull(#[from] FloorFull),
    /// No resource can have this name.
    #[error("a resource's name has 1 to {RESOURCE_LEN_MAX} bytes, this one has {0}")]
    Name(usize),
    /// There are too many resources.
    #[error("marks of {RESOURCES_MAX} resources are kept already: remove some, or keep them apart")]
    TooMany,
    /// The disk failed. After that every call fails: what the disk holds is not known any more.
    #[error("the marks cannot be written: {0}; mend the disk and start again")]
    Disk(#[from] io::Error),
}

/// Refuses names that no keeper takes.
pub(crate) fn check_name(resource: &str) -> Result<(), Error> {
    let is_good = (1..=RESOURCE_LEN_MAX).contains(&resource.len());
    if is_good { Ok(()) } else { Err(Error::Name(resource.len())) }
}

/// Marks in memory: they are gone with the process.
#[derive(Debug, Default)]
pub struct MemoryMarks {
    marks: Mutex<HashMap<String, Mark>>,
}

impl MemoryMarks {
    /// None yet.
    pub fn new() -> MemoryMarks {
        MemoryMarks::default()
    }

    /// No call panics while it holds the guard, so a poisoned one is still whole.
    fn guard(&self) -> MutexGuard<'_, HashMap<String, Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MarkStore for MemoryMarks {
    fn present(&self, resource: &str, presented: Presented, repeats: Repeats) -> Result<(), Error> {
        check_name(resource)?;
        let mut marks = self.guard();
        if let Some(mark) = marks.get_mut(resource) {
            mark.present(presented, repeats)?;
            return Ok(());
        }
        let mut mark = Mark::default();
        // A resource without a mark needs no place: only news is worth remembering.
        if mark.present(presented, repeats)? {
            insert(&mut marks, resource, mark)?;
        }
        Ok(())
    }

    fn raise_floor(&self, resource: &str, floor: &Floor) -> Result<(), Error> {
        check_name(resource)?;
        let mut marks = self.guard();
        let mut mark = marks.get(resource).cloned().unwrap_or_default();
        if mark.raise_floor(floor)? {
            insert(&mut marks, resource, mark)?;
        }
        Ok(())
    }

    fn mark(&self, resource: &str) -> Result<Mark, Error> {
        check_name(resource)?;
        Ok(self.guard().get(resource).cloned().unwrap_or_default())
    }
}

/// Puts a mark into its place, if there is one left.
pub(crate) fn insert(
    marks: &mut HashMap<String, Mark>,
    resource: &str,
    mark: Mark,
) -> Result<(), Error> {
    if let Some(place) = marks.get_mut(resource) {
        *place = mark;
        return Ok(());
    }
    if marks.len() >= RESOURCES_MAX {
        return Err(Error::TooMany);
    }
    marks.insert(resource.to_owned(), mark);
    Ok(())
}
