//! I9, ends only by the log: a place in a queue ends only by a committed release, revocation,
//! forced release, cancellation or deletion that means it, or because log time has reached the
//! end of its lease or of its wait. A lease that lives is not told to be gone.

use fencepost_core::command::{CancelTarget, Op, Txn};
use fencepost_core::event::{Cause, Ended, KeyValue};
use fencepost_core::outcome::{Outcome, RenewResult};
use fencepost_core::{Action, LockName, LogTime, Token};

use super::book::{Book, Page, Place};
use super::{Check, broken};

/// A place in a queue ends; the book is as it was before.
pub(super) fn ended(
    book: &Book,
    page: &Page<'_>,
    name: &LockName,
    prev: &KeyValue,
    ended: Option<&Ended>,
) -> Check {
    let Some(place) = book.place(name, &prev.key) else {
        return Err(broken("I9", format!("{} ends and stood in no queue", prev.key)));
    };
    let Some(ended) = ended else {
        return Err(broken("I9", format!("{} left its queue without a word", prev.key)));
    };
    if ended.held != place.holds || Token::from(prev.create_revision) != place.token {
        let what = format!("{} ended as {ended:?}, it was {place:?}", prev.key);
        return Err(broken("I9", what));
    }
    let lease_over = book.leases.get(&place.lease).is_none_or(|one| one.deadline <= page.now);
    let right = match ended.cause {
        Cause::Expired => lease_over,
        Cause::TimedOut => !place.holds && place.wait_until <= page.now,
        // Whose release it was is a question of its own: I17.
        Cause::Released => place.holds,
        Cause::Revoked => is_revoked(page, place),
        Cause::Forced => place.holds && forced(page, name, place, lease_over),
        Cause::Cancelled => cancelled(page, name, place, book),
        Cause::Incomplete => place.grouped,
        Cause::Deleted => deleted(page, prev),
        // No request of this workload is bound to a call.
        Cause::Orphaned => false,
    };
    if right {
        return Ok(());
    }
    let (cause, now) = (ended.cause, page.now.0);
    let what = format!("{} ended as {cause:?} at {now}, by {:?}: {place:?}", prev.key, page.action);
    Err(broken("I9", what))
}

pub(super) fn owns(book: &Book, place: &Place, client: &fencepost_core::ClientId) -> bool {
    let lease = book.leases.get(&place.lease);
    lease.is_some_and(|lease| lease.sole.is_some() && lease.client == *client)
}

fn is_revoked(page: &Page<'_>, place: &Place) -> bool {
    matches!(page.action, Some(Action::LeaseRevoke(revoke)) if revoke.lease.id == place.lease)
}

fn forced(page: &Page<'_>, name: &LockName, place: &Place, lease_over: bool) -> bool {
    let due = place.forced_until.is_some_and(|until| until <= page.now);
    let asked = matches!(page.action, Some(Action::ForceRelease(force))
        if force.name == *name && force.token == place.token && (force.now || lease_over));
    due || asked
}

fn cancelled(page: &Page<'_>, name: &LockName, place: &Place, book: &Book) -> bool {
    match page.action {
        Some(Action::Cancel(cancel)) if cancel.lease.id == place.lease => match &cancel.target {
            CancelTarget::Seq(_) => true,
            CancelTarget::Contender(_, token) => *token == place.token,
            // Which call a place belongs to is not written down here.
            CancelTarget::Call(one, _) => one == name,
        },
        Some(Action::ReleaseHeld(one)) => {
            one.name == *name
                && one.token == place.token
                && !place.holds
                && owns(book, place, &one.client)
        }
        Some(Action::ReleaseAs(one)) => {
            one.name == *name && !place.holds && owns(book, place, &one.client)
        }
        _ => false,
    }
}

fn deleted(page: &Page<'_>, prev: &KeyValue) -> bool {
    match page.action {
        Some(Action::DeleteRange(delete)) => delete.range.contains(&prev.key),
        Some(Action::Txn(txn)) => txn_deletes(txn, prev),
        _ => false,
    }
}

fn txn_deletes(txn: &Txn, prev: &KeyValue) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match op {
        Op::DeleteRange(delete) => delete.range.contains(&prev.key),
        Op::Txn(inner) => txn_deletes(inner, prev),
        Op::Put(_) | Op::Range(_) => false,
    })
}

