//! What log time ends by itself.
//!
//! One ordered set holds every deadline. It is derived from the rest of the state (a snapshot
//! does not carry it), so whoever changes a deadline moves its timer in the same breath.

use alloc::collections::BTreeSet;
use core::cmp::Ordering;

use crate::ids::{Boot, ClientId, Key, LeaseId, LockName, LogTime, NodeId, PublicKey};

/// Something that happens when its moment comes. The order of the variants is the order in which
/// things that are due at the same moment happen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A lease runs out.
    Lease(LeaseId),
    /// A lease whose client is disconnected is revoked.
    Disconnected(LeaseId),
    /// A wait has lasted as long as it may.
    Wait(Key),
    /// A forced release takes effect.
    Forced(Key),
    /// A hold goes over its budget.
    Budget(Key),
    /// A hold has lasted as long as it may.
    HoldMax(Key),
    /// A lock-delay is over.
    Delay(LockName),
    /// A fence floor is forgotten.
    Floor(LockName),
    /// The calls of a lost member were not taken up.
    Orphans(NodeId, Boot),
    /// A client without leases is forgotten.
    Client(ClientId),
    /// The waiting time after a restore is over.
    Recovered,
    /// A signing key has got around, and signs from now on.
    KeyDue(PublicKey),
    /// A queue has waiters left that can be granted: an entry grants a bounded number. Always due,
    /// because its moment is zero.
    Grants(LockName),
}

/// A timer and its moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: LogTime,
    pub(crate) timer: Timer,
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Deadline) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Deadline {
    /// By moment, then by timer. Almost all timers are those of leases, and every renewal compares
    /// them some twenty times, so that they are compared here.
    #[inline]
    fn cmp(&self, other: &Deadline) -> Ordering {
        self.at.cmp(&other.at).then_with(|| match (&self.timer, &other.timer) {
            (Timer::Lease(one), Timer::Lease(two)) => one.cmp(two),
            (one, two) => one.cmp(two),
        })
    }
}

/// Every deadline, earliest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers(BTreeSet<Deadline>);

impl Timers {
    pub(crate) fn arm(&mut self, at: LogTime, timer: Timer) {
        if at != LogTime::NEVER {
            self.0.insert(Deadline { at, timer });
        }
    }

    pub(crate) fn disarm(&mut self, at: LogTime, timer: Timer) {
        if at != LogTime::NEVER {
            self.0.remove(&Deadline { at, timer });
        }
    }

    pub(crate) fn next(&self) -> Option<LogTime> {
        self.0.first().map(|first| first.at)
    }

    pub(crate) fn pop_due(&mut self, now: LogTime) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|first| first.timer)
    }

    pub(crate) fn all(&self) -> &BTreeSet<Deadline> {
        &self.0
    }
}
