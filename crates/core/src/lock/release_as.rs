//! Releases what was acquired by owner name, or ends the wait for it.

use crate::command::{ReleaseAs, ReleaseHeld};
use crate::event::Cause;
use crate::ids::Token;
use crate::outcome::{Outcome, Reason};
use crate::step::Step;

impl Step<'_> {
    /// A late copy must not end a later holding of the same owner, so the token is compared.
    pub(crate) fn release_held(&mut self, release: ReleaseHeld) -> Outcome {
        let ReleaseHeld { name, client, token } = release;
        self.release_as(&ReleaseAs { name, client }, Some(token))
    }

    /// Releases a holding or a place in the queue: only the one with this token, if one is given.
    pub(crate) fn release_as(&mut self, release: &ReleaseAs, token: Option<Token>) -> Outcome {
        let (key, _) = match self.owned_place(&release.client, &release.name) {
            Ok(place) => place,
            Err(refused) => return refused,
        };
        let record = self.state.keys.get(&key);
        let held = record.is_some_and(|record| record.holds());
        let present = record.map(|record| record.token()).unwrap_or_default();
        match token.filter(|&token| token != present) {
            Some(other) if held => return Outcome::Rejected(Reason::TokenMismatch(other, present)),
            Some(_) => return Outcome::Rejected(Reason::NotHolder),
            None => {}
        }
        self.remove(&key, if held { Cause::Released } else { Cause::Cancelled });
        Outcome::Released
    }
}
