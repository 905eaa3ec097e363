//! I5, mutual exclusion: at no index do two hold a lock together that cannot share it. An
//! exclusive holder is alone, shared holders are among themselves, and of `n` permits at most `n`
//! are held. What was asked for together is granted together.

use fencepost_core::LockName;
use fencepost_core::command::Mode;
use fencepost_core::event::Holding;

use super::book::{Book, Place};
use super::{Check, broken};

/// A contender is granted a lock; the book is as it was before.
pub(super) fn granted(book: &Book, name: &LockName, holding: &Holding) -> Check {
    let Some(new) = book.place(name, &holding.key) else { return Ok(()) };
    let mut holders = book.queue(name).iter().filter(|place| place.holds);
    let count = holders.clone().count();
    let fits = match new.mode {
        Mode::Exclusive => count == 0,
        Mode::Shared => holders.all(|place| place.mode == Mode::Shared),
        Mode::Permit(limit) => {
            holders.all(|place| place.mode == new.mode) && count < limit as usize
        }
    };
    if fits {
        return Ok(());
    }
    let others = book.queue(name).iter().filter(|place| place.holds);
    let others: Vec<_> = others.map(|place| (place.token.0, place.mode)).collect();
    let (token, mode) = (holding.token.0, new.mode);
    Err(broken("I5", format!("{name}: token {token} is granted {mode:?} beside {others:?}")))
}

/// After an entry: of several locks that were asked for together, all are held or none is.
pub(super) fn together(book: &Book, name: &LockName) -> Check {
    for place in book.queue(name).iter().filter(|place| place.grouped) {
        let sibling = |other: &&Place| other.lease == place.lease && other.token == place.token;
        let torn = book.queues.values().flatten().filter(sibling).find(|other| other.holds);
        if let Some(other) = torn {
            let what = format!("{} is held while {} still waits for it", other.key, place.key);
            return Err(broken("I5", what));
        }
    }
    Ok(())
}
