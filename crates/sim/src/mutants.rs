//! Every planted bug must be caught, and soon.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::bug::Bug;
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

/// Runs seeds with a bug in them, until it is caught.
#[must_use]
pub fn hunt(bug: Bug, from: u64, seeds_max: u64) -> Hunt {
    for number in 0..seeds_max {
        let seed = from.wrapping_add(number);
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
