//! What is known about a lease.

use alloc::vec::Vec;
use core::ops::Bound;

use crate::ids::{ClientId, Epoch, Key, LeaseId, LockName, LogTime, Millis, Token};
use crate::lease::Lease;
use crate::record::queue_form;
use crate::scan::StepBudget;
use crate::state::State;

/// A lease as users see it.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseInfo {
    /// Its id.
    pub id: LeaseId,
    /// Which grant of that id.
    pub epoch: Epoch,
    /// The length that a renewal gives it.
    pub ttl: Millis,
    /// The length that it was granted with.
    pub granted_ttl: Millis,
    /// How long it still lives.
    pub remaining: Millis,
    /// When it ends. One that belongs to a waiting owner does not run yet.
    pub expiry: LogTime,
    /// Its owner.
    pub client: ClientId,
    /// When it was last renewed, or made.
    pub renewed_at: LogTime,
    /// How often its contenders changed.
    pub changes: u64,
    /// It is not renewed any more, because a lock was held for too long.
    pub spent: bool,
    /// The lock that it was made for, by owner name.
    pub sole_lock: Option<LockName>,
    /// The keys attached to it.
    pub keys: Vec<Key>,
}

/// Keys of one lease that are looked at to find those that an operator has asked for.
const FORCED_KEYS_SEEN_MAX: usize = 4_096;

impl State {
    /// A lease that is alive.
    pub fn lease(&self, id: LeaseId) -> Option<LeaseInfo> {
        let lease = self.leases.get(&id).filter(|lease| lease.is_live(self.now))?;
        Some(self.lease_info(id, lease))
    }

    /// The leases that are alive, in order of ids, from `after` on, at most `limit`.
    pub fn leases(&self, after: LeaseId, limit: usize) -> Vec<LeaseInfo> {
        self.leases_within(after, limit, &mut StepBudget::new(u32::MAX)).0
    }

    /// As [`State::leases`], but only as many as the budget allows, and at least one. Whether it
    /// has left out some.
    pub fn leases_within(
        &self,
        after: LeaseId,
        limit: usize,
        budget: &mut StepBudget,
    ) -> (Vec<LeaseInfo>, bool) {
        let mut infos = Vec::new();
        for (id, lease) in self.live_leases(after) {
            if infos.len() == limit || budget.is_spent() {
                return (infos, true);
            }
            budget.spend_on_answer(1 + lease.keys.len(), 0);
            infos.push(self.lease_info(id, lease));
        }
        (infos, false)
    }

    /// Only the ids of [`State::leases`].
    pub fn lease_ids(&self, after: LeaseId, limit: usize) -> Vec<LeaseId> {
        self.live_leases(after).map(|(id, _)| id).take(limit).collect()
    }

    fn live_leases(&self, after: LeaseId) -> impl Iterator<Item = (LeaseId, &Lease)> {
        let leases = self.leases.range((Bound::Excluded(after), Bound::Unbounded));
        leases.filter(|(_, lease)| lease.is_live(self.now)).map(|(&id, lease)| (id, lease))
    }

    /// The locks of a lease that an operator has asked for, each with its token and how long it is
    /// still held. Of the first 4,096 keys of the lease.
    pub fn forced_of(&self, id: LeaseId) -> Vec<(LockName, Token, Millis)> {
        let Some(lease) = self.leases.get(&id) else { return Vec::new() };
        let keys = lease.keys.iter().take(FORCED_KEYS_SEEN_MAX);
        let forced = keys.filter_map(|key| {
            let (record, contender) = self.contender_record(key)?;
            let (until, (name, _)) = (contender.forced()?, queue_form(key)?);
            Some((name, record.token(), until.since(self.now)))
        });
        forced.collect()
    }

    /// The lease that was made for this owner and lock, if it is alive.
    pub fn lease_of_owner(&self, client: &ClientId, name: &LockName) -> Option<LeaseId> {
        let lease = *self.owners.get(&(client.clone(), name.clone()))?;
        self.lease_is_live(lease).then_some(lease)
    }

    fn lease_info(&self, id: LeaseId, lease: &Lease) -> LeaseInfo {
        LeaseInfo {
            id,
            epoch: lease.epoch,
            ttl: lease.ttl,
            granted_ttl: lease.granted_ttl,
            remaining: lease.remaining(self.now),
            expiry: lease.deadline,
            client: lease.client.clone(),
            renewed_at: lease.renewed_at,
            changes: lease.changes,
            spent: lease.spent,
            sole_lock: lease.sole_lock.clone(),
            keys: lease.keys.iter().cloned().collect(),
        }
    }
}
