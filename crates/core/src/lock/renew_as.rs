//! Renews what was acquired by owner name.

use crate::command::{RenewAs, Wait};
use crate::ids::{ClientId, Key, LeaseId, LockName};
use crate::outcome::{Denial, Outcome};
use crate::record::contender_key;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn renew_as(&mut self, renew: &RenewAs) -> Outcome {
        let (key, lease) = match self.owned_place(&renew.client, &renew.name) {
            Ok(place) => place,
            Err(refused) => return refused,
        };
        if !self.state.keys.get(&key).is_some_and(|record| record.holds()) {
            return Outcome::Denied(Denial::NotOwner);
        }
        if let Err(reason) = self.refresh_lease(lease, renew.ttl) {
            return Outcome::Rejected(reason);
        }
        // Whoever renews is alive without the call that acquired.
        self.reattach(&renew.name, lease, None, Wait::Try);
        Outcome::Renewed(self.state.present_grant(&key, &self.state.keys[&key]))
    }

    /// The place of an owner in a lock's queue, or what to tell who has none.
    pub(crate) fn owned_place(
        &mut self,
        client: &ClientId,
        name: &LockName,
    ) -> Result<(Key, LeaseId), Outcome> {
        self.end_dead_ahead(name);
        match self.owner_lease(client, name) {
            Some(lease) => Ok((contender_key(name, lease), lease)),
            None if self.state.locks.contains_key(name) => Err(Outcome::Denied(Denial::NotOwner)),
            None => Err(Outcome::NotFound),
        }
    }
}
