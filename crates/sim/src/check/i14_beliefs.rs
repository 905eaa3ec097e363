//! I14, beliefs: at no moment of true time do two clients believe to hold a lock that cannot be
//! shared between them, as long as the rates of all clocks are within the promised bound.
//!
//! Nor does a client believe in a grant of a lost cluster once the restored one has answered it.
//!
//! The documented exceptions: a lock that an operator took at once, and one whose key was removed
//! as a key. Their holders may believe in it for a while longer, and only the token protects.
//! Permits are not looked at: how many there are is a matter of I5.

use std::collections::BTreeMap;

use fencepost_core::{LockName, Revision, Token};

use super::book::Book;
use super::{Check, Rules, broken};
use crate::client::{Belief, ClientNumber};
use crate::seen::Time;

/// A belief.
#[derive(Clone, Copy, Debug)]
struct Held {
    client: ClientNumber,
    token: Token,
    until: Time,
    exclusive: bool,
}

/// What all clients believe.
#[derive(Default)]
pub(super) struct Beliefs {
    held: BTreeMap<LockName, Vec<Held>>,
    /// Where the cluster stood when it was last restored. Grants before that are of a lost one.
    restored_at: Revision,
}

impl Beliefs {
    pub(super) fn believes(
        &mut self,
        rules: Rules,
        book: &Book,
        at: Time,
        client: ClientNumber,
        belief: &Belief,
        until: Time,
    ) -> Check {
        let (Belief::Holds { lock, token, .. } | Belief::HoldsNot { lock, token }) = belief;
        let all = self.held.entry(lock.clone()).or_default();
        all.retain(|held| held.until > at && (held.client != client || held.token != *token));
        let Belief::Holds { exclusive, .. } = *belief else { return Ok(()) };
        let Some(grant) = book.grants.get(&(lock.clone(), *token)) else {
            let what = format!("{client:?} believes in token {} of {lock}, never granted", token.0);
            return Err(broken("I14", what));
        };
        if grant.client.as_str() != format!("c{}", client.0) {
            let what = format!("{client:?} believes in a grant of {} on {lock}", grant.client);
            return Err(broken("I14", what));
        }
        if until <= at {
            return Ok(());
        }
        let new = Held { client, token: *token, until, exclusive };
        if rules.clocks_in_bounds && !excused(book, lock, new) {
            let clash = |other: &&Held| {
                (exclusive || other.exclusive)
                    && other.token != new.token
                    && !excused(book, lock, **other)
            };
            if let Some(other) = all.iter().find(clash) {
                let what = format!("{lock}: at {} us {new:?} and {other:?} believe in it", at.0);
                return Err(broken("I14", what));
            }
        }
        all.push(new);
        Ok(())
    }

    /// The cluster goes on from a backup, at this revision.
    pub(super) fn restore(&mut self, revision: Revision) {
        self.restored_at = revision;
    }

    /// A client knows that the cluster was restored.
    pub(super) fn entered(&self, at: Time, client: ClientNumber) -> Check {
        let is_old = |held: &&Held| {
            held.client == client && held.until > at && held.token.0 < self.restored_at.0
        };
        for (lock, all) in &self.held {
            if let Some(held) = all.iter().find(is_old) {
                let what = format!("{lock}: {held:?} is of a lost cluster, and its holder knows");
                return Err(broken("I14", what));
            }
        }
        Ok(())
    }

    /// Whether a client believes to hold a lock alone, and nothing excuses that it may not.
    pub(super) fn is_sure(
        &self,
        book: &Book,
        at: Time,
        client: ClientNumber,
        lock: &LockName,
        token: Token,
    ) -> bool {
        let all = self.held.get(lock).map_or(&[][..], Vec::as_slice);
        all.iter().any(|held| {
            held.client == client
                && held.token == token
                && held.exclusive
                && held.until > at
                && !excused(book, lock, *held)
        })
    }
}

fn excused(book: &Book, lock: &LockName, held: Held) -> bool {
    book.grants.get(&(lock.clone(), held.token)).is_some_and(|grant| grant.excused)
}
