//! I15, the fenced store: whatever the clocks do, the tokens of accepted writes never go down;
//! each of them was granted to the client that wrote; and while a client rightly believes to hold
//! a lock alone, its writes are accepted. The fence floor that a forced release leaves behind
//! covers the forced token and nothing that came after it.

use std::collections::BTreeMap;

use fencepost_core::command::Mode;
use fencepost_core::{LockName, Token};

use super::book::Book;
use super::i14_beliefs::Beliefs;
use super::oracle::Step;
use super::{Check, Rules, broken};
use crate::client::ClientNumber;
use crate::seen::Time;

/// A write at the store.
pub(super) struct Write<'a> {
    pub(super) client: ClientNumber,
    pub(super) lock: &'a LockName,
    pub(super) token: Token,
    pub(super) accepted: bool,
}

/// What is known of the store and of its fences. Kept over a restore.
#[derive(Default)]
pub(super) struct FencedStore {
    /// The highest token that was accepted for each lock.
    highest: BTreeMap<LockName, Token>,
    /// The highest exclusive token that was forced from each lock.
    forced: BTreeMap<LockName, Token>,
}

impl FencedStore {
    pub(super) fn wrote(
        &mut self,
        rules: Rules,
        book: &Book,
        beliefs: &Beliefs,
        at: Time,
        write: &Write<'_>,
    ) -> Check {
        let Write { client, lock, token, accepted } = *write;
        let highest = self.highest.entry(lock.clone()).or_default();
        if !accepted {
            let sure = beliefs.is_sure(book, at, client, lock, token);
            if sure && rules.clocks_in_bounds {
                let what = format!("{client:?} holds {lock} with {} and was refused", token.0);
                return Err(broken("I15", what));
            }
            return Ok(());
        }
        if token < *highest {
            let (token, highest) = (token.0, highest.0);
            return Err(broken("I15", format!("{lock}: {token} was accepted after {highest}")));
        }
        *highest = token;
        let grant = book.grants.get(&(lock.clone(), token));
        let writer = format!("c{}", client.0);
        if grant.is_none_or(|grant| grant.client.as_str() != writer) {
            let what = format!("{lock}: token {} of {writer} is not its own: {grant:?}", token.0);
            return Err(broken("I15", what));
        }
        Ok(())
    }

    /// After an entry that forced this token from a lock: the lock's floor.
    pub(super) fn forced(
        &mut self,
        book: &Book,
        step: &Step<'_>,
        name: &LockName,
        token: Token,
    ) -> Check {
        let view = step.state.lock(name, 0);
        let grant = book.grants.get(&(name.clone(), token));
        let is_exclusive = grant.is_some_and(|grant| grant.mode == Mode::Exclusive);
        let highest = self.forced.entry(name.clone()).or_default();
        if is_exclusive {
            *highest = token.max(*highest);
        }
        let listed = !is_exclusive && view.fenced.contains(&token);
        if view.fence_floor <= token && !listed {
            let what = format!("{name}: token {} was forced and is not fenced off", token.0);
            return Err(broken("I15", what));
        }
        if view.fence_floor.0 > highest.0 + 1 {
            let (floor, highest) = (view.fence_floor.0, highest.0);
            let what = format!("{name}: the floor is {floor}, the highest forced is {highest}");
            return Err(broken("I15", what));
        }
        Ok(())
    }
}
