//! Gives a lock back: compare and delete.

use crate::command::{LeaseRef, Release};
use crate::event::Cause;
use crate::ids::{Key, LockName, Token};
use crate::mutant::Mutant;
use crate::outcome::{Outcome, Reason};
use crate::record::{Record, contender_key_of};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn release(&mut self, release: &Release) -> Result<Outcome, Reason> {
        self.live_lease(release.lease)?;
        let (name, lease) = (&release.name, release.lease.id);
        // Taken out before it is looked at: most releases are right, and need one lookup then.
        let taken = self.state.keys.remove_entry(&contender_key_of(name, lease));
        let Some((key, record)) = taken else {
            return self.nothing_held(name).map(|()| Outcome::NotFound);
        };
        if let Err(reason) = self.check_held(&record, release.token) {
            self.state.keys.insert(key, record);
            return Err(reason);
        }
        self.removed(key, *record, Cause::Released);
        Ok(Outcome::Released)
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
            return self.nothing_held(name).map(|()| None);
        };
        self.check_held(record, token)?;
        Ok(Some(key.clone()))
    }

    /// Refuses a release under a lease that does not stand in the queue of `name`, if others do.
    fn nothing_held(&self, name: &LockName) -> Result<(), Reason> {
        if self.state.locks.contains_key(name) { Err(Reason::NotHolder) } else { Ok(()) }
    }

    /// Refuses a release of what does not hold, or holds under another token.
    fn check_held(&self, record: &Record, token: Token) -> Result<(), Reason> {
        if !record.holds() {
            return Err(Reason::NotHolder);
        }
        let same = record.token() == token || self.state.mutant(Mutant::TokenPerKey);
        if !same && !self.state.mutant(Mutant::ReleaseIgnoresToken) {
            return Err(Reason::TokenMismatch(token, record.token()));
        }
        Ok(())
    }
}
