//! Who may do what. Everybody may do everything today; the question is asked all the same.
//!
//! Rules will live in the log and be evaluated here, at apply, with the rules of that very
//! index: a check at the door could disagree between two replicas.

use crate::command::Action;
use crate::ids::Actor;
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

/// Refuses an action that its actor may not do.
pub(crate) fn check(actor: &Actor, action: &Action) -> Result<(), Reason> {
    let (verb, name): (Verb, &[u8]) = match action {
        Action::ForceRelease(force) => (Verb::Operate, &force.name),
        Action::Compact(_)
        | Action::SetLimits(_)
        | Action::RaiseFeatureLevel(_)
        | Action::NodeLost(_) => (Verb::Operate, b""),
        Action::Acquire(acquire) => (Verb::Use, &acquire.name),
        Action::Release(release) => (Verb::Use, &release.name),
        Action::AcquireAs(acquire) => (Verb::Use, &acquire.name),
        Action::RenewAs(renew) => (Verb::Use, &renew.name),
        Action::ReleaseAs(release) => (Verb::Use, &release.name),
        Action::DeleteLock(delete) => (Verb::Use, &delete.name),
        Action::Put(put) => (Verb::Use, &put.key),
        Action::DeleteRange(delete) => (Verb::Use, delete.range.start()),
        Action::AcquireMany(acquire) => {
            let all = acquire.locks.iter().all(|(name, _)| may(actor, Verb::Use, name));
            return if all { Ok(()) } else { Err(Reason::Forbidden) };
        }
        _ => (Verb::Use, b""),
    };
    if may(actor, verb, name) { Ok(()) } else { Err(Reason::Forbidden) }
}
