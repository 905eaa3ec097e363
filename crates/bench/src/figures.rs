//! What was measured: every figure under a name, with all its repetitions.
//!
//! A name is spelled `workload.nodes.point.system.metric`, as `w1.1n.64.etcd.per_s`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figures {
    all: BTreeMap<String, Vec<f64>>,
}

/// A figure over its repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub runs: usize,
}

impl Figures {
    /// One more repetition of a figure. What is no number is left out: it would poison the median.
    pub fn add(&mut self, name: impl Into<String>, value: f64) {
        if value.is_finite() {
            self.all.entry(name.into()).or_default().push(value);
        }
    }

    /// The middle one of the repetitions, or the mean of the two in the middle.
    pub fn median(&self, name: &str) -> Option<f64> {
        self.spread(name).map(|spread| spread.median)
    }

    pub fn spread(&self, name: &str) -> Option<Spread> {
        let mut sorted = self.all.get(name)?.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, upper)
        } else {
            upper
        };
        Some(Spread { median, min, max, runs: sorted.len() })
    }

    /// The names of all figures, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// All repetitions of one figure, in the order in which they were taken.
    pub fn values(&self, name: &str) -> &[f64] {
        self.all.get(name).map_or(&[], Vec::as_slice)
    }

    /// Takes in the figures of another run.
    pub fn merge(&mut self, other: Figures) {
        for (name, values) in other.all {
            self.all.entry(name).or_default().extend(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        let mut figures = Figures::default();
        for value in [3.0, 1.0, 100.0] {
            figures.add("a", value);
        }
        let spread = figures.spread("a").unwrap();
        assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 100.0, runs: 3 });
    }

    #[test]
    fn of_an_even_number_it_lies_between_the_two_in_the_middle() {
        let mut figures = Figures::default();
        for value in [4.0, 1.0, 2.0, 100.0] {
            figures.add("a", value);
        }
        assert_eq!(figures.median("a"), Some(3.0));
    }

    #[test]
    fn what_was_not_measured_has_no_median() {
        let mut figures = Figures::default();
        figures.add("a", f64::NAN);
        assert_eq!(figures.median("a"), None);
        assert_eq!(figures.median("b"), None);
    }

    #[test]
    fn figures_of_two_runs_are_repetitions() {
        let mut one = Figures::default();
        one.add("a", 1.0);
        let mut two = Figures::default();
        two.add("a", 3.0);
        two.add("b", 5.0);
        one.merge(two);
        assert_eq!(one.values("a"), [1.0, 3.0]);
        assert_eq!(one.names().collect::<Vec<_>>(), ["a", "b"]);
    }
}
