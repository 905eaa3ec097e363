//! Moments on the client's own clock, and how long a lease may be believed in.
//!
//! The clock is an input of the session: one that goes on while the machine sleeps. Only
//! differences mean anything.

use std::time::Duration;

/// Microseconds on the client's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Later than everything.
    pub const NEVER: Moment = Moment(u64::MAX);

    /// So many microseconds after the clock's beginning.
    pub const fn from_micros(micros: u64) -> Moment {
        Moment(micros)
    }

    /// Microseconds since the clock's beginning.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// So long after this.
    #[must_use]
    pub fn after(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(micros(span)))
    }

    /// How long this is after `earlier`; nothing if it is not.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// What the network, the scheduler and rounding may cost beside the difference of clock rates.
const SLACK: Duration = Duration::from_millis(50);
/// The part of a TTL by which two clocks may differ over its length: one hundredth.
const RATE_PART: u32 = 100;

/// Until when a lease may be believed in that was renewed by a message sent at `sent`.
///
/// The service counts from when the message *arrives*, which is later, so counting from sending
/// errs on the safe side. The rest is for clocks that run at different rates.
pub fn believed_until(sent: Moment, ttl: Duration) -> Moment {
    sent.after(ttl.saturating_sub(ttl / RATE_PART).saturating_sub(SLACK))
}

/// Milliseconds for the wire, which counts in whole ones. What is below one is one: zero has a
/// meaning of its own.
pub(crate) fn wire_ms(span: Duration) -> i64 {
    let whole = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    if whole == 0 && !span.is_zero() { 1 } else { whole }
}

/// A span from the wire; a negative one is none.
pub(crate) fn from_wire_ms(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirements: S1-079.
    #[test]
    fn belief_ends_one_percent_and_fifty_milliseconds_early() {
        let sent = Moment::from_micros(1_000_000);
        let until = believed_until(sent, Duration::from_secs(10));
        assert_eq!(until.since(sent), Duration::from_millis(9_850));
    }

    #[test]
    fn a_fraction_of_a_millisecond_is_not_zero_on_the_wire() {
        assert_eq!(wire_ms(Duration::from_micros(10)), 1);
        assert_eq!(wire_ms(Duration::ZERO), 0);
    }
}
