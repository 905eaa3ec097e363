//! I11, bounds: no queue is longer than the limit, and the state agrees with itself: every holder
//! and every waiter stands on a lease, and all indexes say the same.

use fencepost_core::LockName;

use super::book::Book;
use super::oracle::Step;
use super::{Check, broken};

/// The state is audited once in so many entries.
const AUDIT_EVERY: u64 = 32;

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
    // The limit may have been changed between two commands of this entry.
    let max = step.state.limits().queue_len_max.max(step.queue_len_max_before);
    let len = book.queue(name).len();
    let newest = book.queue(name).last().filter(|place| !place.written).map(|place| place.token.0);
    let grew = newest.is_some_and(|token| token > step.revision_before.0);
    if len > max as usize && grew {
        let what = format!("{len} stand in the queue of {name}, {max} are allowed");
        return Err(broken("I11", what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fencepost_core::command::{Action, Entry, Mode, Wait};
    use fencepost_core::{Command, Effects, Limits, State};

    use super::*;
    use crate::check::book::sample::{acquire, step};

    #[test]
    fn a_queue_has_a_bound() {
        let mut state = State::new();
        let limits = Limits { queue_len_max: 2, ..Limits::default() };
        let commands = vec![Command::from(Action::SetLimits(Box::new(limits)))];
        state.apply(Entry { commands, ..Entry::default() });
        let asked = acquire(Mode::Exclusive, Wait::WhileLeased);
        let effects = Effects::default();
        let mut book = Book::default().with_place(1, 5, &asked).with_place(2, 6, &asked);
        assert!(hold(&book, &step(&state, &effects)).is_ok());
        book = book.with_place(3, 7, &asked);
        assert!(hold(&book, &step(&state, &effects)).is_err());
    }
}
