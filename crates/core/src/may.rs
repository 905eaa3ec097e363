//! Who may do what. Everybody may do everything today; the question is asked all the same.
//!
//! Rules will live in the log and be evaluated here, at apply, with the rules of that very
//! index: a check at the door could disagree between two replicas.

use crate::command::{Action, Cancel, CancelTarget, Op, Txn};
use crate::ids::{Actor, LockName};
use crate::outcome::Reason;

/// What an action does to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Changes leases, keys or locks in the ordinary way.
    Use,
    /// Acts on what belongs to others.
    Operate,
}

/// Whether `actor` may do `verb` to `name`.
fn may(_actor: &Actor, _verb: Verb, _name: &[u8]) -> bool {
    true
}

/// Refuses an action that its actor may not do. A range is asked about by its first key until
/// rules know ranges.
pub(crate) fn check(actor: &Actor, action: &Action) -> Result<(), Reason> {
    let (verb, name): (Verb, &[u8]) = match action {
        Action::ForceRelease(force) => (Verb::Operate, &force.name),
        Action::Compact(_)
        | Action::SetLimits(_)
        | Action::ChangeLimits(_)
        | Action::RaiseFeatureLevel(_)
        | Action::CallsAnswered(_)
        | Action::PublishKey(_)
        | Action::RotateKey(_)
        | Action::RetireKeys(_)
        | Action::RevokeKey(_)
        | Action::NodeLost(_) => (Verb::Operate, b""),
        Action::Acquire(acquire) => (Verb::Use, &acquire.name),
        Action::Release(release) => (Verb::Use, &release.name),
        Action::AcquireAs(acquire) => (Verb::Use, &acquire.name),
        Action::RenewAs(renew) => (Verb::Use, &renew.name),
        Action::RenewHeld(renew) => (Verb::Use, &renew.name),
        Action::ReleaseAs(release) => (Verb::Use, &release.name),
        Action::ReleaseHeld(release) => (Verb::Use, &release.name),
        Action::DeleteLock(delete) => (Verb::Use, &delete.name),
        Action::Put(put) | Action::PutPlain(put) => (Verb::Use, &put.key),
        Action::DeleteRange(delete) => (Verb::Use, delete.range.start()),
        Action::AcquireMany(acquire) => {
            return check_all(actor, acquire.locks.iter().map(|(name, _)| name));
        }
        Action::ReleaseMany(release) => return check_all(actor, release.names.iter()),
        Action::Txn(txn) => return check_txn(actor, txn),
        Action::Cancel(Cancel {
            target: CancelTarget::Contender(name, _) | CancelTarget::Call(name, _),
            ..
        }) => (Verb::Use, name),
        Action::Cancel(_)
        | Action::LeaseGrant(_)
        | Action::LeaseRenew(_)
        | Action::LeaseRevoke(_)
        | Action::Disconnect(_)
        | Action::Skipped(_) => (Verb::Use, b""),
    };
    if may(actor, verb, name) { Ok(()) } else { Err(Reason::Forbidden) }
}

fn check_all<'a>(
    actor: &Actor,
    mut names: impl Iterator<Item = &'a LockName>,
) -> Result<(), Reason> {
    let allowed = names.all(|name| may(actor, Verb::Use, name));
    if allowed { Ok(()) } else { Err(Reason::Forbidden) }
}

/// Both branches are asked about: which one is taken must not tell what may not be known.
fn check_txn(actor: &Actor, txn: &Txn) -> Result<(), Reason> {
    for op in txn.success.iter().chain(&txn.failure) {
        let name: &[u8] = match op {
            Op::Put(put) => &put.key,
            Op::DeleteRange(delete) => delete.range.start(),
            Op::Range(query) => query.range.start(),
            Op::Txn(inner) => {
                check_txn(actor, inner)?;
                continue;
            }
        };
        if !may(actor, Verb::Use, name) {
            return Err(Reason::Forbidden);
        }
    }
    Ok(())
}
