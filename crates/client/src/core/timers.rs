//! Everything that time does to a session, in one ordered heap.
//!
//! A timer may fire too early, never too late: whoever handles it looks at what is really due and
//! arms it again. So a deadline that moves forward, as those of leases do all the time, costs
//! nothing until the old one has come.
//!
//! A timer that is armed anew or disarmed leaves its old entry in the heap, which is passed over when
//! its turn comes. Most requests are answered long before their deadline, so this is the cheap side.
//! The heap never holds more than twice as many entries as timers are armed, and a few.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::io::{LeaseNo, OpId, WatchId};
use super::table::Table;
use super::time::Moment;

/// So many entries without a timer are left alone.
const STALE_MAX: usize = 64;

/// What a moment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    by_time: BinaryHeap<Reverse<(Moment, Timer)>>,
    armed: Table<Timer, Moment>,
}

impl Timers {
    /// Lets `timer` fire at `at`, or earlier if it was armed for earlier.
    pub(super) fn arm(&mut self, timer: Timer, at: Moment) {
        if at == Moment::NEVER || self.armed.get(&timer).is_some_and(|&before| before <= at) {
            return;
        }
        self.armed.insert(timer, at);
        self.by_time.push(Reverse((at, timer)));
        self.sweep_out();
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        if self.armed.remove(&timer).is_some() {
            self.sweep_out();
        }
    }

    /// Takes a timer whose moment has come.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<Timer> {
        while let Some(&Reverse((at, timer))) = self.by_time.peek() {
            let is_armed = self.armed.get(&timer) == Some(&at);
            if is_armed && at > now {
                return None;
            }
            self.by_time.pop();
            if is_armed {
                self.armed.remove(&timer);
                return Some(timer);
            }
        }
        None
    }

    /// When to look again. It may be too early, by a timer that was disarmed since the last look.
    pub(super) fn next(&self) -> Option<Moment> {
        self.by_time.peek().map(|&Reverse((at, _))| at)
    }

    fn sweep_out(&mut self) {
        if self.by_time.len() > 2 * self.armed.len() + STALE_MAX {
            let armed = &self.armed;
            self.by_time.retain(|&Reverse((at, timer))| armed.get(&timer) == Some(&at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(number: u64) -> Timer {
        Timer::Op(OpId(number))
    }

    #[test]
    fn they_fire_in_order_and_only_if_armed() {
        let mut timers = Timers::default();
        for (number, at) in [(1, 30), (2, 10), (3, 20), (4, 5)] {
            timers.arm(op(number), Moment::from_micros(at));
        }
        timers.disarm(op(4));
        // Earlier counts, later does not.
        timers.arm(op(1), Moment::from_micros(15));
        timers.arm(op(2), Moment::from_micros(50));
        let now = Moment::from_micros(20);
        let fired: Vec<Timer> = std::iter::from_fn(|| timers.pop_due(now)).collect();
        assert_eq!(fired, [op(2), op(1), op(3)]);
        assert_eq!(timers.pop_due(Moment::from_micros(100)), None);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn one_that_is_armed_again_for_the_same_moment_fires_once() {
        let mut timers = Timers::default();
        let at = Moment::from_micros(7);
        timers.arm(op(1), at);
        timers.disarm(op(1));
        timers.arm(op(1), at);
        assert_eq!(timers.pop_due(at), Some(op(1)));
        assert_eq!(timers.pop_due(at), None);
    }

    #[test]
    fn what_is_disarmed_does_not_pile_up() {
        let mut timers = Timers::default();
        timers.arm(Timer::Link, Moment::from_micros(1));
        for number in 0..100_000 {
            timers.arm(op(number), Moment::from_micros(1_000 + number));
            timers.disarm(op(number));
            assert!(timers.by_time.len() <= 2 * timers.armed.len() + STALE_MAX);
        }
    }
}
