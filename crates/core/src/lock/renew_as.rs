//! Renews what was acquired by owner name.

use crate::command::RenewAs;
use crate::outcome::{Denial, Outcome};
use crate::record::contender_key;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn renew_as(&mut self, renew: &RenewAs) -> Outcome {
        self.end_dead_ahead(&renew.name);
        let Some(lease) = self.owner_lease(&renew.client, &renew.name) else {
            return match self.state.locks.contains_key(&renew.name) {
                true => Outcome::Denied(Denial::NotOwner),
                false => Outcome::NotFound,
            };
        };
        let key = contender_key(&renew.name, lease);
        if !self.state.keys.get(&key).is_some_and(|record| record.holds()) {
            return Outcome::Denied(Denial::NotOwner);
        }
        if let Err(reason) = self.refresh_lease(lease, renew.ttl) {
            return Outcome::Rejected(reason);
        }
        // Whoever renews is alive without the call that acquired.
        self.reattach(&renew.name, lease, None);
        Outcome::Renewed(self.state.grant_of(&key, self.state.keys[&key].token(), lease))
    }
}
