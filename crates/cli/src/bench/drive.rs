//! One turn after the other: as fast as they are answered, or when they are due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost_client::CancellationToken;

use super::job::Job;
use super::tally::Tally;

#[expect(clippy::disallowed_methods, reason = "a load generator measures real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// When turns begin to count, and when they end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: Instant,
    begin: Instant,
    end: Instant,
}

impl Span {
    pub(super) fn from_now(warm_up: Duration, duration: Duration) -> Span {
        let start = now();
        Span { start, begin: start + warm_up, end: start + warm_up + duration }
    }

    /// With the warm-up.
    pub(super) fn whole(self) -> Duration {
        self.end - self.start
    }

    pub(super) fn left(self) -> Duration {
        self.end.saturating_duration_since(now())
    }

    /// What counts of it, if it was over at `ended`.
    pub(super) fn counted(self, ended: Option<Instant>) -> Duration {
        let ended = ended.map_or(self.end, |ended| ended.min(self.end));
        ended.saturating_duration_since(self.begin)
    }
}

/// When a turn is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// When the one before is over.
    Closed,
    /// At fixed times, whatever became of the one before.
    Open { first: Instant, every: Duration },
}

impl Pace {
    /// The pace of one of `slots` that share a rate: they take turns.
    pub(super) fn new(rate: Option<u32>, number: usize, slots: usize, span: Span) -> Pace {
        let Some(rate) = rate else { return Pace::Closed };
        let step = Duration::from_secs(1) / rate;
        let times = |count: usize| step.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        Pace::Open { first: span.start + times(number), every: times(slots) }
    }

    /// When the turn with this number is due; nothing if it is when the one before is over.
    fn due(self, turn: u32) -> Option<Instant> {
        match self {
            Pace::Closed => None,
            Pace::Open { first, every } => Some(first + every.saturating_mul(turn)),
        }
    }
}

/// Takes turns until the time is over, or somebody says stop.
pub(super) async fn turns(
    mut job: Job,
    pace: Pace,
    span: Span,
    stop: CancellationToken,
    done: Arc<AtomicU64>,
) -> Tally {
    let mut tally = Tally::default();
    for turn in 0.. {
        let due = pace.due(turn);
        if due.unwrap_or_else(now) >= span.end {
            break;
        }
        let begun = match due {
            // The one before took so long that this one comes late. Whoever wanted it has waited.
            Some(due) if due <= now() => due,
            Some(due) => {
                tokio::select! {
                    () = tokio::time::sleep_until(due.into()) => {}
                    () = stop.cancelled() => break,
                }
                now()
            }
            None => now(),
        };
        if stop.is_cancelled() {
            break;
        }
        if now() >= span.end {
            tally.behind += 1;
            continue;
        }
        let outcome = tokio::select! {
            outcome = job.turn() => outcome,
            () = stop.cancelled() => break,
        };
        done.fetch_add(1, Ordering::Relaxed);
        if begun >= span.begin {
            tally.add(begun, outcome);
        }
    }
    tally.ended = stop.is_cancelled().then(now);
    job.end().await;
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_share_a_rate_take_turns() {
        let span = Span::from_now(Duration::ZERO, Duration::from_secs(10));
        let due = |number, turn| {
            let pace = Pace::new(Some(100), number, 4, span);
            pace.due(turn).expect("there is a rate") - span.start
        };
        let order = [due(0, 0), due(1, 0), due(2, 0), due(3, 0), due(0, 1)];
        assert_eq!(order.map(|at| at.as_millis()), [0, 10, 20, 30, 40]);
    }

    #[test]
    fn without_a_rate_nothing_is_due() {
        let span = Span::from_now(Duration::ZERO, Duration::from_secs(10));
        assert!(Pace::new(None, 0, 4, span).due(0).is_none());
    }

    #[test]
    fn what_was_cut_off_counts_for_as_long_as_it_ran() {
        let span = Span::from_now(Duration::from_secs(1), Duration::from_secs(10));
        assert_eq!(span.counted(None), Duration::from_secs(10));
        let early = span.begin + Duration::from_secs(3);
        assert_eq!(span.counted(Some(early)), Duration::from_secs(3));
        assert_eq!(span.counted(Some(span.start)), Duration::ZERO);
    }
}
