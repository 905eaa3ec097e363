//! Backups: a snapshot in a file of its own, and a new cluster from one.
//!
//! Owns: the backup file on disk, and the wall clock and the random number of a restore.
//! Guarantees: a backup is whole and durable, or not there. A restore starts its counters from the
//! wall clock, so it refuses a clock that the backup contradicts (ADR 032).
//! Refuses: damaged files, directories in use, a clock earlier than the backup.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::edge;
use super::handle::Handle;
use crate::backup_file::{BackupFile, Header};
use crate::boot;
use crate::bytes::{Reader, to_u64};
use crate::data_dir::{self, DataDir, Identity};
use crate::disk::MemoryDisk;
use crate::machine::{self, Millis, Revision};
use crate::membership::{Member, Membership, TEXT_BYTES_MAX, is_sound};
use crate::replica::Replica;
use crate::snapshot_keeper::read_replica;
use crate::snapshot_store::{SnapshotId, SnapshotStore};
use crate::wal::WalConfig;

/// What a backup holds is what clients store.
const FILE_MODE: u32 = 0o600;
/// Bytes in a backup. A state is held in memory, so none comes near this.
const FILE_LEN_MAX: u64 = 64 << 30;
/// What tells a backup from other files.
const MAGIC_LEN: u64 = 8;
/// A restore so long after its backup needs confirmation: more often the clock is wrong.
const CLOCK_AHEAD_MAX_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// The start of 2026. A clock before it was never set. Backups of older builds carry no time to
/// compare with, and a restore at the start of 1970 would count on from the backup's own revision.
const CLOCK_MIN_UNIX_MS: u64 = 1_767_225_600_000;
/// The end of the year 9999, the last one that RFC 3339 can write.
const WRITABLE_UNIX_MS_MAX: u64 = 253_402_300_799_999;

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
    /// A file could not be written.
    #[error(
        "cannot write {}\n\
         the system says: {source}\n\
         choose another path, or make room there",
        path.display()
    )]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// A file could not be read.
    #[error(
        "cannot read {}\n\
         the system says: {source}\n\
         check the path, and whether this user may read it",
        path.display()
    )]
    Read {
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
    /// The clock is earlier than the backup, or was never set.
    #[error(
        "cannot restore {}\n\
         the clock shows {}, but it must be later than {}, or tokens could repeat\n\
         set the clock (compare `date -u`), then run `fencepost snapshot restore` again",
        path.display(), utc(*now_unix_ms), utc(*created_unix_ms)
    )]
    ClockBehind {
        /// Which file.
        path: PathBuf,
        /// When the backup was made.
        created_unix_ms: u64,
        /// The clock of this machine.
        now_unix_ms: u64,
    },
    /// The clock is long after the backup, without confirmation.
    #[error(
        "cannot restore {} without confirmation\n\
         the clock shows {}, more than 30 days after the backup of {}; a clock that is ahead uses up \
         tokens\n\
         compare `date -u`; if it is right, run `fencepost snapshot restore --accept-clock`",
        path.display(), utc(*now_unix_ms), utc(*created_unix_ms)
    )]
    ClockAhead {
        /// Which file.
        path: PathBuf,
        /// When the backup was made.
        created_unix_ms: u64,
        /// The clock of this machine.
        now_unix_ms: u64,
    },
    /// The cluster cannot have stopped at that time.
    #[error(
        "cannot restore {}\n\
         the cluster cannot have stopped at {}: {why}\n\
         run `fencepost snapshot restore` with another `--lost-at`, or without it",
        path.display(), utc(*lost_at)
    )]
    LostAt {
        /// Which file.
        path: PathBuf,
        /// The time given, in milliseconds since the Unix epoch.
        lost_at: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The counters of the restored cluster would have no room.
    #[error(
        "cannot restore {}\n\
         the clock or `--min-revision` leaves fewer than 2^40 revisions below 2^53\n\
         compare `date -u`, or run `fencepost snapshot restore` with a smaller `--min-revision`",
        path.display()
    )]
    NoRevisions {
        /// Which file.
        path: PathBuf,
    },
    /// The member cannot have this name or address.
    #[error(
        "cannot restore {}\n\
         a member needs a name, and its name and its address have at most {TEXT_BYTES_MAX} bytes\n\
         run `fencepost snapshot restore` with another `--name` or `--peer`",
        path.display()
    )]
    Member {
        /// Which file.
        path: PathBuf,
    },
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
    /// Makes a snapshot of the state as it is now, and writes it to `to` as a backup file. The file
    /// is durable, and whole or not there.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn save_backup(&self, to: &Path) -> Result<SnapshotId, Error> {
        // Read before the snapshot is made: a cluster that is lost right after it was lost later.
        let created_unix_ms = edge::unix_ms();
        let (id, bytes) = self.save_and_read()?;
        let header = Header { created_unix_ms, cluster_id: self.status().cluster_id };
        let (head, sum) = header.around(&bytes);
        let written = write_new(to, &[&head, &bytes, &sum]);
        written.map_err(|source| Error::Write { path: to.to_owned(), source })?;
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
        Ok((id, bytes.map_err(|source| Error::Read { path, source })?))
    }
}

