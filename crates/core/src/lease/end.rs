//! The end of a lease takes all its keys along, at one revision.

use crate::event::Cause;
use crate::ids::LeaseId;
use crate::mutant::Mutant;
use crate::step::Step;
use crate::timer::Timer;

/// Why a lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Log time reached its deadline.
    Expired,
    /// Somebody ended it.
    Revoked,
}

impl Step<'_> {
    /// Ends a lease. Answers with how many keys went with it, or nothing if it was not there.
    ///
    /// All its keys leave their queues before any lock is settled, waiting ones and holding ones
    /// alike, so a dying lease is never granted anything.
    pub(crate) fn end_lease(&mut self, id: LeaseId, ending: Ending) -> Option<u64> {
        let lease = self.state.leases.get_mut(&id)?;
        let keys = core::mem::take(&mut lease.keys);
        self.state.timers.disarm(lease.deadline, Timer::Lease(id));
        if let Some(at) = lease.revoke_at {
            self.state.timers.disarm(at, Timer::Disconnected(id));
        }
        let (cause, ended) = match ending {
            Ending::Expired => (Cause::Expired, &mut self.state.work.leases_expired),
            Ending::Revoked => (Cause::Revoked, &mut self.state.work.leases_revoked),
        };
        *ended += 1;
        let count = keys.len() as u64;
        for key in keys.iter() {
            if self.state.mutant(Mutant::ExpiryKeepsWaiters)
                && self.state.contender_record(key).is_some_and(|(_, one)| !one.holds())
            {
                continue;
            }
            // A group that is not complete ends whole, and with the lease: no key of it is left
            // to end for another cause.
            if let Some(record) = self.state.keys.get(key) {
                self.state.groups.remove(&record.created);
            }
            self.remove(key, cause);
            self.end_of_leased_key();
        }
        let lease = self.state.leases.remove(&id)?;
        if let Some(name) = lease.sole_lock {
            self.state.owners.remove(&(lease.client.clone(), name));
        }
        self.take_lease_from_client(&lease.client, id, lease.renewed_at);
        Some(count)
    }
}
