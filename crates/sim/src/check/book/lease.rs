//! Leases, as commands and answers tell of them.

use fencepost_core::command::{AcquireAs, LeaseGrant};
use fencepost_core::outcome::Granted;
use fencepost_core::{ClientId, Epoch, LeaseId, LockName, LogTime, Millis};

use super::{Book, Page};
use crate::seen::Time;

/// A lease.
#[derive(Clone, Debug)]
pub(in crate::check) struct LeaseRecord {
    pub(in crate::check) epoch: Epoch,
    pub(in crate::check) ttl: Millis,
    pub(in crate::check) deadline: LogTime,
    /// How long it was to run, from when it was made or last renewed. A renewal that asks for less than
    /// is left does not take anything away.
    pub(in crate::check) promised: Millis,
    pub(in crate::check) client: ClientId,
    /// The lock that it was made for, by owner name.
    pub(in crate::check) sole: Option<LockName>,
    /// When it was made or last renewed, in true time as the log had it.
    pub(in crate::check) renewed_at: Time,
    /// The last true time at which a request was *sent* that made or renewed it.
    pub(in crate::check) sent_at: Option<Time>,
    /// Somebody ended it.
    pub(in crate::check) revoked: bool,
    /// The present entry has changed its deadline.
    pub(in crate::check) changed: bool,
}

impl LeaseRecord {
    /// Whether it lives at this log time. Dead from the very moment of its deadline.
    pub(in crate::check) fn is_alive(&self, now: LogTime) -> bool {
        !self.revoked && self.deadline > now
    }
}

impl Book {
    /// A lease that lives and, if an epoch is asked for, is that grant of its id.
    pub(in crate::check) fn live_lease(
        &self,
        id: LeaseId,
        epoch: Epoch,
        now: LogTime,
    ) -> Option<&LeaseRecord> {
        let lease = self.leases.get(&id).filter(|lease| lease.is_alive(now))?;
        (epoch == Epoch::ANY || lease.epoch == epoch).then_some(lease)
    }

    pub(in crate::check) fn open_lease(
        &mut self,
        page: &Page<'_>,
        asked: &LeaseGrant,
        granted: &Granted,
        sent_at: Option<Time>,
    ) {
        self.leases.insert(
            granted.id,
            LeaseRecord {
                epoch: granted.epoch,
                ttl: asked.ttl,
                deadline: page.now.after(asked.ttl),
                promised: asked.ttl,
                client: asked.client.clone(),
                sole: None,
                renewed_at: page.at,
                sent_at,
                revoked: false,
                changed: true,
            },
        );
    }

    /// A renewal moves the deadline forward, never back.
    pub(in crate::check) fn extend_lease(
        &mut self,
        page: &Page<'_>,
        id: LeaseId,
        ttl: Option<Millis>,
        sent_at: Option<Time>,
    ) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if let Some(ttl) = ttl.filter(|&ttl| ttl > Millis::ZERO) {
            lease.ttl = ttl;
        }
        lease.deadline = lease.deadline.max(page.now.after(lease.ttl));
        lease.promised = lease.deadline.since(page.now);
        lease.renewed_at = page.at;
        lease.sent_at = sent_at.max(lease.sent_at);
        lease.changed = true;
    }

    /// A lease for one owner and one lock does not run until the lock is granted.
    pub(super) fn open_sole_lease(&mut self, page: &Page<'_>, id: LeaseId, asked: &AcquireAs) {
        self.leases.insert(
            id,
            LeaseRecord {
                epoch: Epoch::ANY,
                ttl: asked.ttl,
                deadline: LogTime::NEVER,
                promised: asked.ttl,
                client: asked.client.clone(),
                sole: Some(asked.name.clone()),
                renewed_at: page.at,
                sent_at: None,
                revoked: false,
                changed: false,
            },
        );
    }

    pub(super) fn start_sole_lease(&mut self, page: &Page<'_>, id: LeaseId) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if lease.sole.is_some() && lease.deadline == LogTime::NEVER {
            lease.deadline = page.now.after(lease.ttl);
            lease.promised = lease.ttl;
            lease.renewed_at = page.at;
            lease.changed = true;
        }
    }

    pub(super) fn close_sole_lease(&mut self, id: LeaseId, name: &LockName) {
        let sole = self.leases.get(&id).is_some_and(|lease| lease.sole.as_ref() == Some(name));
        if sole {
            self.leases.remove(&id);
        }
    }

    /// Forgets leases that have been dead for long and that no place stands on any more.
    pub(in crate::check) fn forget_leases(&mut self, now: LogTime) {
        let stands = |id: LeaseId| self.queues.values().flatten().any(|place| place.lease == id);
        let long_dead = |lease: &LeaseRecord| lease.revoked || lease.deadline < now;
        let gone = self.leases.iter().filter(|(id, lease)| long_dead(lease) && !stands(**id));
        let gone: Vec<LeaseId> = gone.map(|(&id, _)| id).collect();
        for id in gone {
            self.leases.remove(&id);
        }
    }

    pub(in crate::check) fn revoke_lease(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.revoked = true;
        }
    }
}
