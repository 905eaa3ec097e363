//! Everything that time does to a session, in one ordered set.
//!
//! A timer may fire too early, never too late: whoever handles it looks at what is really due and
//! arms it again. So a deadline that moves forward, as those of leases do all the time, costs
//! nothing until the old one has come.

use std::collections::{BTreeMap, BTreeSet};

use super::io::{LeaseNo, OpId, WatchId};
use super::time::Moment;

/// What a moment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The connection: pings, silence, the next attempt.
    Link,
    /// Requests that wait for their answer for too long.
    Sweep,
    /// Renewals.
    Renew,
    /// The end of what is believed of a lease, or of its stay among the idle ones.
    Lease(LeaseNo),
    /// A watch that was refused is asked for again.
    Watch(WatchId),
    /// A request of the user takes too long.
    Op(OpId),
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(Moment, Timer)>,
    armed: BTreeMap<Timer, Moment>,
}

impl Timers {
    /// Lets `timer` fire at `at`, or earlier if it was armed for earlier.
    pub(super) fn arm(&mut self, timer: Timer, at: Moment) {
        if at == Moment::NEVER {
            return;
        }
        if let Some(&before) = self.armed.get(&timer) {
            if before <= at {
                return;
            }
            self.by_time.remove(&(before, timer));
        }
        self.armed.insert(timer, at);
        self.by_time.insert((at, timer));
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        if let Some(at) = self.armed.remove(&timer) {
            self.by_time.remove(&(at, timer));
        }
    }

    /// Takes a timer whose moment has come.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Timer> {
        let &(at, timer) = self.by_time.first()?;
        if at > now {
            return None;
        }
        self.by_time.pop_first();
        self.armed.remove(&timer);
        Some(timer)
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.by_time.first().map(|&(at, _)| at)
    }
}
