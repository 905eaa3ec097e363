//! Gives a lock back: compare and delete.

use crate::command::{LeaseRef, Release};
use crate::event::Cause;
use crate::ids::{Key, LockName, Token};
use crate::mutant::Mutant;
use crate::outcome::{Outcome, Reason};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn release(&mut self, release: &Release) -> Result<Outcome, Reason> {
        match self.held_key(&release.name, release.lease, release.token)? {
            None => Ok(Outcome::NotFound),
            Some(key) => {
                self.remove(&key, Cause::Released);
                Ok(Outcome::Released)
            }
        }
    }

    /// The key with which `lease` holds `name` under `token`. Nothing, if nobody has the lock.
    ///
    /// The token is compared so that a late copy of a release can never end a later holding of
    /// the same lease.
    pub(crate) fn held_key(
        &mut self,
        name: &LockName,
        lease: LeaseRef,
        token: Token,
    ) -> Result<Option<Key>, Reason> {
        self.live_lease(lease)?;
        let Some((key, record)) = self.state.key_in_queue(name, lease.id) else {
            let in_use = self.state.locks.contains_key(name);
            return if in_use { Err(Reason::NotHolder) } else { Ok(None) };
        };
        if !record.holds() {
            return Err(Reason::NotHolder);
        }
        let same = record.token() == token || self.state.mutant(Mutant::TokenPerKey);
        if !same && !self.state.mutant(Mutant::ReleaseIgnoresToken) {
            return Err(Reason::TokenMismatch(token, record.token()));
        }
        Ok(Some(key.clone()))
    }
}
