//! Why a snapshot cannot be used or made.

use std::io;

/// Why a snapshot cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It contains what was never written.
    #[error(
        "a snapshot is damaged: {what} ({file}, byte {offset})\n\
         the disk gave back other bytes than were written, or the file was changed\n\
         an older snapshot is used if there is one; otherwise join this node again under a new id \
         with an empty data directory, or restore it from a backup"
    )]
    Damaged {
        /// Its file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A later build wrote it.
    #[error(
        "{file} has the format {version}, this build knows {known}\n\
         a later build of Fencepost has written the snapshot\n\
         start that build again; after an upgrade there is no way back to this one"
    )]
    LaterVersion {
        /// Its file.
        file: String,
        /// Its format.
        version: u32,
        /// The latest format that this build knows.
        known: u32,
    },
    /// The disk refused. After a failed write the node must stop: see [`crate::wal::Fatal`].
    #[error(
        "cannot keep snapshots: {doing}\n\
         the disk says: {source}\n\
         make room on the disk or replace it, and start the node again: older snapshots are safe"
    )]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
}
