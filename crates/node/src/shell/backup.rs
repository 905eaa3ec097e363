//! Backups: a copy of a snapshot file, and a new cluster from one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::edge;
use super::handle::Handle;
use crate::boot;
use crate::bytes::Reader;
use crate::data_dir::{self, DataDir, Identity};
use crate::disk::MemoryDisk;
use crate::machine::Millis;
use crate::membership::{Member, Membership};
use crate::replica::Replica;
use crate::snapshot_keeper::read_replica;
use crate::snapshot_store::{SnapshotId, SnapshotStore};
use crate::wal::WalConfig;

/// What a backup holds is what clients store.
const FILE_MODE: u32 = 0o600;

/// Why a backup cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No snapshot was made.
    #[error(
        "cannot make a backup\n\
         no snapshot could be made: {why}\n\
         look at what the node says, and try again"
    )]
    NotSaved {
        /// Why.
        why: String,
    },
    /// A file could not be read or written.
    #[error(
        "cannot {doing} {}\n\
         the system says: {source}\n\
         choose another path, or make room there",
        path.display()
    )]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// It is no backup, or a damaged one.
    #[error(
        "{} cannot be restored\n\
         {why}\n\
         restore another backup",
        path.display()
    )]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The directory is in use, or cannot be used.
    #[error(transparent)]
    DataDir(#[from] data_dir::Error),
    /// Something is in the directory already.
    #[error(
        "cannot restore into {}\n\
         it holds files already, and a restored cluster begins with an empty directory\n\
         choose another directory",
        path.display()
    )]
    NotEmpty {
        /// Which directory.
        path: PathBuf,
    },
    /// The directory could not be written.
    #[error(transparent)]
    Boot(#[from] boot::Error),
}

impl Handle {
    /// Makes a snapshot of the state as it is now, and copies it to `to`. The copy is durable, and
    /// whole or not there.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn save_backup(&self, to: &Path) -> Result<SnapshotId, Error> {
        let (id, bytes) = self.save_and_read()?;
        let written = write_new(to, &bytes);
        written.map_err(|source| Error::Io { doing: "write", path: to.to_owned(), source })?;
        Ok(id)
    }

    /// A replica of the state as it is now, made beside the node's loop. Nothing that happens to
    /// the node changes it.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn replica(&self) -> Result<Replica, Error> {
        let (_, bytes) = self.save_and_read()?;
        Ok(read(&bytes).map_err(|why| Error::NotSaved { why })?.1)
    }

    /// Makes a snapshot, and reads its file.
    fn save_and_read(&self) -> Result<(SnapshotId, Vec<u8>), Error> {
        let home = self.home.as_ref();
        let home = home.ok_or_else(|| Error::NotSaved { why: "there is no directory".into() })?;
        let id = self.save().map_err(|why| Error::NotSaved { why })?;
        let path = home.join(file_name(id));
        let bytes = fs::read(&path);
        Ok((id, bytes.map_err(|source| Error::Io { doing: "read", path, source })?))
    }
}

/// As `docs/format.md` says.
fn file_name(id: SnapshotId) -> String {
    format!("{:016x}-{:016x}.snapshot", id.index, id.term)
}

fn write_new(to: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".tmp");
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(FILE_MODE).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// How a cluster is made from a backup.
#[derive(Clone, Debug, Default)]
pub struct Restore {
    /// The backup.
    pub from: PathBuf,
    /// A directory that is empty or does not exist.
    pub data_dir: PathBuf,
    /// What the only member will be called.
    pub name: String,
    /// Where other members will reach it. It can be another one when the node is started.
    pub peer: String,
    /// For how many milliseconds nothing is granted; as long as the longest lease in the backup, but
    /// at least a minute, if nothing is said.
    pub grant_after: Option<u64>,
}

/// Makes the directory of a cluster with one member from a backup: the same cluster in its next
/// incarnation. Members of the one before are refused.
///
/// # Errors
///
/// See [`Error`].
pub fn restore(restore: Restore) -> Result<Identity, Error> {
    let Restore { from, data_dir, name, peer, grant_after } = restore;
    let unusable = |why: String| Error::Unusable { path: from.clone(), why };
    let bytes = fs::read(&from);
    let bytes = bytes.map_err(|source| Error::Io { doing: "read", path: from.clone(), source })?;
    let (id, backup) = read(&bytes).map_err(unusable)?;
    let mut dir = DataDir::open(&data_dir)?;
    let files = fs::read_dir(&data_dir).map(Iterator::count);
    // The lock that was just taken is one of them.
    if dir.identity().is_some() || files.is_ok_and(|files| files > 1) {
        return Err(Error::NotEmpty { path: data_dir });
    }
    let member = Member { id: edge::random(), name, peer, client: String::new() };
    let (node_id, name) = (member.id, member.name.clone());
    let cluster_id = backup.membership.cluster_id;
    let membership = Membership::founding(cluster_id, [member]);
    let restored = backup.restored(membership, grant_after.map(Millis));
    let replica = restored.map_err(|reason| unusable(reason.to_string()))?;
    let id = SnapshotId { index: replica.machine.applied(), term: id.term };
    let incarnation = replica.machine.state().incarnation();
    let disk = dir.disk();
    boot::begin_with(&disk, id, &replica)?;
    drop(boot::open(disk, WalConfig::with_salt(edge::random()), false)?);
    dir.adopt(Identity { cluster_id, node_id, name, incarnation, boot: 0 })?;
    Ok(dir.identity().cloned().expect("it has just been adopted"))
}

/// Reads a backup, which is a snapshot file under any name.
fn read(bytes: &[u8]) -> Result<(SnapshotId, Replica), String> {
    const ID_AT: usize = 12;
    let mut header = Reader::new(bytes.get(ID_AT..).unwrap_or_default());
    let (Some(index), Some(term)) = (header.u64(), header.u64()) else {
        return Err("it is too short to be a backup".to_owned());
    };
    let id = SnapshotId { index, term };
    let disk = MemoryDisk::new();
    disk.put(&file_name(id), bytes);
    let store = SnapshotStore::open(disk).map_err(|why| why.to_string())?;
    let first_line = |why: String| why.lines().next().unwrap_or_default().to_owned();
    Ok((id, read_replica(&store, id).map_err(first_line)?))
}
