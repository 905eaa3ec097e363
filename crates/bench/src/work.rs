//! The workloads, one per file. Each measures one system once; [`crate::run`] takes turns.

pub mod cycle;
pub mod expiry;
pub mod failover;
pub mod handoff;
pub mod hold;
pub mod renew;
pub mod start;
pub mod watch;

use std::time::{Duration, Instant};

use crate::clock;
use crate::machine;

/// How long a closed loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Not counted: connections, caches and compilers get warm.
    pub warm: Duration,
    pub counted: Duration,
}

/// When a window begins and ends.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub begin: Instant,
    pub end: Instant,
}

impl Window {
    /// The window, from now on.
    pub fn open(self) -> Span {
        let begin = clock::now() + self.warm;
        Span { begin, end: begin + self.counted }
    }

    /// A number of things in this window, as a rate.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub fn rate(self, count: u64) -> f64 {
        count as f64 / self.counted.as_secs_f64()
    }
}

/// Cores that were busy during a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cores {
    pub clients: f64,
    pub servers: f64,
    /// Everything else on the machine: how far absolute numbers can be believed.
    pub others: f64,
}

/// Measures [`Cores`] over a window, beside the load.
pub async fn cores_over(span: Span, pids: Vec<u32>) -> Cores {
    let until = |at: Instant| at.saturating_duration_since(clock::now());
    clock::pass(until(span.begin)).await;
    let (begun, before) = (clock::now(), sample(&pids));
    clock::pass(until(span.end)).await;
    let (after, seconds) = (sample(&pids), begun.elapsed().as_secs_f64());
    let per = |at: usize| (after[at] - before[at]) / seconds;
    Cores { clients: per(0), servers: per(1), others: (per(2) - per(0) - per(1)).max(0.0) }
}

fn sample(pids: &[u32]) -> [f64; 3] {
    [machine::cpu_of_self(), machine::cpu_of(pids), machine::cpu_of_all()]
}
