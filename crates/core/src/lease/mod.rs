//! Leases: what a client must keep alive to keep its keys and locks.

mod client;
mod disconnect;
mod end;
mod grant;
mod keys;
mod renew;
mod revoke;

use alloc::collections::BTreeSet;

use crate::ids::{ClientId, Epoch, Key, LeaseId, LockName, LogTime, Millis};
use crate::limits::LEASE_KEYS_MAX;
use crate::once::Window;
use crate::outcome::Reason;
use crate::state::State;

pub(crate) use end::Ending;
pub(crate) use keys::KeySet;

/// A lease.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    /// The length that a renewal gives it.
    pub(crate) ttl: Millis,
    /// The length that it was granted with.
    pub(crate) granted_ttl: Millis,
    /// When it ends. A renewal only ever moves this forward. One that was made for an owner who
    /// still waits has no end yet; its time begins with the grant.
    pub(crate) deadline: LogTime,
    pub(crate) epoch: Epoch,
    pub(crate) client: ClientId,
    pub(crate) renewed_at: LogTime,
    /// The number of its last renewal, by which a connection knows whether that came over it.
    pub(crate) renewal: u64,
    /// How often its contenders changed. Grants, releases and losses all count, so a client that
    /// missed a notification finds out at its next renewal.
    pub(crate) changes: u64,
    /// A lock was held for too long: it runs out and is not renewed.
    pub(crate) spent: bool,
    /// If set, it is revoked this long after its client disconnects.
    pub(crate) revoke_grace: Option<Millis>,
    /// Its client is disconnected, and this is when it is revoked.
    pub(crate) revoke_at: Option<LogTime>,
    /// The lock that this lease was made for, by owner name. It ends with that lock.
    pub(crate) sole_lock: Option<LockName>,
    pub(crate) window: Window,
    /// The keys attached to it. Derived: a key's record names its lease.
    pub(crate) keys: KeySet,
}

impl Lease {
    /// Whether it still counts. A due lease is dead from the moment it is due, even if the entry
    /// that removes it comes later.
    pub(crate) fn is_live(&self, now: LogTime) -> bool {
        self.deadline > now && self.revoke_at.is_none_or(|at| at > now)
    }

    /// The longest time for which its client may believe in it, whatever was renewed since.
    pub(crate) fn longest(&self, now: LogTime) -> Millis {
        self.ttl.max(self.granted_ttl).max(self.remaining(now))
    }

    pub(crate) fn remaining(&self, now: LogTime) -> Millis {
        if self.deadline == LogTime::NEVER { self.ttl } else { self.deadline.since(now) }
    }
}

impl State {
    /// How many keys are attached to a lease.
    pub fn lease_key_count(&self, id: LeaseId) -> usize {
        self.leases.get(&id).map_or(0, |lease| lease.keys.len())
    }

    /// Refuses a further key under a lease that has as many as may end at one revision.
    pub(crate) fn check_lease_room(&self, id: LeaseId, key: &Key) -> Result<(), Reason> {
        let Some(lease) = self.leases.get(&id) else { return Ok(()) };
        let is_full = self.feature_level >= 2 && lease.keys.len() >= LEASE_KEYS_MAX as usize;
        match is_full && !lease.keys.contains(key) {
            true => Err(Reason::LeaseKeysFull(LEASE_KEYS_MAX)),
            false => Ok(()),
        }
    }
}

/// What is known about a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// Where it was last heard from.
    pub(crate) address: ClientId,
    /// When it last made, or named itself in, a request. Its leases know when they were renewed.
    pub(crate) last_seen: LogTime,
    pub(crate) window: Window,
    /// Derived: a lease names its client.
    pub(crate) leases: BTreeSet<LeaseId>,
}
