//! I17, release: a release ends the grant that it names, with its token and of its own lease, and
//! no other. One that is answered with success has ended it.

use fencepost_core::event::Cause;
use fencepost_core::outcome::Outcome;
use fencepost_core::{Action, LockName, Token};

use super::book::{Book, Page, Place};
use super::i09_ends_by_log::owns;
use super::{Check, broken};

/// A holder's place ends as released; the book is as it was before.
pub(super) fn ended(book: &Book, page: &Page<'_>, name: &LockName, place: &Place) -> Check {
    let (lease, token) = (place.lease, place.token);
    let meant = match page.action {
        Some(Action::Release(one)) => {
            one.name == *name && one.lease.id == lease && one.token == token
        }
        Some(Action::ReleaseMany(many)) => {
            many.names.contains(name) && many.lease.id == lease && many.token == token
        }
        Some(Action::ReleaseHeld(one)) => {
            one.name == *name && one.token == token && owns(book, place, &one.client)
        }
        Some(Action::ReleaseAs(one)) => one.name == *name && owns(book, place, &one.client),
        _ => false,
    };
    if meant {
        return Ok(());
    }
    let (token, by) = (token.0, page.action);
    Err(broken("I17", format!("{name}: token {token} was released by {by:?}")))
}

/// A first answer to a release.
pub(super) fn answered(book: &Book, action: &Action, outcome: &Outcome) -> Check {
    if *outcome != Outcome::Released {
        return Ok(());
    }
    match action {
        Action::Release(one) => is_over(book, &one.name, one.token),
        Action::ReleaseMany(many) => {
            // Those that nobody holds any more are passed over; one at least was released.
            let mut names = many.names.iter();
            let any = names.any(|name| is_over(book, name, many.token).is_ok());
            if any { Ok(()) } else { Err(broken("I17", format!("{many:?} has released nothing"))) }
        }
        _ => Ok(()),
    }
}

fn is_over(book: &Book, name: &LockName, token: Token) -> Check {
    let grant = book.grants.get(&(name.clone(), token));
    let ended = grant.and_then(|grant| grant.ended);
    if ended.is_some_and(|(cause, _)| cause == Cause::Released) {
        return Ok(());
    }
    Err(broken("I17", format!("{name}: token {} is told to be released: {grant:?}", token.0)))
}
