//! I11, bounds: no queue is longer than the limit, and the state agrees with itself: every holder
//! and every waiter stands on a lease, and all indexes say the same.

use fencepost_core::LockName;

use super::book::Book;
use super::oracle::Step;
use super::{Check, broken};

/// The state is audited once in so many entries.
const AUDIT_EVERY: u64 = 64;

/// After an entry.
pub(super) fn hold(book: &Book, step: &Step<'_>) -> Check {
    for name in &book.touched {
        short_enough(book, step, name)?;
    }
    if step.index.is_multiple_of(AUDIT_EVERY)
        && let Err(what) = step.state.audit()
    {
        return Err(broken("I11", what));
    }
    Ok(())
}

/// A queue may have been longer when the limit was lowered, but it does not grow then. Keys that
/// are written as keys are not counted: an etcd client knows no such limit.
fn short_enough(book: &Book, step: &Step<'_>, name: &LockName) -> Check {
    let (len, max) = (book.queue(name).len(), step.state.limits().queue_len_max);
    let newest = book.queue(name).last().filter(|place| !place.written).map(|place| place.token.0);
    let grew = newest.is_some_and(|token| token > step.revision_before.0);
    if len > max as usize && grew {
        let what = format!("{len} stand in the queue of {name}, {max} are allowed");
        return Err(broken("I11", what));
    }
    Ok(())
}