/// As `docs/format.md` says.
fn file_name(id: SnapshotId) -> String {
    format!("{:016x}-{:016x}.snapshot", id.index, id.term)
}

fn write_new(to: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".tmp");
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(FILE_MODE).open(&unfinished)?;
    for part in parts {
        file.write_all(part)?;
    }
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
    /// Name of the only member.
    pub name: String,
    /// Peer address of the only member. It can be another one when the node is started.
    pub peer: String,
    /// For how many milliseconds nothing is granted. By default: the largest TTL that the lost
    /// cluster allowed, less the time since `lost_at`.
    pub grant_after: Option<u64>,
    /// When the last member of the lost cluster stopped, in milliseconds since the Unix epoch.
    pub lost_at: Option<u64>,
    /// Lower bound for the new revision; zero for none.
    pub min_revision: u64,
    /// Accepts a clock more than 30 days after the backup.
    pub accept_clock: bool,
    /// Wall clock in milliseconds since the Unix epoch; the system's if there is none.
    pub now_unix_ms: Option<u64>,
}

/// A cluster that was made from a backup.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Its only member.
    pub identity: Identity,
    /// The revision that it starts at.
    pub revision: u64,
    /// For how many milliseconds after its start it grants nothing.
    pub grant_after: u64,
    /// The wall clock that its counters start from.
    pub unix_ms: u64,
}

/// What a backup file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupInfo {
    /// When it was made, in milliseconds since the Unix epoch. Older builds did not say.
    pub created_unix_ms: Option<u64>,
    /// The cluster.
    pub cluster_id: u64,
    /// The incarnation of the cluster.
    pub incarnation: u64,
    /// The last log entry that it covers.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// The revision of the state.
    pub revision: u64,
    /// The largest TTL that the state allows, in milliseconds.
    pub ttl_max_ms: u64,
    /// For how long a restore with defaults grants nothing, in milliseconds.
    pub grant_after_ms: u64,
    /// Keys, those of contenders included.
    pub keys: usize,
    /// Locks with a holder or a waiter.
    pub locks: usize,
    /// Leases.
    pub leases: usize,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A backup file that was read whole.
struct Backup {
    header: Option<Header>,
    id: SnapshotId,
    replica: Replica,
    bytes: u64,
}

/// Reads a backup as a restore does, and reports what it holds.
///
/// # Errors
///
/// If it cannot be read, or is damaged.
pub fn verify(path: &Path) -> Result<BackupInfo, Error> {
    let Backup { header, id, replica, bytes } = Backup::open(path)?;
    let state = replica.machine.state();
    let sizes = state.sizes();
    Ok(BackupInfo {
        created_unix_ms: header.map(|header| header.created_unix_ms),
        cluster_id: replica.membership.cluster_id,
        incarnation: state.incarnation(),
        index: id.index,
        term: id.term,
        revision: state.revision().0,
        ttl_max_ms: state.limits().ttl_max.0,
        grant_after_ms: state.restore_wait().0,
        keys: sizes.keys,
        locks: sizes.locks,
        leases: sizes.leases,
        bytes,
    })
}

/// Makes the directory of a cluster with one member from a backup: the same cluster in another
/// incarnation. Members of the one before are refused.
///
/// # Errors
///
/// See [`Error`].
pub fn restore(restore: Restore) -> Result<Restored, Error> {
    let backup = Backup::open(&restore.from)?;
    let unix_ms = restore.now_unix_ms.unwrap_or_else(edge::unix_ms);
    restore.check_clock(unix_ms, backup.header)?;
    let Restore { from, data_dir, name, peer, grant_after, lost_at, min_revision, .. } = restore;
    let member = Member { id: edge::random(), name, peer, client: String::new() };
    if !is_sound(&member) {
        return Err(Error::Member { path: from });
    }
    let mut dir = DataDir::open(&data_dir)?;
    let files = fs::read_dir(&data_dir).map(Iterator::count);
    // The lock that was just taken is one of them.
    if dir.identity().is_some() || files.is_ok_and(|files| files > 1) {
        return Err(Error::NotEmpty { path: data_dir });
    }
    let (node_id, name) = (member.id, member.name.clone());
    let cluster_id = backup.replica.membership.cluster_id;
    let membership = Membership::founding(cluster_id, [member]);
    let incarnation = new_incarnation(backup.replica.machine.state().incarnation());
    let inputs = machine::Restore {
        unix_ms,
        incarnation,
        min_revision: Revision(min_revision),
        grant_after: grant_after.map(Millis),
        elapsed: Millis(lost_at.map_or(0, |lost_at| unix_ms.saturating_sub(lost_at))),
    };
    let replica = backup.replica.restored(membership, inputs);
    let replica = replica.map_err(|_| Error::NoRevisions { path: from })?;
    let id = SnapshotId { index: replica.machine.applied(), term: backup.id.term };
    let disk = dir.disk();
    boot::begin_with(&disk, id, &replica)?;
    drop(boot::open(disk, WalConfig::with_salt(edge::random()), false)?);
    dir.adopt(Identity { cluster_id, node_id, name, incarnation, boot: 0 })?;
    let state = replica.machine.state();
    Ok(Restored {
        identity: dir.identity().cloned().expect("it has just been adopted"),
        revision: state.revision().0,
        grant_after: state.recovering_for().0,
        unix_ms,
    })
}

