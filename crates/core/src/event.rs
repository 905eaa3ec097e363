//! What happened, in one order that all replicas share.

use alloc::boxed::Box;

use crate::ids::{ClientId, Key, LeaseId, LogTime, Revision, Token, Value};
use crate::limits::EVENT_WEIGHT;

/// A key as users see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Value,
    /// When it was created; its place in a queue, and its token if it stands in one.
    pub create_revision: Revision,
    /// When it was last written.
    pub mod_revision: Revision,
    /// How often it was written since it was created.
    pub version: u64,
    /// The lease it is attached to.
    pub lease: LeaseId,
}

/// One event. `(revision, sub)` is unique and grows.
///
/// Changes of keys come at the revision that they raised. What happens to a lock without a
/// change of a key (a grant when a lock-delay ends, a forced release that begins) comes at the
/// present revision with the next `sub`.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The revision that this belongs to.
    pub revision: Revision,
    /// Its place among the events of that revision.
    pub sub: u32,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a key or to a lock.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A key was written.
    Put {
        /// As it is now.
        kv: KeyValue,
        /// As it was before, if it was there.
        prev: Option<Box<KeyValue>>,
    },
    /// A key was removed.
    Deleted {
        /// As it was before.
        prev: KeyValue,
        /// If it stood in a lock's queue: how that ended.
        ended: Option<Ended>,
    },
    /// A contender became a holder.
    Granted(Holding),
    /// A holder lost its hold although its key is still there: another put took its lease away.
    Lost(Holding),
    /// An operator asked for a lock; the holder has until `until`, which is the present moment if the
    /// lock was taken at once.
    ForceAsked {
        /// The holder.
        holding: Holding,
        /// When the lock passes on.
        until: LogTime,
        /// Why.
        reason: ClientId,
    },
    /// A holder has had the lock for longer than its budget.
    OverBudget(Holding),
}

/// Who holds a lock, and by what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The contender's key; the lock is its parent path.
    pub key: Key,
    /// The fencing token.
    pub token: Token,
    /// The lease.
    pub lease: LeaseId,
    /// The lease's owner.
    pub client: ClientId,
}

/// How a place in a queue ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub cause: Cause,
    /// Whether it held the lock, or only waited.
    pub held: bool,
    /// Who holds the lock now: the first, if there are several.
    pub holder: Option<Box<Holding>>,
}

/// Why a key went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its holder released it.
    Released,
    /// Its lease ran out.
    Expired,
    /// Its lease was revoked.
    Revoked,
    /// An operator took it.
    Forced,
    /// The acquire was cancelled.
    Cancelled,
    /// The acquire waited as long as it was allowed to.
    TimedOut,
    /// The member that served the call is gone.
    Orphaned,
    /// Another lock of the same atomic acquisition was lost before all were granted.
    Incomplete,
    /// The key was removed as a key.
    Deleted,
}

impl Event {
    /// The key that this event is about.
    pub fn key(&self) -> &Key {
        match &self.kind {
            EventKind::Put { kv, .. } => &kv.key,
            EventKind::Deleted { prev, .. } => &prev.key,
            EventKind::Granted(holding)
            | EventKind::Lost(holding)
            | EventKind::ForceAsked { holding, .. }
            | EventKind::OverBudget(holding) => &holding.key,
        }
    }

    /// Whether this is a change of a key, which is all that an etcd client sees.
    pub fn is_key_change(&self) -> bool {
        matches!(self.kind, EventKind::Put { .. } | EventKind::Deleted { .. })
    }

    /// Roughly how much memory this takes, for the bound on the history. The same in all builds.
    pub(crate) fn weight(&self) -> usize {
        let kept = match &self.kind {
            EventKind::Put { kv, prev } => {
                kv.value.len() + prev.as_ref().map_or(0, |prev| prev.value.len())
            }
            EventKind::Deleted { prev, .. } => prev.value.len(),
            _ => 0,
        };
        EVENT_WEIGHT + self.key().len() + kept
    }
}