/// A renewal of a lease that lives is not told that it is gone.
pub(super) fn renewed(book: &Book, now: LogTime, action: &Action, outcome: &Outcome) -> Check {
    let (Action::LeaseRenew(asked), Outcome::LeasesRenewed(answers)) = (action, outcome) else {
        return Ok(());
    };
    for (renewal, answer) in asked.renewals.iter().zip(answers) {
        let lease = renewal.lease;
        let lives = book.live_lease(lease.id, lease.epoch, now).is_some();
        if lives && answer.result == RenewResult::Gone {
            let what = format!("lease {:x} lives and is told to be gone", lease.id.0);
            return Err(broken("I9", what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fencepost_core::command::{
        Cancel, DeleteRange, ForceRelease, LeaseRef, LeaseRenew, LeaseRevoke, Mode, Renewal, Wait,
    };
    use fencepost_core::outcome::Renewed;
    use fencepost_core::range::KeyRange;
    use fencepost_core::{Epoch, LeaseId, Millis};

    use super::*;
    use crate::check::book::sample::{acquire, key_value, page};

    /// One who holds lock `a` with token 5 on a lease of a second, and one who waits for it for
    /// half a second, on another.
    fn book() -> Book {
        let book = Book::default().with_lease(1, 1_000).with_lease(2, 1_000);
        let book = book.with_place(1, 5, &acquire(Mode::Exclusive, Wait::WhileLeased));
        let wait = Wait::AtMost(Millis(500));
        book.with_grant(1, 5).with_place(2, 6, &acquire(Mode::Exclusive, wait))
    }

    fn ends(lease: i64, cause: Cause, now: u64, action: Option<&Action>) -> bool {
        let ended = Ended { cause, held: lease == 1, holder: None };
        let kv = key_value(lease, if lease == 1 { 5 } else { 6 });
        super::ended(&book(), &page(now, action), &LockName::from("a"), &kv, Some(&ended)).is_ok()
    }

    #[test]
    fn time_ends_what_is_due() {
        assert!(!ends(1, Cause::Expired, 999, None));
        assert!(ends(1, Cause::Expired, 1_000, None));
        assert!(!ends(2, Cause::TimedOut, 499, None));
        assert!(ends(2, Cause::TimedOut, 500, None));
        assert!(!ends(1, Cause::TimedOut, 5_000, None), "a holder does not wait");
        assert!(!ends(1, Cause::Orphaned, 5_000, None));
    }

    #[test]
    fn somebody_must_have_asked() {
        let lease = |id| LeaseRef { id: LeaseId(id), epoch: Epoch(1) };
        let revoke = |id| Action::LeaseRevoke(LeaseRevoke { lease: lease(id) });
        assert!(ends(1, Cause::Revoked, 1, Some(&revoke(1))));
        assert!(!ends(1, Cause::Revoked, 1, Some(&revoke(2))));
        let cancel = |id| Action::Cancel(Cancel { lease: lease(id), ..Cancel::default() });
        assert!(ends(2, Cause::Cancelled, 1, Some(&cancel(2))));
        assert!(!ends(2, Cause::Cancelled, 1, Some(&cancel(1))));
        assert!(!ends(2, Cause::Cancelled, 1, None));
        let name = LockName::from("a");
        let force = |token, now| {
            let (name, token) = (name.clone(), Token(token));
            Action::ForceRelease(ForceRelease { name, token, now, ..ForceRelease::default() })
        };
        assert!(ends(1, Cause::Forced, 1, Some(&force(5, true))));
        assert!(!ends(1, Cause::Forced, 1, Some(&force(5, false))), "the lease still lives");
        assert!(!ends(1, Cause::Forced, 1, Some(&force(6, true))));
        let delete = |key: &str| {
            let range = KeyRange::One(fencepost_core::Key::from(key));
            Action::DeleteRange(DeleteRange { range, prev: false })
        };
        assert!(ends(1, Cause::Deleted, 1, Some(&delete("a/1"))));
        assert!(!ends(1, Cause::Deleted, 1, Some(&delete("a/2"))));
        assert!(!ends(1, Cause::Incomplete, 1, None), "it was asked for alone");
    }

    #[test]
    fn an_end_tells_what_ended() {
        let name = LockName::from("a");
        let told = |lease, revision, held| {
            let ended = Ended { cause: Cause::Expired, held, holder: None };
            let kv = key_value(lease, revision);
            super::ended(&book(), &page(1_000, None), &name, &kv, Some(&ended)).is_ok()
        };
        assert!(told(1, 5, true));
        assert!(!told(1, 5, false), "it held");
        assert!(!told(1, 4, true), "it was another");
        assert!(!told(3, 7, false), "nobody stood there");
        let kv = key_value(1, 5);
        assert!(ended(&book(), &page(1_000, None), &name, &kv, None).is_err());
    }

    #[test]
    fn a_lease_that_lives_is_not_gone() {
        let lease = LeaseRef { id: LeaseId(1), epoch: Epoch(1) };
        let renewals = vec![Renewal { lease, number: 1 }];
        let asked = Action::LeaseRenew(LeaseRenew { renewals });
        let gone = Renewed { id: LeaseId(1), number: 1, result: RenewResult::Gone };
        let told = Outcome::LeasesRenewed(vec![gone]);
        assert!(renewed(&book(), LogTime(999), &asked, &told).is_err());
        assert!(renewed(&book(), LogTime(1_000), &asked, &told).is_ok());
    }
}
