//! Runs seeds: one, or many on all cores.
//!
//! Guarantees: a panic anywhere in a run is a violation with its seed, like any other. A seed that
//! is run twice must leave the same mark.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

use crate::bug::Bug;
use crate::fault::FaultCounts;
use crate::plan::END_AT;
use crate::seen::Violation;
use crate::trace::Trace;
use crate::world::{Outcome, World};

/// So many violations are enough for one evening.
const VIOLATIONS_MAX: usize = 10;

thread_local! {
    /// What the last panic of this thread said, while a run is watched.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static WATCHED: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs one seed.
#[must_use]
pub fn run_seed(seed: u64, bug: Option<Bug>, prints: bool) -> Outcome {
    watched(|| World::new(seed, bug, Trace::new(prints)).run())
}

/// Runs something that may panic, and makes a violation of that.
fn watched(run: impl FnOnce() -> Outcome) -> Outcome {
    listen_for_panics();
    WATCHED.with_borrow_mut(|watched| *watched = true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    WATCHED.with_borrow_mut(|watched| *watched = false);
    outcome.unwrap_or_else(|_| {
        let what = PANIC.take().unwrap_or_default();
        Outcome {
            violation: Some(Violation { invariant: "panic", what }),
            faults: FaultCounts::default(),
            virtual_micros: 0,
            mark: [0; 32],
        }
    })
}

/// Panics of a watched run are kept for its report; all others go where they always went.
fn listen_for_panics() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if WATCHED.with_borrow(|watched| *watched) {
                PANIC.set(Some(panic.to_string().replace('\n', " ")));
            } else {
                usual(panic);
            }
        }));
    });
}

/// Runs one seed twice, and compares.
#[must_use]
pub fn run_twice(seed: u64, bug: Option<Bug>) -> Outcome {
    let (mut first, second) = (run_seed(seed, bug, false), run_seed(seed, bug, false));
    if first.violation.is_none() && first.mark != second.mark {
        let what = "two runs of one seed left different marks".to_owned();
        first.violation = Some(Violation { invariant: "determinism", what });
    }
    first
}

/// Many seeds.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    /// How many. It may end earlier.
    pub seeds: u64,
    /// Every so many seeds, one is run twice.
    pub twice_every: u64,
    /// On how many threads.
    pub threads: usize,
}

/// What came of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many were run.
    pub seeds: u64,
    /// Their faults.
    pub faults: FaultCounts,
    /// Their virtual time, in microseconds.
    pub virtual_micros: u64,
    /// What must not have happened, with the seed, in order of seeds.
    pub violations: Vec<(u64, Violation)>,
}

impl Tally {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        self.faults.add(&outcome.faults);
        self.virtual_micros += outcome.virtual_micros;
        if let Some(violation) = outcome.violation {
            self.violations.push((seed, violation));
            self.violations.sort_by_key(|(seed, _)| *seed);
        }
    }
}

impl Campaign {
    /// As many threads as there are cores.
    #[must_use]
    pub fn on_all_cores(from: u64, seeds: u64, twice_every: u64) -> Campaign {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Campaign { from, seeds, twice_every, threads }
    }

    /// Runs until all seeds are done, `is_over` says so, or there are violations enough. Each
    /// violation is given to `told` when it is found.
    pub fn run(
        &self,
        is_over: impl Fn() -> bool + Sync,
        told: impl Fn(u64, &Violation) + Sync,
    ) -> Tally {
        let next = AtomicU64::new(0);
        let stopped = AtomicBool::new(false);
        let tally = Mutex::new(Tally::default());
        thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| self.work(&next, &stopped, &tally, &is_over, &told));
            }
        });
        tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(
        &self,
        next: &AtomicU64,
        stopped: &AtomicBool,
        tally: &Mutex<Tally>,
        is_over: &(impl Fn() -> bool + Sync),
        told: &(impl Fn(u64, &Violation) + Sync),
    ) {
        while !stopped.load(Ordering::Relaxed) && !is_over() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.seeds {
                return;
            }
            let seed = self.from.wrapping_add(number);
            let outcome = match number % self.twice_every.max(1) {
                0 => run_twice(seed, None),
                _ => run_seed(seed, None, false),
            };
            if let Some(violation) = &outcome.violation {
                told(seed, violation);
            }
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.add(seed, outcome);
            if tally.violations.len() >= VIOLATIONS_MAX {
                stopped.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Virtual time as people say it.
#[must_use]
pub fn hours_and_minutes(micros: u64) -> String {
    let minutes = micros / END_AT;
    format!("{}h{:02}m", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_violation() {
        let outcome = watched(|| panic!("entry 7 cannot follow 5"));
        let violation = outcome.violation.expect("it panicked");
        assert_eq!(violation.invariant, "panic");
        assert!(violation.what.contains("entry 7 cannot follow 5"), "{}", violation.what);
    }

    #[test]
    fn virtual_time_is_said_in_hours_and_minutes() {
        assert_eq!(hours_and_minutes(5_000 * END_AT), "83h20m");
        assert_eq!(hours_and_minutes(0), "0h00m");
    }
}
