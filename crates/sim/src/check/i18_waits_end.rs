//! I18, waits end: an acquire that may not wait leaves nothing behind, and one that may wait so
//! long has ended when log time comes to it. While the cluster is well, that is soon after the
//! same length of true time.

use fencepost_core::LogTime;
use fencepost_core::command::Wait;
use fencepost_core::outcome::Outcome;
use fencepost_core::{Action, LockName};

use super::book::Book;
use super::oracle::Step;
use super::{Check, broken, with_slack};
use crate::seen::Time;

/// What an acquire that may not wait is told.
pub(super) fn answered(action: &Action, outcome: &Outcome) -> Check {
    let wait = match action {
        Action::Acquire(acquire) => acquire.wait,
        Action::AcquireMany(acquire) => acquire.wait,
        Action::AcquireAs(acquire) => acquire.wait,
        _ => Wait::WhileLeased,
    };
    let waits = matches!(outcome, Outcome::Queued(_) | Outcome::Reserved(_));
    if wait.is_try() && waits {
        return Err(broken("I18", format!("a try is told to wait: {outcome:?}")));
    }
    Ok(())
}

/// After an entry: nobody waits whose time is over. Unless more was due than one entry may end;
/// then the next entry follows at once.
pub(super) fn over(book: &Book, step: &Step<'_>, name: &LockName) -> Check {
    if has_backlog(step) {
        return Ok(());
    }
    let late = book.queue(name).iter().find(|place| place.wait_until <= step.now);
    match late {
        None => Ok(()),
        Some(place) => {
            let (until, now) = (place.wait_until.0, step.now.0);
            Err(broken("I18", format!("{} waits until {until} and it is {now}", place.key)))
        }
    }
}

/// Whether something is due that this entry did not end.
pub(super) fn has_backlog(step: &Step<'_>) -> bool {
    step.state.next_deadline().is_some_and(|next: LogTime| next <= step.now)
}

/// While the cluster is well, since `well`: nobody has waited for much longer than allowed.
pub(super) fn in_time(book: &Book, well: Time, at: Time) -> Check {
    for place in book.queues.values().flatten() {
        let Some(wait) = place.wait else { continue };
        let since = place.asked_at.max(well);
        if !place.holds && at > with_slack(since, wait) {
            let (wait, since) = (wait.0, since.0);
            let what = format!("{} may wait {wait} ms, and waits since {since} us", place.key);
            return Err(broken("I18", what));
        }
    }
    Ok(())
}
