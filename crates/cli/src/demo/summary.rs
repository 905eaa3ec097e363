//! What the demo has shown, for people and for programs, and whether it is what it should be.

use std::io;

use serde::Serialize;

use super::story::{Story, Tone};
use super::{counter, pause};

/// The document of `-o json`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    passed: bool,
    seed: u64,
    clients: u64,
    elapsed_ms: u64,
    unfenced: Paused,
    fenced: Paused,
    leader_killed: Killed,
}

/// A holder was paused.
#[derive(Clone, Debug, Serialize)]
struct Paused {
    acknowledged: usize,
    lost: usize,
    late_write_refused: bool,
    tokens: Vec<i64>,
}

/// A leader was killed.
#[derive(Clone, Debug, Serialize)]
struct Killed {
    killed: String,
    leader: String,
    leaderless_ms: u64,
    longest_gap_ms: u64,
    acknowledged: u64,
    counter: u64,
    lost: u64,
    tokens_rose: bool,
    first_token: i64,
    last_token: i64,
}

impl Summary {
    pub(super) fn of(
        seed: u64,
        clients: u64,
        unfenced: &pause::Outcome,
        fenced: &pause::Outcome,
        counted: &counter::Outcome,
    ) -> Summary {
        let (unfenced, fenced, leader_killed) =
            (Paused::of(unfenced), Paused::of(fenced), Killed::of(counted));
        let passed = unfenced.shows_the_harm()
            && fenced.shows_the_cure()
            && leader_killed.is_whole(clients * counter::ROUNDS);
        Summary { passed, seed, clients, elapsed_ms: 0, unfenced, fenced, leader_killed }
    }

    /// Whether everything is as it should be.
    pub(super) fn passed(&self) -> bool {
        self.passed
    }

    /// Tells it to people.
    pub(super) fn tell(&mut self, story: &mut Story) -> io::Result<()> {
        self.elapsed_ms = millis(story.elapsed());
        let (unfenced, fenced, killed) = (&self.unfenced, &self.fenced, &self.leader_killed);
        let row = |name: &str, acknowledged: u64, lost: u64, more: &str| {
            format!("  {name:<26}{acknowledged:>12}{lost:>8}   {more}")
        };
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        story.heading("What was acknowledged, and what of it was lost")?;
        story.line(Tone::Quiet, &format!("  {:<26}{:>12}{:>8}", "", "acknowledged", "lost"))?;
        let more = if unfenced.late_write_refused { "" } else { "the late write was accepted" };
        let (count, lost) = (number(unfenced.acknowledged), number(unfenced.lost));
        story.line(Tone::Plain, &row("a pause, without fencing", count, lost, more))?;
        let more = if fenced.late_write_refused { "the late write was refused" } else { "" };
        let (count, lost) = (number(fenced.acknowledged), number(fenced.lost));
        story.line(Tone::Plain, &row("a pause, with fencing", count, lost, more))?;
        let rose = if killed.tokens_rose { "every token rose" } else { "TOKENS FELL" };
        let more = format!("{rose}; nobody counted for {} ms", killed.longest_gap_ms);
        let text = row("a leader killed", killed.acknowledged, killed.lost, &more);
        story.line(Tone::Plain, &text)?;
        let seconds = self.elapsed_ms.div_ceil(1_000);
        story.line(Tone::Plain, "")?;
        match self.passed {
            true => story.line(
                Tone::Good,
                &format!(
                    "As it should be, in {seconds} s. docs/fencing.md: how your store does it."
                ),
            ),
            false => story.line(Tone::Bad, "NOT as it should be. This is worth a bug report."),
        }
    }
}

impl Paused {
    fn of(outcome: &pause::Outcome) -> Paused {
        Paused {
            acknowledged: outcome.acknowledged.len(),
            lost: outcome.lost().len(),
            late_write_refused: outcome.is_late_refused,
            tokens: outcome.tokens.clone(),
        }
    }

    fn have_tokens_risen(&self) -> bool {
        self.tokens.is_sorted_by(|earlier, later| earlier < later)
    }

    /// Two updates were acknowledged, and one of them is gone.
    fn shows_the_harm(&self) -> bool {
        let counts = (self.acknowledged, self.lost);
        counts == (2, 1) && !self.late_write_refused && self.have_tokens_risen()
    }

    /// The late one was refused, so both are there in the end.
    fn shows_the_cure(&self) -> bool {
        let counts = (self.acknowledged, self.lost);
        counts == (2, 0) && self.late_write_refused && self.have_tokens_risen()
    }
}

impl Killed {
    fn of(outcome: &counter::Outcome) -> Killed {
        let tally = &outcome.tally;
        Killed {
            killed: outcome.killed.clone(),
            leader: outcome.leader.clone(),
            leaderless_ms: millis(outcome.leaderless),
            longest_gap_ms: millis(tally.longest_gap()),
            acknowledged: tally.count(),
            counter: outcome.counter,
            lost: tally.count().saturating_sub(outcome.counter),
            tokens_rose: tally.has_risen(),
            first_token: tally.first_token(),
            last_token: tally.last_token(),
        }
    }

    /// Everything that was to be counted was, once.
    fn is_whole(&self, all: u64) -> bool {
        self.acknowledged == all && self.counter == all && self.tokens_rose
    }
}

fn millis(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused(acknowledged: usize, lost: usize, late_write_refused: bool) -> Paused {
        Paused { acknowledged, lost, late_write_refused, tokens: vec![2, 4] }
    }

    #[test]
    fn only_the_expected_end_is_good() {
        assert!(paused(2, 1, false).shows_the_harm());
        assert!(!paused(2, 0, false).shows_the_harm());
        assert!(!paused(1, 0, true).shows_the_harm());
        assert!(paused(2, 0, true).shows_the_cure());
        assert!(!paused(2, 1, false).shows_the_cure());
        assert!(!paused(2, 1, true).shows_the_cure());
        assert!(!Paused { tokens: vec![4, 4], ..paused(2, 0, true) }.shows_the_cure());
    }

    #[test]
    fn a_lost_or_doubled_number_is_not_good() {
        let killed = |acknowledged, counter, tokens_rose| Killed {
            killed: "n1".to_owned(),
            leader: "n2".to_owned(),
            leaderless_ms: 1,
            longest_gap_ms: 1,
            acknowledged,
            counter,
            lost: 0,
            tokens_rose,
            first_token: 1,
            last_token: 2,
        };
        assert!(killed(200, 200, true).is_whole(200));
        assert!(!killed(200, 199, true).is_whole(200));
        assert!(!killed(200, 201, true).is_whole(200));
        assert!(!killed(199, 199, true).is_whole(200));
        assert!(!killed(200, 200, false).is_whole(200));
    }
}
