//! Latencies of many requests: kept as a histogram, told in milliseconds.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest latency that is told apart: a minute, in nanoseconds.
const NANOS_MAX: u64 = 60_000_000_000;
/// Significant digits.
const DIGITS: u8 = 3;

/// Latencies.
#[derive(Clone, Debug)]
pub struct Latency {
    nanos: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Latency {
        let nanos = Histogram::new_with_bounds(1, NANOS_MAX, DIGITS);
        Latency { nanos: nanos.expect("these bounds are sound") }
    }
}

impl Latency {
    pub fn add(&mut self, taken: Duration) {
        let nanos = u64::try_from(taken.as_nanos()).unwrap_or(NANOS_MAX);
        self.nanos.saturating_record(nanos);
    }

    pub fn merge(&mut self, other: &Latency) {
        let same = self.nanos.add(&other.nanos);
        same.expect("all have the same bounds");
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.nanos.len()
    }

    /// In milliseconds; nothing if there are none.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        if self.nanos.is_empty() {
            return f64::NAN;
        }
        millis(self.nanos.value_at_quantile(quantile))
    }

    pub fn max_ms(&self) -> f64 {
        if self.nanos.is_empty() { f64::NAN } else { millis(self.nanos.max()) }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people, with three digits")]
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_samples() {
        let mut latency = Latency::default();
        for ms in 1..=100 {
            latency.add(Duration::from_millis(ms));
        }
        assert!((latency.quantile_ms(0.5) - 50.0).abs() < 0.1);
        assert!((latency.quantile_ms(0.99) - 99.0).abs() < 0.1);
        assert!((latency.max_ms() - 100.0).abs() < 0.1);
    }

    #[test]
    fn two_add_up() {
        let mut one = Latency::default();
        one.add(Duration::from_millis(1));
        let mut two = Latency::default();
        two.add(Duration::from_millis(9));
        one.merge(&two);
        assert_eq!(one.count(), 2);
        assert!((one.max_ms() - 9.0).abs() < 0.01);
    }

    #[test]
    fn none_are_no_number() {
        assert!(Latency::default().quantile_ms(0.5).is_nan());
    }

    #[test]
    fn what_takes_longer_than_a_minute_counts_as_one() {
        let mut latency = Latency::default();
        latency.add(Duration::from_secs(3_600));
        assert!((latency.max_ms() - 60_000.0).abs() < 100.0);
    }
}
