//! Makes, sends and receives snapshots, beside the node.
//!
//! Owns: everything about snapshots that takes long, so that the node's loop never waits for it.
//! A thread of its own runs it in production; the simulator calls it. A snapshot is made without
//! the live state: the one before is read from disk and the entries since are applied to it. That
//! costs time here instead of a pause there, and finds out if the one before can be read.
//! Guarantees: tasks are carried out in order, and none of them panics on what it finds.

use std::collections::BTreeMap;

use crate::disk::{Disk, DiskFile};
use crate::io::{MemberId, SnapshotPiece};
use crate::membership::Membership;
use crate::replica::Replica;
use crate::snapshot_store::{self, SnapshotId, SnapshotReader, SnapshotStore, SnapshotWriter};
use crate::wal::Entry;

/// Something about a snapshot that takes long.
#[derive(Clone, Debug)]
pub enum SnapshotTask {
    /// Make a snapshot of the log up to `id`.
    Make {
        /// Which.
        id: SnapshotId,
        /// Who the members are there.
        membership: Membership,
        /// From what to make it.
        source: Source,
    },
    /// Read a piece for another member.
    Read {
        /// For whom.
        to: MemberId,
        /// Of which snapshot.
        id: SnapshotId,
        /// Which piece.
        number: u64,
    },
    /// Keep a piece that came. The first one begins the snapshot anew.
    Keep(SnapshotPiece),
    /// All pieces are there: make the snapshot durable, and read it.
    Load {
        /// Which.
        id: SnapshotId,
        /// The cluster that it must be of; zero if that is not known.
        cluster_id: u64,
    },
}

/// From what a snapshot is made.
#[derive(Clone, Debug)]
pub enum Source {
    /// From an earlier one, and the entries since.
    Replay {
        /// The earlier one.
        base: SnapshotId,
        /// All entries after it, up to the new one.
        entries: Vec<Entry>,
    },
    /// From a copy of the state: what is left if no earlier one can be read.
    Copy(Box<Replica>),
}

/// What came of a task.
#[derive(Clone, Debug)]
pub enum SnapshotDone {
    /// A snapshot was made, or why not.
    Made(SnapshotId, Result<(), NotMade>),
    /// A piece for another member; nothing behind the last one. Or why the snapshot is gone.
    Read(MemberId, SnapshotId, Result<Option<SnapshotPiece>, String>),
    /// A piece was kept, or why not.
    Kept(SnapshotId, u64, Result<(), String>),
    /// A snapshot that came is durable and readable, or why not.
    Loaded(SnapshotId, Result<Box<Replica>, String>),
}

/// Why a snapshot was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotMade {
    /// What went wrong.
    pub why: String,
    /// Whether the earlier one is to blame: then it must be made from something else.
    pub base_is_lost: bool,
}

/// Carries out snapshot tasks.
#[derive(Debug)]
pub struct SnapshotKeeper<D: Disk> {
    store: SnapshotStore<D>,
    /// The snapshots that are being sent, each with the number of its next piece.
    sending: BTreeMap<MemberId, (u64, SnapshotReader<D::File>)>,
    /// The snapshot that is being received, with the number of its next piece.
    receiving: Option<(SnapshotId, u64, SnapshotWriter<D>)>,
}

impl<D: Disk> SnapshotKeeper<D> {
    /// Works on the snapshots of one directory.
    pub fn new(store: SnapshotStore<D>) -> SnapshotKeeper<D> {
        SnapshotKeeper { store, sending: BTreeMap::new(), receiving: None }
    }

    /// Carries out one task.
    pub fn perform(&mut self, task: SnapshotTask) -> SnapshotDone {
        match task {
            SnapshotTask::Make { id, membership, source } => {
                SnapshotDone::Made(id, self.make(id, membership, source))
            }
            SnapshotTask::Read { to, id, number } => {
                // Whatever is wrong with the file, the other member will be sent another one.
                let piece = self.read(to, id, number).map_err(|why| why.to_string());
                if piece.is_err() {
                    self.sending.remove(&to);
                }
                SnapshotDone::Read(to, id, piece)
            }
            SnapshotTask::Keep(piece) => {
                let (id, number) = (piece.id, piece.number);
                SnapshotDone::Kept(id, number, self.keep(piece).map_err(|why| why.to_string()))
            }
            SnapshotTask::Load { id, cluster_id } => {
                SnapshotDone::Loaded(id, self.load(id, cluster_id).map(Box::new))
            }
        }
    }

    fn make(&self, id: SnapshotId, membership: Membership, source: Source) -> Result<(), NotMade> {
        let replica = match source {
            Source::Copy(replica) => *replica,
            Source::Replay { base, entries } => {
                self.replay(base, &entries).map_err(|why| NotMade { why, base_is_lost: true })?
            }
        };
        let failed = |why| NotMade { why, base_is_lost: false };
        if replica.machine.applied() != id.index {
            return Err(failed(format!("entries up to {} are missing", id.index)));
        }
        let written = write_replica(&self.store, id, &Replica { membership, ..replica });
        written.map_err(|why| failed(why.to_string()))
    }

