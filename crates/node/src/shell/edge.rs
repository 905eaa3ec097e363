//! The edge to the machine: its clock and its randomness. Nothing else of the shell reads either.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::io::Micros;

/// Now, on the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "the one place where the shell reads a clock")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The wall clock, in milliseconds since the Unix epoch. For backups only: leases count log time.
#[expect(clippy::disallowed_methods, reason = "a restore counts on from the wall clock, ADR 032")]
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The monotonic clock, as the node counts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock { start: now() }
    }

    pub(super) fn micros(&self) -> Micros {
        self.at(now())
    }

    /// The moment at which it is so late.
    pub(super) fn moment(&self, micros: Micros) -> Instant {
        self.start + Duration::from_micros(micros.0)
    }

    pub(super) fn at(&self, moment: Instant) -> Micros {
        let passed = moment.saturating_duration_since(self.start).as_micros();
        // A microsecond short of nothing: the node counts from zero.
        Micros(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// A random number that nobody can guess, and that is not zero.
pub(super) fn random() -> u64 {
    loop {
        let number = getrandom::u64().expect("the operating system gives random numbers");
        if number != 0 {
            return number;
        }
    }
}

/// The number of a new member. Below 10^15, so that JSON has it exactly as a number, and so that its
/// decimal digits cannot be mistaken for the sixteen hexadecimal ones in which members are named.
pub(super) fn member_id() -> u64 {
    const MEMBER_IDS: u64 = 1_000_000_000_000_000;
    1 + random() % (MEMBER_IDS - 1)
}

/// A length of time between the half of this and this, so that many who wait do not come back
/// together.
pub(super) fn jittered(most: Duration) -> Duration {
    let half = most / 2;
    let span = u64::try_from(half.as_micros()).unwrap_or(u64::MAX).max(1);
    half + Duration::from_micros(random() % span)
}

/// Waits before something is tried again. For those who have nothing to be woken by.
pub(super) fn pause(length: Duration) {
    let until = now() + length;
    loop {
        let left = until.saturating_duration_since(now());
        if left.is_zero() {
            return;
        }
        std::thread::park_timeout(left);
    }
}
