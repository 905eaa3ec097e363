//! Stands in several queues at one revision, and takes all the locks or none.
//!
//! Nothing is held while waiting, and every such acquisition joins all its queues at once, so
//! two of them can never wait for each other.

use crate::command::AcquireMany;
use crate::event::Cause;
use crate::ids::{Key, LockName, Seq};
use crate::lock::Then;
use crate::mutant::Mutant;
use crate::outcome::{GrantMany, Outcome, Reason};
use crate::record::{Contender, contender_key};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn acquire_many(
        &mut self,
        acquire: AcquireMany,
        seq: Seq,
    ) -> Result<Outcome, Reason> {
        let lease = acquire.lease.id;
        self.contending_lease(acquire.lease)?;
        for (name, _) in &acquire.locks {
            match self.state.key_in_queue(name, lease) {
                None => {}
                Some((_, record)) if record.contender().is_none() => {
                    return Err(Reason::PlaceTaken(name.clone()));
                }
                Some(_) => return Err(Reason::AlreadyQueued(name.clone())),
            }
        }
        for (name, mode) in &acquire.locks {
            self.state.check_lease_room(lease, &contender_key(name, lease))?;
            self.end_dead_ahead(name);
            self.check_room(name, *mode)?;
        }
        let keys = acquire.locks.iter().map(|(name, _)| contender_key(name, lease).len());
        let (value, metadata) = (&acquire.terms.value, &acquire.terms.metadata);
        self.state.check_contenders_growth(keys, value, metadata)?;
        if acquire.wait.is_try() && !self.state.mutant(Mutant::TryStays) {
            let client = self.state.client_of(lease);
            for (name, mode) in &acquire.locks {
                if let Some(denial) = self.state.denial(name, *mode, &client) {
                    return Ok(Outcome::Denied(denial));
                }
            }
        }
        let mut keys = alloc::vec::Vec::with_capacity(acquire.locks.len());
        for (name, mode) in &acquire.locks {
            let terms = acquire.terms.clone();
            let value = terms.value.clone();
            let contender = self.contender(*mode, acquire.wait, terms, seq, true);
            let key = contender_key(name, lease);
            let name = LockName::prefix_of(&key, name.len());
            self.stand(name, key.clone(), value, lease, contender, Then::GoOn);
            keys.push(key);
        }
        self.settle();
        let first = &self.state.keys[&keys[0]];
        if !first.holds() {
            let place = self.state.place_of(&acquire.locks[0].0, &keys[0], first.spot());
            return Ok(Outcome::Reserved(place.into()));
        }
        let grant = self.state.present_grant(&keys[0], first);
        let (token, remaining) = (grant.token, grant.remaining);
        Ok(Outcome::AcquiredMany(GrantMany { keys, token, lease, remaining }.into()))
    }

    /// Removes a contender for `cause`, and with it all that were acquired together with it and
    /// are not granted yet.
    pub(crate) fn remove_with_group(&mut self, key: &Key, cause: Cause) {
        let Some((record, contender)) = self.state.contender_record(key) else {
            return;
        };
        let created = record.created;
        if !Contender::is_grouped(contender) {
            self.remove(key, cause);
            return;
        }
        for sibling in self.state.groups.remove(&created).unwrap_or_default() {
            self.remove(&sibling, cause);
        }
    }
}
