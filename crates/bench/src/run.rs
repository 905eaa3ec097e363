//! One run: all systems, all workloads, in turns.
//!
//! Within a round every system is measured at the same point before the next point comes, and rounds
//! follow each other, so that whatever else the machine does hits all of them. What takes a second or so
//! is gone through in several laps of a round: many short looks far apart tell more about what is usual
//! than one long look, because a machine that others share is fast or slow for a minute at a time.

mod fleet;
mod rare;
mod steps;

use std::collections::BTreeSet;
use std::future::Future;
use std::io::{self, Write as _};
use std::time::Duration;

use crate::figures::Figures;
use crate::machine;
use crate::server::{Places, System};
use crate::work::Window;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Workload {
    /// Acquire and release, uncontended
    W1,
    /// Hand-over between many waiters
    W2,
    /// Renewals
    W3,
    /// Memory of held locks
    W4,
    /// The leader is killed
    W5,
    /// How late leases end
    W6,
    /// Start to first lock, idle memory, size
    W7,
    /// Cost of a cycle beside a thousand and a million held locks
    Growth,
    /// etcd's API, served by etcd and by Fencepost
    Door,
}

impl Workload {
    pub const ALL: [Workload; 9] = [
        Workload::W1,
        Workload::W2,
        Workload::W3,
        Workload::W4,
        Workload::W5,
        Workload::W6,
        Workload::W7,
        Workload::Growth,
        Workload::Door,
    ];
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    pub peers: BTreeSet<System>,
    pub nodes: Vec<usize>,
    pub workloads: BTreeSet<Workload>,
    pub rounds: usize,
    /// How often W1 and W2 are gone through in each round.
    pub laps: usize,
    pub window: Window,
    /// How many clients, for W1.
    pub clients: Vec<usize>,
    /// How many waiters the growth of hand-overs is measured with, beside a hundred.
    pub waiters: usize,
    /// How many locks are held for W4, and beside how many growth is measured.
    pub held: u64,
    pub held_growth: u64,
    pub watch: Duration,
    /// Whether to record where Fencepost and the load spend their time, beside every cell of W1.
    pub profile: bool,
    /// Rows that no bar is about are left out, so that the rest takes less than three minutes.
    pub quick: bool,
    pub places: Places,
}

/// What came of it.
#[derive(Default)]
pub struct Outcome {
    pub figures: Figures,
    /// Cells that could not be measured, and why. None is left out in silence.
    pub failures: Vec<String>,
}

impl Outcome {
    /// Notes a cell that failed; whatever else was measured counts all the same. What fails in every
    /// round for the same reason is told once.
    fn note(&mut self, cell: &str, outcome: anyhow::Result<()>) {
        if let Err(error) = outcome {
            let failure = format!("{cell}: {error:#}");
            say(&format!("  FAILED {failure}"));
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
    }
}

/// How long a cell may take beside its window: connections and leases are made first.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cell that must not take for ever, whatever the server does.
async fn within<T>(
    window: Window,
    cell: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let limit = window.warm + window.counted + PATIENCE;
    match tokio::time::timeout(limit, cell).await {
        Ok(outcome) => outcome,
        Err(_) => anyhow::bail!("no end after {limit:?}: the server does not answer any more"),
    }
}

/// A line about how it goes, where nobody takes it for a result.
pub fn say(line: &str) {
    // Whoever has closed standard error does not want to hear it.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Measures everything that the plan names.
pub async fn run(plan: &Plan) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    for &nodes in &plan.nodes {
        let mut fleet = fleet::Fleet::new(nodes, plan);
        for round in 1..=plan.rounds {
            say(&format!(
                "round {round} of {}, {nodes} node(s), load {}",
                plan.rounds,
                machine::load()
            ));
            let (fleet, out) = (&mut fleet, &mut outcome);
            steps::Steps { plan, nodes, round, lap: 1, fleet, out }.run().await;
        }
        fleet.stop().await;
    }
    Ok(outcome)
}
