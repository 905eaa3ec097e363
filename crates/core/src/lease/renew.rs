//! Sets the deadlines of leases anew.

use crate::command::{LeaseRenew, Renewal};
use crate::ids::{Epoch, LeaseId, LogTime, Millis};
use crate::lease::Lease;
use crate::mutant::{Mutant, shorten};
use crate::outcome::{Outcome, Reason, RenewResult, Renewed};
use crate::step::Step;
use crate::timer::{Timer, Timers};

impl Step<'_> {
    pub(crate) fn lease_renew(&mut self, renew: &LeaseRenew) -> Outcome {
        Outcome::LeasesRenewed(renew.renewals.iter().map(|one| self.renew_one(one)).collect())
    }

    fn renew_one(&mut self, renewal: &Renewal) -> Renewed {
        let (id, epoch) = (renewal.lease.id, renewal.lease.epoch);
        let any_epoch = epoch == Epoch::ANY || self.state.mutant(Mutant::RenewIgnoresEpoch);
        let shortens = self.state.mutant(Mutant::RenewShortens);
        let (now, due_serves) = (self.state.now, self.state.mutant(Mutant::DueLeaseServes));
        let lease = self.state.leases.get_mut(&id);
        let lease = lease.filter(|lease| lease.is_live(now) || due_serves);
        let result = match lease.filter(|lease| any_epoch || lease.epoch == epoch) {
            None => RenewResult::Gone,
            Some(lease) if lease.spent => RenewResult::HeldTooLong,
            Some(lease) => {
                if shortens {
                    shorten(lease, id, &mut self.state.timers, now);
                } else {
                    extend(lease, id, &mut self.state.timers, now);
                }
                lease.renewal = renewal.number;
                RenewResult::Alive { ttl: lease.remaining(now), changes: lease.changes }
            }
        };
        Renewed { id, number: renewal.number, result }
    }

    /// Renews a lease as a part of something else, perhaps with another length; zero keeps the
    /// present one.
    pub(crate) fn refresh_lease(&mut self, id: LeaseId, ttl: Millis) -> Result<(), Reason> {
        let now = self.state.now;
        let Some(lease) = self.state.leases.get_mut(&id) else {
            return Err(Reason::LeaseNotFound(id));
        };
        if lease.spent {
            return Err(Reason::HeldTooLong);
        }
        if ttl > Millis::ZERO {
            lease.ttl = ttl;
        }
        extend(lease, id, &mut self.state.timers, now);
        Ok(())
    }
}

/// Moves a deadline forward, never back: what a client was promised stays promised.
fn extend(lease: &mut Lease, id: LeaseId, timers: &mut Timers, now: LogTime) {
    lease.renewed_at = now;
    if let Some(at) = lease.revoke_at.take() {
        timers.disarm(at, Timer::Disconnected(id));
    }
    let deadline = now.after(lease.ttl).max(lease.deadline);
    if deadline == lease.deadline {
        return;
    }
    timers.disarm(lease.deadline, Timer::Lease(id));
    lease.deadline = deadline;
    timers.arm(deadline, Timer::Lease(id));
}
