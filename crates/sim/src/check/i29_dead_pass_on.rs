//! I29, the dead pass on: whoever could hold a lock holds it, and a lease that nobody renews ends.
//! So what a dead client held goes to the first waiter as soon as its lease is over (and its
//! lock-delay): in log time at once, and while the cluster is well, two election timeouts after
//! its TTL in true time.

use fencepost_core::command::Mode;
use fencepost_core::{Epoch, LockName, LogTime};

use super::book::{Book, Place};
use super::i18_waits_end::has_backlog;
use super::oracle::{Oracle, Step};
use super::{Check, broken, with_slack};
use crate::seen::Time;

/// While leases live, the leader stamps the log every second; a slow clock and a change of leaders
/// make that longer.
const STAMPED_WITHIN: u64 = 3_200_000;

/// When the last entry was first applied.
#[derive(Default)]
pub(super) struct Stamps {
    last: Time,
}

impl Stamps {
    pub(super) fn applied(&mut self, at: Time) {
        self.last = at;
    }

    /// While the cluster is well, since `well`: log time goes on, or no lease would ever end.
    pub(super) fn now(&self, oracle: &Oracle, well: Option<Time>, at: Time) -> Check {
        let Some(well) = well else { return Ok(()) };
        let since = self.last.max(well);
        if oracle.state.has_leases() && at.0 > since.0 + STAMPED_WITHIN {
            let what = format!("leases live and log time stands still since {} us", since.0);
            return Err(broken("I29", what));
        }
        Ok(())
    }
}

/// After an entry: the first that waits for a lock has a reason to.
pub(super) fn nobody_waits_idly(book: &Book, step: &Step<'_>, name: &LockName) -> Check {
    if has_backlog(step) {
        return Ok(());
    }
    let queue = book.queue(name);
    let Some(first) = queue.iter().find(|place| !place.holds) else { return Ok(()) };
    // A foreign key blocks; several locks wait for each other.
    if first.foreign || first.grouped || !could_hold(book, name, first, step.now) {
        return Ok(());
    }
    Err(broken("I29", format!("{} could hold its lock, and waits: {first:?}", first.key)))
}

fn could_hold(book: &Book, name: &LockName, first: &Place, now: LogTime) -> bool {
    let alive = book.live_lease(first.lease, Epoch::ANY, now).is_some();
    let delayed = book.delays.get(name).is_some_and(|&until| until > now);
    let mut holders = book.queue(name).iter().filter(|place| place.holds);
    let count = holders.clone().count();
    let fits = match first.mode {
        Mode::Exclusive => count == 0,
        Mode::Shared => holders.all(|place| place.mode == Mode::Shared),
        Mode::Permit(limit) => {
            holders.all(|place| place.mode == first.mode) && count < limit as usize
        }
    };
    alive && !delayed && fits
}

/// While the cluster is well, since `well`: no lease outlives its length by much.
pub(super) fn in_time(book: &Book, now: LogTime, well: Time, at: Time) -> Check {
    for (id, lease) in &book.leases {
        let runs = lease.is_alive(now) && lease.deadline != LogTime::NEVER;
        if runs && at > with_slack(lease.renewed_at.max(well), lease.promised) {
            let (id, promised, since) = (id.0, lease.promised.0, lease.renewed_at.0);
            let what = format!("lease {id:x} of {promised} ms lives, renewed at {since} us");
            return Err(broken("I29", what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fencepost_core::command::{Action, Wait};
    use fencepost_core::{Effects, LeaseId, Millis, State};

    use super::*;
    use crate::check::book::sample::{acquire, page, step};

    fn asked(mode: Mode) -> Action {
        acquire(mode, Wait::WhileLeased)
    }

    #[test]
    fn nobody_waits_for_nothing() {
        let (state, effects, name) = (State::new(), Effects::default(), LockName::from("a"));
        let step = step(&state, &effects);
        let idle = |book: &Book| nobody_waits_idly(book, &step, &name).is_err();
        let book = || Book::default().with_lease(1, 1_000).with_lease(2, 1_000);
        assert!(idle(&book().with_place(1, 2, &asked(Mode::Exclusive))));
        let held = |mode| book().with_place(1, 2, &asked(mode)).with_grant(1, 2);
        assert!(!idle(&held(Mode::Exclusive).with_place(2, 3, &asked(Mode::Exclusive))));
        assert!(!idle(&held(Mode::Shared).with_place(2, 3, &asked(Mode::Exclusive))));
        assert!(idle(&held(Mode::Shared).with_place(2, 3, &asked(Mode::Shared))));
        assert!(idle(&held(Mode::Permit(2)).with_place(2, 3, &asked(Mode::Permit(2)))));
        assert!(!idle(&held(Mode::Permit(1)).with_place(2, 3, &asked(Mode::Permit(1)))));
        let dead = Book::default().with_place(1, 2, &asked(Mode::Exclusive));
        assert!(!idle(&dead), "its lease is gone");
    }

    #[test]
    fn a_shorter_renewal_keeps_the_longer_promise() {
        let mut book = Book::default().with_lease(1, 50_000);
        book.extend_lease(&page(10_000, None), LeaseId(1), Some(Millis(1_000)), None);
        let is_right = |at| in_time(&book, LogTime(20_000), Time(0), Time(at)).is_ok();
        // Forty seconds are left of it, and the slack.
        assert!(is_right(57_000_000));
        assert!(!is_right(58_000_000));
    }
}
