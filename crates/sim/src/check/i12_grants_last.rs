//! I12, no lost grant: from the entry that grants a lock to the entry that ends it, the state
//! shows its holder, with its token; and in the queue stand those who came and did not leave, in
//! the order in which they came. An acquire that is answered with a grant, and not for the second
//! time, names a holder.

use fencepost_core::LockName;
use fencepost_core::outcome::Outcome;
use fencepost_core::{Key, Token};

use super::book::{Book, split_key};
use super::oracle::Step;
use super::{Check, broken};

/// After an entry, for a lock that it touched.
pub(super) fn shown(book: &Book, step: &Step<'_>, name: &LockName) -> Check {
    let view = step.state.lock(name, usize::MAX);
    let queue = book.queue(name);
    let holders = queue.iter().filter(|place| place.holds);
    let same_holders = holders
        .map(|place| (place.token, place.mode))
        .eq(view.holders.iter().map(|holder| (holder.token, holder.mode)));
    let waiters = queue.iter().filter(|place| !place.holds && !place.foreign);
    let same_waiters =
        waiters.map(|place| &place.key).eq(view.waiters.iter().map(|waiter| &waiter.key));
    let foreign = queue.iter().filter(|place| place.foreign);
    let same_foreign = foreign.map(|place| &place.key).eq(view.foreign.iter());
    if same_holders && same_waiters && same_foreign {
        return Ok(());
    }
    Err(broken("I12", format!("{name} is {view:?}, what happened there makes {queue:?}")))
}

/// A first answer to an acquire.
pub(super) fn answered(book: &Book, outcome: &Outcome) -> Check {
    match outcome {
        Outcome::Acquired(grant) => holds(book, &grant.key, grant.token),
        Outcome::AcquiredMany(grant) => {
            grant.keys.iter().try_for_each(|key| holds(book, key, grant.token))
        }
        Outcome::Queued(place) | Outcome::Reserved(place) => {
            let waits = split_key(&place.key)
                .and_then(|(name, _)| book.place(&name, &place.key))
                .is_some_and(|place| !place.holds);
            if waits {
                return Ok(());
            }
            Err(broken("I12", format!("{} is told to wait and does not stand there", place.key)))
        }
        _ => Ok(()),
    }
}

/// Whether a key holds its lock with this token.
pub(super) fn holds(book: &Book, key: &Key, token: Token) -> Check {
    let place = split_key(key).and_then(|(name, _)| book.place(&name, key));
    if place.is_some_and(|place| place.holds && place.token == token) {
        return Ok(());
    }
    Err(broken("I12", format!("{key} is told to hold with {}, it is {place:?}", token.0)))
}

#[cfg(test)]
mod tests {
    use fencepost_core::command::{Action, Entry, LeaseGrant, LeaseRef, Mode, Wait};
    use fencepost_core::outcome::Grant;
    use fencepost_core::{Command, Effects, LeaseId, Millis, State};

    use super::*;
    use crate::check::book::sample::{acquire, step};

    /// A state in which lease 1 holds lock `a`, with token 2.
    fn held() -> State {
        let mut state = State::new();
        let (id, ttl) = (LeaseId(1), Millis(1_000));
        let grant = Action::LeaseGrant(LeaseGrant { id, ttl, ..LeaseGrant::default() });
        let Action::Acquire(mut asked) = asked() else { panic!("it is an acquire") };
        asked.lease = LeaseRef::from(id);
        let commands = vec![Command::from(grant), Command::from(Action::Acquire(asked))];
        state.apply(Entry { commands, ..Entry::default() });
        state
    }

    fn asked() -> Action {
        acquire(Mode::Exclusive, Wait::WhileLeased)
    }

    #[test]
    fn the_state_shows_who_holds() {
        let (state, effects, name) = (held(), Effects::default(), LockName::from("a"));
        let step = step(&state, &effects);
        let book = Book::default().with_lease(1, 1_000).with_place(1, 2, &asked());
        assert!(shown(&book, &step, &name).is_err(), "by the book it waits");
        let book = book.with_grant(1, 2);
        assert!(shown(&book, &step, &name).is_ok());
        let book = book.with_place(2, 3, &asked());
        assert!(shown(&book, &step, &name).is_err(), "by the book somebody waits");
        assert!(shown(&Book::default(), &step, &name).is_err(), "by the book it is free");
    }

    #[test]
    fn an_answer_names_a_holder() {
        let book = Book::default().with_lease(1, 1_000).with_place(1, 2, &asked());
        let (key, lease) = (Key::from("a/1"), LeaseId(1));
        let grant = |token| {
            let (key, remaining) = (key.clone(), Millis(1));
            Outcome::Acquired(Grant { key, token: Token(token), lease, remaining })
        };
        assert!(answered(&book, &grant(2)).is_err(), "it waits");
        let book = book.with_grant(1, 2);
        assert!(answered(&book, &grant(2)).is_ok());
        assert!(answered(&book, &grant(3)).is_err(), "another token");
    }
}
