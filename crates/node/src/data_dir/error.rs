//! Why a data directory cannot be used. Three lines each: what, why, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use super::Identity;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it.
    #[error(
        "cannot use the data directory {}\n\
         another process has it open, and two writers would destroy the log\n\
         stop the other process, or give this one a directory of its own",
        path.display()
    )]
    InUse {
        /// Which directory.
        path: PathBuf,
    },
    /// The file system forbids it.
    #[error(
        "cannot use the data directory {}\n\
         this user may not read and write there: {source}\n\
         give the directory to the user that runs Fencepost, or choose another one",
        path.display()
    )]
    NoPermission {
        /// Which directory.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// There is something else of that name.
    #[error(
        "cannot use the data directory {}\n\
         it, or something on the way to it, is not a directory\n\
         choose another path, or move away what stands there",
        path.display()
    )]
    NotADirectory {
        /// Which directory.
        path: PathBuf,
    },
    /// It cannot be opened for another reason.
    #[error(
        "cannot use the data directory {}\n\
         the disk says: {source}\n\
         mend the disk, or choose another directory",
        path.display()
    )]
    Unusable {
        /// Which directory.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The identity contains what was never written.
    #[error(
        "the identity of this node is damaged: {what}\n\
         the disk gave back other bytes than were written, or the file was changed; the log beside \
         it may be damaged as well\n\
         join this node again under a new id with an empty data directory, or restore it from a \
         backup"
    )]
    DamagedIdentity {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A later build wrote it.
    #[error(
        "the identity of this node has the format {version}, this build knows {known}\n\
         a later build of Fencepost has used this directory\n\
         start that build again; after an upgrade there is no way back to this one"
    )]
    LaterVersion {
        /// Its format.
        version: u32,
        /// The latest format that this build knows.
        known: u32,
    },
    /// The directory is another node's.
    #[error(
        "cannot use this data directory as another node's\n\
         it belongs to node {} ({}) of cluster {:016x}\n\
         start that node with it, or give this one an empty directory",
        present.node_id, present.name, present.cluster_id
    )]
    OtherIdentity {
        /// Whose it is.
        present: Box<Identity>,
    },
    /// The name is too long for the file.
    #[error(
        "cannot use a node name of {len} bytes\n\
         at most {} are kept\n\
         choose a shorter name",
        super::NAME_BYTES_MAX
    )]
    NameTooLong {
        /// How long it is.
        len: usize,
    },
    /// The boot counter cannot grow any more.
    #[error(
        "the boot counter of this node cannot grow any more\n\
         it counts to 2^64, which no node reaches: the identity was made by hand\n\
         join this node again under a new id with an empty data directory"
    )]
    BootsUsedUp,
    /// The disk refused.
    #[error(
        "cannot keep the identity of this node: {doing}\n\
         the disk says: {source}\n\
         make room on the disk or mend it, and start the node again"
    )]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
}

impl Error {
    /// Says what it means that a directory cannot be opened.
    pub(super) fn opening(path: &Path, source: io::Error) -> Error {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::NoPermission { path, source }
            }
            io::ErrorKind::NotADirectory => Error::NotADirectory { path },
            _ => Error::Unusable { path, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_has_three_lines_of_its_own() {
        let error = Error::opening(Path::new("d"), io::ErrorKind::PermissionDenied.into());
        assert!(matches!(error, Error::NoPermission { .. }));
        assert_eq!(error.to_string().lines().count(), 3);
    }
}
