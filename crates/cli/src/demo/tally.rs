//! What the clients of the counter have reported, in the order of their grants.

use std::time::Duration;

use fencepost_client::BootTime;

use super::counter::Counted;

/// A running count.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    count: u64,
    first_token: i64,
    last_token: i64,
    /// How often a token was not greater than the one before it.
    falls: u64,
    last_at: Option<BootTime>,
    longest_gap: Duration,
}

impl Tally {
    pub(super) fn add(&mut self, counted: Counted) {
        if self.count == 0 {
            self.first_token = counted.token;
        } else if counted.token <= self.last_token {
            self.falls += 1;
        }
        if let Some(last) = self.last_at {
            self.longest_gap = self.longest_gap.max(counted.at.since(last));
        }
        self.count += 1;
        self.last_token = counted.token;
        self.last_at = Some(counted.at);
    }

    /// How many increments the store has acknowledged.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn first_token(&self) -> i64 {
        self.first_token
    }

    pub(super) fn last_token(&self) -> i64 {
        self.last_token
    }

    /// Whether every token was greater than the one before it.
    pub(super) fn has_risen(&self) -> bool {
        self.count > 0 && self.falls == 0
    }

    /// The longest time between two increments.
    pub(super) fn longest_gap(&self) -> Duration {
        self.longest_gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_does_not_rise_is_noticed() {
        let tally = |tokens: &[i64]| {
            let mut tally = Tally::default();
            for &token in tokens {
                tally.add(Counted { token, at: BootTime::now() });
            }
            tally
        };
        assert!(tally(&[3, 4, 9]).has_risen());
        assert!(!tally(&[3, 4, 4]).has_risen());
        assert!(!tally(&[3, 9, 4, 10]).has_risen());
        assert!(!tally(&[]).has_risen(), "nothing shows nothing");
    }
}
