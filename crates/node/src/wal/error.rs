//! Why a log cannot be opened, or not written any more.

use std::io;

use super::item::Start;
use crate::log_end::LogEnd;

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log contains what was never written, or lacks what was.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// A file has the name of a segment and is none.
    #[error(
        "{file} is not a part of a log\n\
         it does not begin as one: something else was copied there, or its beginning is damaged\n\
         look where the file comes from; if it was a part of this log, join this node again under \
         a new id with an empty data directory"
    )]
    NotALog {
        /// Its name.
        file: String,
    },
    /// A later build wrote the log.
    #[error(
        "{file} has the format {version}, this build knows {known}\n\
         a later build of Fencepost has written the log\n\
         start that build again; after an upgrade there is no way back to this one"
    )]
    LaterVersion {
        /// The segment.
        file: String,
        /// Its format.
        version: u32,
        /// The latest format that this build knows.
        known: u32,
    },
    /// The log lacks what it has held before.
    #[error(
        "the log ends at entry {}, and has held entry {} before (entry {} was committed)\n\
         the disk lost writes that it had confirmed, or files were changed or set back; entries \
         that this node has promised to keep are gone\n\
         remove this member with `fencepost member rm`, then start it with an empty data directory \
         and --join; restore a node that is alone from a backup; see docs/operations.md",
        last.index, end.last.index, end.commit
    )]
    EndsEarly {
        /// The last entry.
        last: Start,
        /// Where the log ended when it was closed.
        end: LogEnd,
    },
    /// The disk refused.
    #[error(
        "cannot open the log: {doing}\n\
         the disk says: {source}\n\
         mend the disk or its permissions and start again; nothing was lost by this"
    )]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
}

/// Where a log is damaged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the log is damaged: {what} ({file}, byte {offset})\n\
     the disk gave back other bytes than were written, or files were changed or removed; entries \
     that this node has promised to keep may be among them\n\
     remove this node from its cluster and join it again under a new id with an empty data \
     directory, or restore it from a backup; never delete a part of the log"
)]
pub struct Damaged {
    /// The segment.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What is wrong there.
    pub what: &'static str,
}

/// The log cannot be written any more, and the node must stop.
///
/// After a failed write or sync nobody knows what is on the disk. Trying again can succeed without
/// having written anything, because the system drops what it could not write. So nothing is tried
/// again: opening the log anew finds out what is there.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// The disk refused.
    #[error(
        "cannot write the log: {doing}\n\
         the disk says: {source}\n\
         make room on the disk or replace it, and start the node again: it keeps what it promised"
    )]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
    /// A batch is larger than a record can be.
    #[error(
        "cannot write the log: a batch of {bytes} bytes\n\
         a record holds at most {max}\n\
         this is a mistake in Fencepost: please report it"
    )]
    TooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        max: usize,
    },
    /// An earlier call failed.
    #[error(
        "cannot write the log: {doing} failed before\n\
         what is on the disk is unknown since then\n\
         start the node again: it reads what is there"
    )]
    Poisoned {
        /// What failed then.
        doing: &'static str,
    },
}
