//! From a directory to a node that can run.
//!
//! Owns: what makes a log and a snapshot fit each other again after a crash. A snapshot that came
//! from another member may be durable while the log still is the old one; then the snapshot
//! counts, because it holds only what is committed. Refuses: to run on less than was promised,
//! such as an empty log in the directory of a member, which would have forgotten its votes.

use crate::disk::Disk;
use crate::log_end::LogEnd;
use crate::membership::Membership;
use crate::replica::Replica;
use crate::snapshot_keeper::{read_replica, write_replica};
use crate::snapshot_store::{self, SnapshotId, SnapshotStore};
use crate::store::Store;
use crate::wal::{self, Batch, HardState, Recovered, Start, Wal, WalConfig};

/// What a node needs to run, as its disk has it.
pub struct Booted<D: Disk> {
    /// The log, for what is to be persisted.
    pub wal: Wal<D>,
    /// The snapshots.
    pub snapshots: SnapshotStore<D>,
    /// The log in memory.
    pub store: Store,
    /// The state that the newest snapshot holds.
    pub replica: Replica,
    /// What is damaged, although the node can run without it. Somebody should hear of it.
    pub warnings: Vec<String>,
}

/// Why a node cannot run on its directory.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log.
    #[error(transparent)]
    Open(#[from] wal::OpenError),
    /// The log could not be written.
    #[error(transparent)]
    Fatal(#[from] wal::Fatal),
    /// The snapshots.
    #[error(transparent)]
    Snapshots(#[from] snapshot_store::Error),
    /// A snapshot is whole, but what it says makes no sense to this build.
    #[error("snapshot {:x}-{:x}: {why}\nits checksums are right, so another build wrote it\nrun the build that this directory was last used with", id.index, id.term)]
    Unreadable {
        /// Which.
        id: SnapshotId,
        /// What about it.
        why: String,
    },
    /// The log begins after an entry that no snapshot covers.
    #[error("no sound snapshot covers the log, which begins after entry {start}{}\nthe files may have been removed, or the disk has damaged them\ntake this member out, and let it join with an empty directory", list(.damaged))]
    SnapshotLost {
        /// What the log begins after.
        start: u64,
        /// The snapshots that are there and damaged.
        damaged: Vec<String>,
    },
    /// The log is gone.
    #[error(
        "the log of this member is gone\nwithout it the member has forgotten its votes, and could help to elect two leaders\ntake this member out, and let it join with an empty directory"
    )]
    LogLost,
}

fn list(damaged: &[String]) -> String {
    // What and where; why and what to do stand in the lines below, for all of them.
    let first_line = |one: &String| one.lines().next().unwrap_or_default().to_owned();
    damaged.iter().map(|one| format!("; {}", first_line(one))).collect()
}

/// Makes an empty directory that of a founding member. Every founder writes the same.
///
/// # Errors
///
/// See [`Error`].
pub fn found<D: Disk>(disk: &D, membership: Membership) -> Result<(), Error> {
    let (id, replica) = Replica::founding(membership);
    begin_with(disk, id, &replica)
}

/// Makes an empty directory that of a member whose log begins after this snapshot.
///
/// # Errors
///
/// See [`Error`].
pub fn begin_with<D: Disk>(disk: &D, id: SnapshotId, replica: &Replica) -> Result<(), Error> {
    let snapshots = SnapshotStore::open(disk.clone())?;
    write_replica(&snapshots, id, replica)?;
    Ok(())
}

/// Whether a directory holds no log and no snapshot. Nothing is made there.
///
/// # Errors
///
/// See [`Error`].
pub fn is_bare<D: Disk>(disk: &D) -> Result<bool, Error> {
    let doing = "listing the directory";
    let names = disk.list().map_err(|source| wal::OpenError::Io { doing, source })?;
    Ok(!names.iter().any(|name| wal::is_segment(name) || snapshot_store::is_snapshot(name)))
}

/// Opens a directory. `is_member` says that the directory was opened before, so that it must have
/// a log. `config.salt` counts if it is new.
///
/// # Errors
///
/// See [`Error`].
pub fn open<D: Disk>(disk: D, config: WalConfig, is_member: bool) -> Result<Booted<D>, Error> {
    open_with(disk, config, is_member, None)
}

/// Opens the directory of a member for the process that counts this boot. Its log must not end
/// before the place where an earlier process has closed it.
///
/// # Errors
///
/// See [`Error`].
pub fn open_member<D: Disk>(disk: D, config: WalConfig, boot: u64) -> Result<Booted<D>, Error> {
    let end = LogEnd::load(&disk);
    let doing = "reading where the log ended";
    let end = end.map_err(|source| wal::OpenError::Io { doing, source })?;
    open_with(disk, config, true, end.map(|end| (end, boot)))
}

fn open_with<D: Disk>(
    disk: D,
    config: WalConfig,
    is_member: bool,
    end: Option<(LogEnd, u64)>,
) -> Result<Booted<D>, Error> {
    let snapshots = SnapshotStore::open(disk.clone())?;
    let latest = snapshots.latest()?;
    let warnings: Vec<String> = latest.skipped.iter().map(ToString::to_string).collect();
    let id = latest.snapshot.map(|reader| reader.id());
    let check = |last| match end {
        Some((end, boot)) if !end.allows(boot, last) => {
            Err(wal::OpenError::EndsEarly { last, end })
        }
        _ => Ok(()),
    };
    let (mut wal, mut log) = Wal::open_if(disk, config, check)?;
    if is_member && log.is_new {
        return Err(Error::LogLost);
    }
    let replica = match id {
        Some(id) => read_replica(&snapshots, id).map_err(|why| Error::Unreadable { id, why })?,
        None => Replica::default(),
    };
    let id = id.unwrap_or_default();
    if id.index < log.start.index {
        return Err(Error::SnapshotLost { start: log.start.index, damaged: warnings });
    }
    if !holds(&log, id) {
        replace_log(&mut wal, &mut log, id)?;
    }
    let mut store = Store::recovered(log, replica.membership.conf.clone(), id);
    if let Some((end, _)) = end {
        store.raise_commit(end.commit);
    }
    Ok(Booted { wal, snapshots, store, replica, warnings })
}

/// Whether the log goes through the last entry of the snapshot.
fn holds(log: &Recovered, id: SnapshotId) -> bool {
    let after = |entry: &&wal::Entry| entry.index == id.index;
    let term = match id.index == log.start.index {
        true => Some(log.start.term),
        false => log.entries.iter().find(after).map(|entry| entry.term),
    };
    term == Some(id.term)
}

/// Everything in the log is older than the snapshot, or was never committed.
fn replace_log<D: Disk>(
    wal: &mut Wal<D>,
    log: &mut Recovered,
    id: SnapshotId,
) -> Result<(), wal::Fatal> {
    let HardState { term, vote, .. } = log.hard_state;
    let vote = if term < id.term { 0 } else { vote };
    let hard_state = HardState { term: term.max(id.term), vote, commit: id.index };
    let start = Start { index: id.index, term: id.term };
    let batch = Batch { start: Some(start), hard_state: Some(hard_state), ..Batch::default() };
    wal.append(&batch)?;
    wal.sync()?;
    let witnesses = std::mem::take(&mut log.witnesses);
    *log = Recovered { hard_state, start, witnesses, ..Recovered::default() };
    Ok(())
}
