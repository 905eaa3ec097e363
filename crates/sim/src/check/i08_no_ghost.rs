//! I8, no ghost grant: the lease of whoever is granted a lock lives at that very index, and the
//! wait is not over.

use fencepost_core::event::Holding;
use fencepost_core::{Epoch, LockName, LogTime};

use super::book::Book;
use super::{Check, broken};

/// A contender is granted a lock; the book is as it was before.
pub(super) fn granted(book: &Book, now: LogTime, name: &LockName, holding: &Holding) -> Check {
    let (token, lease) = (holding.token.0, holding.lease.0);
    if book.live_lease(holding.lease, Epoch::ANY, now).is_none() {
        let what = format!("{name}: token {token} is granted to lease {lease:x}, which is dead");
        return Err(broken("I8", what));
    }
    let place = book.place(name, &holding.key);
    if place.is_some_and(|place| place.wait_until <= now) {
        let what = format!("{name}: token {token} is granted after its wait was over");
        return Err(broken("I8", what));
    }
    Ok(())
}
