//! The client's clock: the only place in this crate that reads one.
//!
//! `std::time::Instant` stands still while the machine sleeps, and a lease does not. So this reads
//! CLOCK_BOOTTIME.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::core::Moment;

/// A moment on a clock that goes on while the machine sleeps.
///
/// Only moments of the same boot of the same machine can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(Moment);

impl BootTime {
    /// Now.
    pub fn now() -> BootTime {
        let read = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(read.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(read.tv_nsec).unwrap_or(0);
        BootTime(Moment::from_micros(seconds.saturating_mul(1_000_000) + nanos / 1_000))
    }

    /// How long this is after `earlier`; zero if it is not.
    pub fn since(self, earlier: BootTime) -> Duration {
        self.0.since(earlier.0)
    }

    /// How long it is until then; zero if it is past.
    pub fn remaining(self) -> Duration {
        self.since(BootTime::now())
    }

    /// Whether it is past.
    pub fn is_past(self) -> bool {
        self <= BootTime::now()
    }

    /// The time since the machine was started.
    pub fn since_boot(self) -> Duration {
        Duration::from_micros(self.0.micros())
    }

    pub(crate) fn moment(self) -> Moment {
        self.0
    }

    pub(crate) fn of(moment: Moment) -> BootTime {
        BootTime(moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_go_back() {
        let first = BootTime::now();
        let second = BootTime::now();
        assert!(second >= first);
        assert!(first.is_past());
        assert_eq!(first.remaining(), Duration::ZERO);
    }
}
