//! Renews what was acquired by owner name.

use crate::command::{RenewAs, RenewHeld, Wait};
use crate::ids::{ClientId, Key, LeaseId, LockName, Token};
use crate::outcome::{Denial, Outcome, Reason};
use crate::record::contender_key;
use crate::step::Step;

impl Step<'_> {
    /// A late copy must not renew a later holding of the same owner, so the token is compared.
    pub(crate) fn renew_held(&mut self, renew: RenewHeld) -> Outcome {
        let RenewHeld { name, client, ttl, token } = renew;
        self.renew_as(&RenewAs { name, client, ttl }, Some(token))
    }

    /// Renews a holding: only the one with this token, if one is given.
    pub(crate) fn renew_as(&mut self, renew: &RenewAs, token: Option<Token>) -> Outcome {
        let (key, lease) = match self.owned_place(&renew.client, &renew.name) {
            Ok(place) => place,
            Err(refused) => return refused,
        };
        if !self.state.keys.get(&key).is_some_and(|record| record.holds()) {
            return Outcome::Denied(Denial::NotOwner);
        }
        let held = self.state.keys[&key].token();
        if let Some(other) = token.filter(|&token| token != held) {
            return Outcome::Rejected(Reason::TokenMismatch(other, held));
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
