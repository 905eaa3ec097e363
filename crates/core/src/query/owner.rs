//! What one owner has of one lock.

use crate::ids::{ClientId, Epoch, LeaseId, LockName, Token};
use crate::record::contender_key;
use crate::state::State;

/// The place of an owner in the queue of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedPlace {
    /// The lease that was made for it.
    pub lease: LeaseId,
    /// Which grant of that id.
    pub epoch: Epoch,
    /// Its token, which counts only if it holds.
    pub token: Token,
    /// Whether it holds the lock.
    pub holds: bool,
    /// An operator has asked for the lock, so it is not held for much longer.
    pub is_forced: bool,
}

impl State {
    /// The place of this owner in the queue of this lock, if it has one.
    pub fn owned_place(&self, client: &ClientId, name: &LockName) -> Option<OwnedPlace> {
        let id = self.lease_of_owner(client, name)?;
        let lease = self.leases.get(&id)?;
        let (record, contender) = self.contender_record(&contender_key(name, id))?;
        Some(OwnedPlace {
            lease: id,
            epoch: lease.epoch,
            token: record.token(),
            holds: contender.holds(),
            is_forced: contender.forced().is_some(),
        })
    }

    /// Whether anything stands in the queue of this lock.
    pub fn is_queued(&self, name: &LockName) -> bool {
        self.locks.contains_key(name)
    }

    /// Whether a client has a place in the queue of this lock: keys that only block do not count.
    pub(crate) fn has_contender(&self, name: &LockName) -> bool {
        self.locks.get(name).is_some_and(|queue| self.counted(queue).1 < queue.len())
    }
}
