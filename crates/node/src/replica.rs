//! What every member has a copy of, and what a snapshot holds: the machine and the membership.

use std::fmt;

use crate::bytes::{Reader, to_u64, to_usize};
use crate::machine::{Machine, Reason, Restore};
use crate::membership::Membership;
use crate::snapshot_store::SnapshotId;

/// The replicated state at one place of the log.
#[derive(Clone, Default)]
pub struct Replica {
    /// The state machine.
    pub machine: Machine,
    /// Who the members are.
    pub membership: Membership,
}

/// Short: a whole state helps nobody who reads a trace.
impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("applied", &self.machine.applied()).finish_non_exhaustive()
    }
}

/// Why a snapshot cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The part about the members.
    #[error("its list of members cannot be read")]
    Membership,
    /// The state.
    #[error("its state cannot be read: {0}")]
    State(String),
}

impl Replica {
    /// The state of a cluster before its first command. All of its founding members begin with
    /// a snapshot of this: whoever joins later has no other way to learn who founded it.
    #[must_use]
    pub fn founding(membership: Membership) -> (SnapshotId, Replica) {
        let id = SnapshotId { index: 1, term: 1 };
        (id, Replica { machine: Machine::at(id.index), membership })
    }

    /// Prepares a backup for a new cluster with these members.
    ///
    /// # Errors
    ///
    /// If the state cannot be restored.
    pub fn restored(self, membership: Membership, inputs: Restore) -> Result<Replica, Reason> {
        Ok(Replica { machine: self.machine.restored(inputs)?, membership })
    }

    /// Its bytes, as snapshots carry them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_to(&mut |piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// The same bytes, in pieces.
    pub fn encode_to(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut members = Vec::new();
        self.membership.encode(&mut members);
        sink(&to_u64(members.len()).to_le_bytes());
        sink(&members);
        self.machine.encode_to(sink);
    }

    /// Reads the bytes of a snapshot that covers the log up to `index`.
    ///
    /// # Errors
    ///
    /// See [`Unreadable`].
    pub fn decode(index: u64, bytes: &[u8]) -> Result<Replica, Unreadable> {
        let mut from = Reader::new(bytes);
        let members = from.u64().and_then(|len| from.raw(to_usize(len)));
        let membership = members.and_then(Membership::decode).ok_or(Unreadable::Membership)?;
        let state = from.rest();
        let machine = Machine::decode(index, state);
        let machine = machine.map_err(|error| Unreadable::State(error.to_string()))?;
        Ok(Replica { machine, membership })
    }
}
