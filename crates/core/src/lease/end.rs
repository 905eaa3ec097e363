//! The end of a lease takes all its keys along, at one revision. From feature level 2 on, a lease
//! with more keys or bytes than one command may remove ends in several steps; it is over with the
//! first.

use crate::event::Cause;
use crate::ids::{Key, LeaseId};
use crate::lease::KeySet;
use crate::limits::{COMMAND_BYTES_MAX, KEY_VALUE_WEIGHT, LEASE_KEYS_MAX};
use crate::mutant::Mutant;
use crate::state::State;
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
        let part = self.state.part_of_lease(id);
        let lease = self.state.leases.get_mut(&id)?;
        let count = lease.keys.len() as u64;
        let is_whole = part.is_none();
        let keys = part.unwrap_or_else(|| core::mem::take(&mut lease.keys));
        self.state.timers.disarm(lease.deadline, Timer::Lease(id));
        if let Some(at) = lease.revoke_at.take() {
            self.state.timers.disarm(at, Timer::Disconnected(id));
        }
        let (cause, ended) = match ending {
            Ending::Expired => (Cause::Expired, &mut self.state.work.leases_expired),
            Ending::Revoked => (Cause::Revoked, &mut self.state.work.leases_revoked),
        };
        *ended += u64::from(is_whole);
        if !is_whole {
            // It is over from now on, and its other keys follow.
            lease.deadline = lease.deadline.min(self.state.now);
            self.state.timers.arm(lease.deadline, Timer::Lease(id));
        }
        self.state.work.key_visits += keys.len() as u64;
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
        if !is_whole {
            return Some(count);
        }
        let lease = self.state.leases.remove(&id)?;
        self.state.answer_bytes -= lease.window.bytes();
        if let Some(name) = lease.sole_lock {
            self.state.owners.remove(&(lease.client.clone(), name));
        }
        self.take_lease_from_client(&lease.client, id, lease.renewed_at);
        Some(count)
    }
}

impl State {
    /// The keys that go first if a lease has more than may end in one step.
    fn part_of_lease(&self, id: LeaseId) -> Option<KeySet> {
        let keys = &self.leases.get(&id)?.keys;
        if self.feature_level < 2 || keys.len() < 2 {
            return None;
        }
        let mut bytes = 0;
        let fits = |(number, key): &(usize, &Key)| {
            let before = bytes;
            let value = self.keys.get(*key).map_or(0, |record| record.value.len());
            bytes += KEY_VALUE_WEIGHT + (key.len() + value) as u64;
            *number < LEASE_KEYS_MAX as usize && before < COMMAND_BYTES_MAX
        };
        let mut part = KeySet::default();
        for (_, key) in keys.iter().enumerate().take_while(fits) {
            part.insert(key.clone());
        }
        (part.len() < keys.len()).then_some(part)
    }
}
