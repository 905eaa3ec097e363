//! What came of turns: how long they took, and what went wrong.

use std::time::{Duration, Instant};

use fencepost_client::Error;
use hdrhistogram::Histogram;

/// The longest time that is told apart, in microseconds: an hour.
const MICROS_MAX: u64 = 3_600_000_000;
const DIGITS: u8 = 3;

/// The turns of one client, or of all.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    micros: Histogram<u64>,
    /// Refused or failed: nothing was done.
    pub(super) errors: u64,
    /// Not known whether it was done.
    pub(super) unknown: u64,
    /// Turns that were due, and whose time never came.
    pub(super) behind: u64,
    /// The first thing that went wrong.
    pub(super) first_error: Option<String>,
    /// When it was cut off, if it was.
    pub(super) ended: Option<Instant>,
}

impl Default for Tally {
    fn default() -> Tally {
        let micros = Histogram::new_with_bounds(1, MICROS_MAX, DIGITS);
        Tally {
            micros: micros.expect("these bounds are sound"),
            errors: 0,
            unknown: 0,
            behind: 0,
            first_error: None,
            ended: None,
        }
    }
}

impl Tally {
    /// One turn: from when it began, or was due, to when it was done.
    pub(super) fn add(&mut self, begun: Instant, outcome: Result<Instant, Error>) {
        match outcome {
            Ok(done) => self.record(done.saturating_duration_since(begun)),
            Err(error) => {
                let count =
                    if error.is_indeterminate() { &mut self.unknown } else { &mut self.errors };
                *count += 1;
                self.first_error.get_or_insert_with(|| error.to_string());
            }
        }
    }

    fn record(&mut self, taken: Duration) {
        self.micros.saturating_record(u64::try_from(taken.as_micros()).unwrap_or(MICROS_MAX));
    }

    pub(super) fn merge(&mut self, other: Tally) {
        self.micros.add(&other.micros).expect("all have the same bounds");
        self.errors += other.errors;
        self.unknown += other.unknown;
        self.behind += other.behind;
        self.first_error = self.first_error.take().or(other.first_error);
        self.ended = self.ended.max(other.ended);
    }

    /// How many were done.
    pub(super) fn turns(&self) -> u64 {
        self.micros.len()
    }

    /// In microseconds, at this share of all.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        self.micros.value_at_quantile(share)
    }

    pub(super) fn max(&self) -> u64 {
        self.micros.max()
    }

    pub(super) fn mean(&self) -> f64 {
        self.micros.mean()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::drive::now;

    #[test]
    fn a_turn_counts_from_when_it_was_due() {
        let mut tally = Tally::default();
        let due = now();
        tally.add(due, Ok(due + Duration::from_millis(250)));
        assert_eq!(tally.turns(), 1);
        assert!(tally.max().abs_diff(250_000) < 500, "{}", tally.max());
    }

    #[test]
    fn what_is_unknown_is_no_error() {
        let mut tally = Tally::default();
        tally.add(now(), Err(Error::Indeterminate { message: "gone".into() }));
        tally.add(now(), Err(Error::Timeout));
        assert_eq!((tally.turns(), tally.errors, tally.unknown), (0, 1, 1));
        assert!(tally.first_error.expect("there was one").contains("unknown"));
    }

    #[test]
    fn two_tallies_add_up() {
        let (mut one, mut two) = (Tally::default(), Tally::default());
        let begun = now();
        one.add(begun, Ok(begun + Duration::from_millis(1)));
        two.add(begun, Ok(begun + Duration::from_millis(3)));
        two.behind = 4;
        one.merge(two);
        assert_eq!((one.turns(), one.behind), (2, 4));
        assert!(one.quantile(1.0).abs_diff(3_000) < 10);
    }
}
