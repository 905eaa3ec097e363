//! Ends a lease because its owner says so.

use crate::command::{LeaseRef, LeaseRevoke};
use crate::ids::Epoch;
use crate::lease::{Ending, Lease};
use crate::mutant::Mutant;
use crate::outcome::{Outcome, Reason};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn lease_revoke(&mut self, revoke: &LeaseRevoke) -> Result<Outcome, Reason> {
        self.live_lease(revoke.lease)?;
        let keys = self.end_lease(revoke.lease.id, Ending::Revoked).unwrap_or(0);
        Ok(Outcome::LeaseRevoked(keys))
    }

    /// A live lease that can stand in queues. One that was made for an owner and a lock cannot: it
    /// ends with that lock, and its answers are kept with the owner.
    pub(crate) fn contending_lease(&mut self, lease: LeaseRef) -> Result<(), Reason> {
        match self.live_lease(lease)?.sole_lock {
            Some(_) => Err(Reason::LeaseForOneLock(lease.id)),
            None => Ok(()),
        }
    }

    /// The lease that is meant, if it is alive and still the same grant.
    pub(crate) fn live_lease(&mut self, lease: LeaseRef) -> Result<&mut Lease, Reason> {
        let (now, due_serves) = (self.state.now, self.state.mutant(Mutant::DueLeaseServes));
        let found = self.state.leases.get_mut(&lease.id);
        let found = found
            .filter(|found| found.is_live(now) || due_serves)
            .ok_or(Reason::LeaseNotFound(lease.id))?;
        if lease.epoch != Epoch::ANY && lease.epoch != found.epoch {
            return Err(Reason::LeaseEpochStale(lease.epoch, found.epoch));
        }
        Ok(found)
    }
}
