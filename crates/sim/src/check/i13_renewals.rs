//! I13, no renewal after the end: a lease is renewed, and a request of a lease is served, only
//! while the lease lives and is the very grant that is meant. What is told to be held still is
//! held, with no later grant before it.

use fencepost_core::command::LeaseRef;
use fencepost_core::outcome::{Outcome, RenewResult};
use fencepost_core::{Action, LogTime};

use super::book::Book;
use super::{Check, broken, i12_grants_last};

/// An answer, with the book as it was before it.
pub(super) fn answered(
    book: &Book,
    now: LogTime,
    action: &Action,
    outcome: &Outcome,
    is_repeat: bool,
) -> Check {
    match (action, outcome) {
        (Action::LeaseRenew(asked), Outcome::LeasesRenewed(answers)) => {
            for (renewal, answer) in asked.renewals.iter().zip(answers) {
                let gone = answer.result == RenewResult::Gone;
                if renewal.number != answer.number || renewal.lease.id != answer.id {
                    return Err(broken("I13", format!("{renewal:?} is answered with {answer:?}")));
                }
                if !gone {
                    alive(book, now, renewal.lease, outcome)?;
                }
            }
            Ok(())
        }
        (_, Outcome::Rejected(_)) => Ok(()),
        (Action::RenewAs(_) | Action::RenewHeld(_), Outcome::Renewed(grant)) => {
            i12_grants_last::holds(book, &grant.key, grant.token)
                .map_err(|wrong| broken("I13", wrong.what))
        }
        (Action::LeaseRevoke(_), _) if is_repeat => Ok(()),
        _ => {
            let Some(lease) = lease_of(action) else { return Ok(()) };
            alive(book, now, lease, outcome)?;
            match outcome {
                Outcome::Renewed(grant) if !is_repeat => {
                    i12_grants_last::holds(book, &grant.key, grant.token)
                        .map_err(|wrong| broken("I13", wrong.what))
                }
                _ => Ok(()),
            }
        }
    }
}

/// The lease that a request is made under.
pub(super) fn lease_of(action: &Action) -> Option<LeaseRef> {
    Some(match action {
        Action::Acquire(acquire) => acquire.lease,
        Action::AcquireMany(acquire) => acquire.lease,
        Action::Cancel(cancel) => cancel.lease,
        Action::Release(release) => release.lease,
        Action::ReleaseMany(release) => release.lease,
        Action::LeaseRevoke(revoke) => revoke.lease,
        _ => return None,
    })
}

fn alive(book: &Book, now: LogTime, lease: LeaseRef, outcome: &Outcome) -> Check {
    if book.live_lease(lease.id, lease.epoch, now).is_some() {
        return Ok(());
    }
    let (id, epoch) = (lease.id.0, lease.epoch.0);
    let what = format!("lease {id:x} of epoch {epoch} is over at {}, yet: {outcome:?}", now.0);
    Err(broken("I13", what))
}
