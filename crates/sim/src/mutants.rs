//! Every planted bug must be caught, and soon.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::bug::Bug;
use crate::plan::Plan;
use crate::run::run_seed;
use crate::seen::Violation;

/// A bug that survives so many seeds is not caught.
pub const SEEDS_MAX: u64 = 1_000;

/// What came of one bug.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The bug.
    pub bug: Bug,
    /// How many seeds were run.
    pub seeds: u64,
    /// The seed that caught it, and what was seen.
    pub caught: Option<(u64, Violation)>,
}

/// Runs seeds with a bug in them, until it is caught. A bug that shows only after a restore is looked
/// for in seeds that have one, which is one in ten.
#[must_use]
pub fn hunt(bug: Bug, from: u64, seeds_max: u64) -> Hunt {
    let can_show = |seed: &u64| !bug.needs_restore() || Plan::draw(*seed).restore.is_some();
    let seeds = (0..).map(|number| from.wrapping_add(number)).filter(can_show);
    for (number, seed) in (0..seeds_max).zip(seeds) {
        if let Some(violation) = run_seed(seed, Some(bug), false).violation {
            return Hunt { bug, seeds: number + 1, caught: Some((seed, violation)) };
        }
    }
    Hunt { bug, seeds: seeds_max, caught: None }
}

/// Hunts several bugs, on several threads. Each result is given to `told` when it is there.
pub fn hunt_all(bugs: &[Bug], from: u64, threads: usize, told: impl Fn(&Hunt) + Sync) -> Vec<Hunt> {
    let next = AtomicUsize::new(0);
    let hunts = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(&bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let hunt = hunt(bug, from, SEEDS_MAX);
                    told(&hunt);
                    hunts.lock().unwrap_or_else(PoisonError::into_inner).push(hunt);
                }
            });
        }
    });
    hunts.into_inner().unwrap_or_else(PoisonError::into_inner)
}
