//! Clocks that are fast or slow, but never go back.

use fencepost_node::io::Micros;

/// One process's clock: it began somewhere, and it runs at its own rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// What it showed at true time zero. May lie before its own zero, if the process began later.
    offset: i64,
    /// How much faster than true time it runs, in parts per million.
    fast_ppm: i64,
}

impl Clock {
    /// A clock that shows `local` at the true time `now`.
    pub(crate) fn showing(local: u64, now: u64, fast_ppm: i64) -> Clock {
        let clock = Clock { offset: 0, fast_ppm };
        Clock { offset: local.cast_signed() - clock.run(now), fast_ppm }
    }

    fn run(self, now: u64) -> i64 {
        let now = now.cast_signed();
        now + now * self.fast_ppm / 1_000_000
    }

    /// What it shows at a true time.
    pub(crate) fn local(self, now: u64) -> Micros {
        Micros((self.offset + self.run(now)).max(0).cast_unsigned())
    }

    /// The first true time, not before `now`, at which it shows this or more.
    pub(crate) fn when(self, local: Micros, now: u64) -> u64 {
        // A moment too far away for the arithmetic is never reached either.
        let local = i64::try_from(local.0.min(1 << 42)).unwrap_or(i64::MAX);
        let run = i128::from(local - self.offset) * 1_000_000;
        let at = run.div_euclid(i128::from(1_000_000 + self.fast_ppm));
        let mut at = u64::try_from(at).unwrap_or(0).max(now);
        // Both directions round, so the last steps are taken one by one.
        while at > now && self.local(at - 1).0.cast_signed() >= local {
            at -= 1;
        }
        while self.local(at).0.cast_signed() < local {
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_what_it_was_set_to_and_then_runs_at_its_rate() {
        let fast = Clock::showing(500, 1_000_000, 10_000);
        assert_eq!(fast.local(1_000_000), Micros(500));
        assert_eq!(fast.local(2_000_000), Micros(1_010_500));
    }

    #[test]
    fn the_moment_of_a_reading_is_the_first_that_shows_it() {
        for ppm in [-100_000, -9_999, -1, 0, 1, 3_333, 100_000] {
            let clock = Clock::showing(77_777, 123_456, ppm);
            for local in [Micros(77_777), Micros(80_001), Micros(5_000_000)] {
                let at = clock.when(local, 123_456);
                assert!(clock.local(at) >= local, "{ppm} ppm");
                assert!(at == 123_456 || clock.local(at - 1) < local, "{ppm} ppm");
            }
        }
    }

    #[test]
    fn a_reading_of_the_past_is_now() {
        let clock = Clock::showing(1_000_000, 0, 0);
        assert_eq!(clock.when(Micros(3), 42), 42);
    }
}