    fn replay(&self, base: SnapshotId, entries: &[Entry]) -> Result<Replica, String> {
        let mut replica = read_replica(&self.store, base)?;
        for entry in entries {
            replica.machine.replay(entry)?;
        }
        Ok(replica)
    }

    fn read(
        &mut self,
        to: MemberId,
        id: SnapshotId,
        number: u64,
    ) -> Result<Option<SnapshotPiece>, snapshot_store::Error> {
        let fits =
            |(next, reader): &(u64, SnapshotReader<D::File>)| *next == number && reader.id() == id;
        if !self.sending.get(&to).is_some_and(fits) {
            // One that is open can be read although its name is gone.
            let open = self.sending.remove(&to).map(|(_, reader)| reader);
            let mut reader = match open.filter(|reader| reader.id() == id) {
                Some(reader) => reader,
                None => self.store.read(id)?,
            };
            reader.rewind();
            let mut skipped = 0;
            while skipped < number && reader.next().transpose()?.is_some() {
                skipped += 1;
            }
            self.sending.insert(to, (skipped, reader));
            if skipped < number {
                return Ok(None);
            }
        }
        let Some((next, reader)) = self.sending.get_mut(&to) else { return Ok(None) };
        let Some(bytes) = reader.next().transpose()? else { return Ok(None) };
        *next += 1;
        Ok(Some(SnapshotPiece { id, number, is_last: reader.is_at_end(), bytes }))
    }

    fn keep(&mut self, piece: SnapshotPiece) -> Result<(), snapshot_store::Error> {
        if piece.number == 0 {
            // What is left of another one is cleared away at the next opening at the latest.
            if let Some((_, _, unfinished)) = self.receiving.take() {
                drop(unfinished.abandon());
            }
            self.receiving = Some((piece.id, 0, self.store.write(piece.id)?));
        }
        if let Some((id, next, writer)) = &mut self.receiving
            && (*id, *next) == (piece.id, piece.number)
        {
            if let Err(error) = writer.push(&piece.bytes) {
                // A disk that is full must not be filled with what was not finished.
                if let Some((_, _, unfinished)) = self.receiving.take() {
                    drop(unfinished.abandon());
                }
                return Err(error);
            }
            *next += 1;
        }
        Ok(())
    }

    /// It gets its name only when it is known to be of use: otherwise it would push out those that
    /// are, and a node could not start from it.
    fn load(&mut self, id: SnapshotId, cluster_id: u64) -> Result<Replica, String> {
        let Some((_, _, writer)) = self.receiving.take_if(|(receiving, ..)| *receiving == id)
        else {
            return Err("its pieces are not here".to_owned());
        };
        let sealed = writer.seal().map_err(|why| why.to_string())?;
        let replica = sealed
            .read()
            .map_err(|why| why.to_string())
            .and_then(|reader| decode(id, reader))
            .and_then(|replica| of_cluster(replica, cluster_id));
        match replica {
            Ok(replica) => {
                sealed.publish().map_err(|why| why.to_string())?;
                Ok(replica)
            }
            Err(why) => {
                drop(sealed.abandon());
                Err(why)
            }
        }
    }
}

fn of_cluster(replica: Replica, cluster_id: u64) -> Result<Replica, String> {
    let theirs = replica.membership.cluster_id;
    if cluster_id != 0 && cluster_id != theirs {
        return Err(format!("it is of cluster {theirs:x}, not {cluster_id:x}"));
    }
    Ok(replica)
}

/// Writes a snapshot. It is durable when this returns.
///
/// # Errors
///
/// See [`snapshot_store::Error`].
pub fn write_replica<D: Disk>(
    store: &SnapshotStore<D>,
    id: SnapshotId,
    replica: &Replica,
) -> Result<(), snapshot_store::Error> {
    let mut writer = store.write(id)?;
    let mut pushed = Ok(());
    replica.encode_to(&mut |piece| {
        if pushed.is_ok() {
            pushed = writer.push(piece);
        }
    });
    match pushed {
        Ok(()) => writer.finish(),
        Err(error) => {
            // A disk that is full must not be filled with what was not finished.
            drop(writer.abandon());
            Err(error)
        }
    }
}

/// Reads a snapshot.
///
/// # Errors
///
/// What is wrong with it.
pub fn read_replica<D: Disk>(store: &SnapshotStore<D>, id: SnapshotId) -> Result<Replica, String> {
    let reader = store.read(id).map_err(|why| why.to_string())?;
    decode(id, reader)
}

fn decode<F: DiskFile>(id: SnapshotId, reader: SnapshotReader<F>) -> Result<Replica, String> {
    let mut bytes = Vec::with_capacity(reader.len_hint());
    for chunk in reader {
        bytes.extend_from_slice(&chunk.map_err(|why| why.to_string())?);
    }
    Replica::decode(id.index, &bytes).map_err(|why| why.to_string())
}