impl Restore {
    /// A clock that went back would give tokens out again, and one that is ahead uses them up.
    fn check_clock(&self, now_unix_ms: u64, header: Option<Header>) -> Result<(), Error> {
        let created = header.map(|header| header.created_unix_ms);
        let created_unix_ms = created.unwrap_or_default().max(CLOCK_MIN_UNIX_MS);
        let path = self.from.clone();
        if now_unix_ms < created_unix_ms {
            return Err(Error::ClockBehind { path, created_unix_ms, now_unix_ms });
        }
        let is_ahead = now_unix_ms - created_unix_ms > CLOCK_AHEAD_MAX_MS;
        if created.is_some() && is_ahead && !self.accept_clock {
            return Err(Error::ClockAhead { path, created_unix_ms, now_unix_ms });
        }
        let Some(lost_at) = self.lost_at else { return Ok(()) };
        // Whole seconds are what people write, and the backup may be of the same second.
        let why = if lost_at > now_unix_ms {
            "that is in the future"
        } else if lost_at.saturating_add(1_000) <= created_unix_ms {
            "the backup was made later"
        } else {
            return Ok(());
        };
        Err(Error::LostAt { path, lost_at, why })
    }
}

impl Backup {
    fn open(path: &Path) -> Result<Backup, Error> {
        let io = |source| Error::Read { path: path.to_owned(), source };
        let unusable = |why| Error::Unusable { path: path.to_owned(), why };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(io)?;
        // A device or a foreign file of any length is refused by its first bytes.
        (&file).take(MAGIC_LEN).read_to_end(&mut bytes).map_err(io)?;
        if !BackupFile::may_be(&bytes) {
            return Err(unusable("it is no backup".to_owned()));
        }
        file.take(FILE_LEN_MAX + 1 - MAGIC_LEN).read_to_end(&mut bytes).map_err(io)?;
        let len = to_u64(bytes.len());
        if len > FILE_LEN_MAX {
            return Err(unusable("it is too long to be a backup".to_owned()));
        }
        let BackupFile { header, snapshot } = BackupFile::decode(&bytes).map_err(unusable)?;
        let (id, replica) = read(snapshot).map_err(unusable)?;
        if header.is_some_and(|header| header.cluster_id != replica.membership.cluster_id) {
            return Err(unusable("it names another cluster than its snapshot does".to_owned()));
        }
        Ok(Backup { header, id, replica, bytes: len })
    }
}

/// A random number other than the one before. Members of the lost cluster, and those of another
/// restore of the same backup, differ in it.
fn new_incarnation(old: u64) -> u64 {
    loop {
        let new = edge::random() & (machine::Restore::INCARNATION_LIMIT - 1);
        if new != 0 && new != old {
            return new;
        }
    }
}

/// A wall-clock time in RFC 3339, in whole seconds of UTC.
pub fn utc(unix_ms: u64) -> String {
    if unix_ms > WRITABLE_UNIX_MS_MAX {
        return format!("{unix_ms} ms after 1970");
    }
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(unix_ms)).to_string()
}

/// Reads a snapshot file, whatever its name.
fn read(bytes: &[u8]) -> Result<(SnapshotId, Replica), String> {
    const ID_AT: usize = 12;
    let mut header = Reader::new(bytes.get(ID_AT..).unwrap_or_default());
    let (Some(index), Some(term)) = (header.u64(), header.u64()) else {
        return Err("it is too short to be a backup".to_owned());
    };
    let id = SnapshotId { index, term };
    let disk = MemoryDisk::new();
    disk.put(&file_name(id), bytes);
    // The file has another name than this one, and the message around this one says it.
    let name = file_name(id);
    let first_line = |why: String| {
        let line = why.lines().next().unwrap_or_default();
        line.replace(&format!("{name}, "), "").replace(&name, "it")
    };
    let store = SnapshotStore::open(disk).map_err(|why| first_line(why.to_string()))?;
    Ok((id, read_replica(&store, id).map_err(first_line)?))
}
