//! Log time, as a leader counts it.

use crate::io::Micros;
use crate::machine::LogTime;

/// A longer gap between two looks at the clock counts as this: a leader that was frozen must not
/// make up for it, because nobody could renew a lease meanwhile.
pub const GAP_MAX: Micros = Micros(250_000);

/// Counts the time that this node has been in office.
#[derive(Debug, Default)]
pub struct LogClock {
    seen: Option<Micros>,
    /// The last stamp that was in the log when this node took office.
    base: LogTime,
    in_office: u64,
    /// How often, and by how much in all, a gap was cut.
    cuts: u64,
}

impl LogClock {
    /// Looks at the monotonic clock.
    pub fn advance(&mut self, now: Micros) {
        let gap = self.seen.map_or(0, |seen| now.0.saturating_sub(seen.0));
        if gap > GAP_MAX.0 {
            self.cuts += 1;
        }
        self.in_office += gap.min(GAP_MAX.0);
        self.seen = Some(self.seen.unwrap_or(now).max(now));
    }

    /// Takes office: stamps go on from the last one in the log.
    pub fn take_office(&mut self, last_stamp: LogTime) {
        self.base = last_stamp;
        self.in_office = 0;
    }

    /// The stamp for an entry that is closed now.
    pub fn stamp(&self) -> LogTime {
        LogTime(self.base.0.saturating_add(self.in_office / 1_000))
    }

    /// How often a gap was cut. A number that grows tells of a machine that stalls.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_leader_does_not_make_up_for_it() {
        let mut clock = LogClock::default();
        clock.advance(Micros(5_000_000));
        clock.take_office(LogTime(1_000));
        clock.advance(Micros(5_010_000));
        assert_eq!(clock.stamp(), LogTime(1_010));
        clock.advance(Micros(65_010_000));
        assert_eq!((clock.stamp(), clock.cuts()), (LogTime(1_260), 1));
    }

    #[test]
    fn a_clock_that_goes_back_is_taken_to_stand_still() {
        let mut clock = LogClock::default();
        clock.advance(Micros(2_000_000));
        clock.take_office(LogTime(7));
        clock.advance(Micros(1_000_000));
        clock.advance(Micros(2_100_000));
        assert_eq!(clock.stamp(), LogTime(107));
    }
}
