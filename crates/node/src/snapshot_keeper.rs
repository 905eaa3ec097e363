//! Makes, sends and receives snapshots, beside the node.
//!
//! Owns: everything about snapshots that takes long, so that the node's loop never waits for it.
//! A thread of its own runs it in production; the simulator calls it. A snapshot is made without
//! the live state: the one before is read from disk and the entries since are applied to it. That
//! costs time here instead of a pause there, and finds out if the one before can be read.
//! Guarantees: tasks are carried out in order, and none of them panics on what it finds.

use std::collections::BTreeMap;

use crate::disk::Disk;
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
    Load(SnapshotId),
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
    Made(SnapshotId, Result<(), String>),
    /// A piece for another member; nothing if there is no such snapshot or piece.
    Read(MemberId, SnapshotId, Option<SnapshotPiece>),
    /// A piece was kept, or why not.
    Kept(SnapshotId, u64, Result<(), String>),
    /// A snapshot that came is durable and readable, or why not.
    Loaded(SnapshotId, Result<Box<Replica>, String>),
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
                let piece = self.read(to, id, number).ok().flatten();
                if piece.as_ref().is_none_or(|piece| piece.is_last) {
                    self.sending.remove(&to);
                }
                SnapshotDone::Read(to, id, piece)
            }
            SnapshotTask::Keep(piece) => {
                let (id, number) = (piece.id, piece.number);
                SnapshotDone::Kept(id, number, self.keep(piece).map_err(|why| why.to_string()))
            }
            SnapshotTask::Load(id) => SnapshotDone::Loaded(id, self.load(id)),
        }
    }

    fn make(&self, id: SnapshotId, membership: Membership, source: Source) -> Result<(), String> {
        let replica = match source {
            Source::Copy(replica) => *replica,
            Source::Replay { base, entries } => {
                let mut replica = read_replica(&self.store, base)?;
                for entry in entries {
                    replica.machine.replay(&entry)?;
                }
                replica
            }
        };
        if replica.machine.applied() != id.index {
            return Err(format!("entries up to {} are missing", id.index));
        }
        write_replica(&self.store, id, &Replica { membership, ..replica })
            .map_err(|why| why.to_string())
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
            let mut reader = self.store.read(id)?;
            for _ in 0..number {
                reader.next().transpose()?;
            }
            self.sending.insert(to, (number, reader));
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
            writer.push(&piece.bytes)?;
            *next += 1;
        }
        Ok(())
    }

    fn load(&mut self, id: SnapshotId) -> Result<Box<Replica>, String> {
        let received = self.receiving.take_if(|(receiving, ..)| *receiving == id);
        if let Some((_, _, writer)) = received {
            writer.finish().map_err(|why| why.to_string())?;
        }
        read_replica(&self.store, id).map(Box::new)
    }
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
    writer.push(&replica.encode())?;
    writer.finish()
}

/// Reads a snapshot.
///
/// # Errors
///
/// What is wrong with it.
pub fn read_replica<D: Disk>(store: &SnapshotStore<D>, id: SnapshotId) -> Result<Replica, String> {
    let reader = store.read(id).map_err(|why| why.to_string())?;
    let chunks: Result<Vec<Vec<u8>>, snapshot_store::Error> = reader.collect();
    let bytes = chunks.map_err(|why| why.to_string())?.concat();
    Replica::decode(id.index, &bytes).map_err(|why| why.to_string())
}
