//! Whole clusters in virtual time: seeds that nobody has run before, seeds that found a bug once,
//! and bugs that were planted to be found.

mod revision;

use std::fs;
use std::path::Path;

use fencepost_sim::bug::{Bug, WorldBug};
use fencepost_sim::fault::FaultKind;
use fencepost_sim::mutants::{SEEDS_MAX, hunt};
use fencepost_sim::run::{Campaign, Tally, hours_and_minutes, run_seed, run_twice};

/// Seeds that are run once.
const FRESH_SEEDS: u64 = 500;
/// Of these, so many are run twice.
const TWICE_EVERY: u64 = 25;

fn report(tally: &Tally) -> String {
    let found = tally.violations.iter().map(|(seed, violation)| {
        format!("\nseed {seed}: {}: {}", violation.invariant, violation.what)
    });
    found.collect()
}

// Requirements: S1-036, S1-037, S1-038, S1-077, S1-079, S1-096, S2-002, S2-004, S2-012, S2-021, S2-024, S2-025, S4-002, S4-005, S4-027, S4-034.
#[test]
fn fresh_seeds_show_no_violation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let from = revision::first_fresh_seed(&root);
    println!("fresh seeds: {FRESH_SEEDS} from {from} on");
    let tally = Campaign::on_all_cores(from, FRESH_SEEDS, TWICE_EVERY).run(|| false, |_, _| ());
    let (faults, length) = (tally.faults.total(), hours_and_minutes(tally.virtual_micros));
    println!("{} seeds, {faults} faults, {length}", tally.seeds);
    assert!(tally.violations.is_empty(), "{}", report(&tally));
    assert_eq!(tally.seeds, FRESH_SEEDS);
    assert!(faults >= 10 * FRESH_SEEDS, "only {faults} faults in {FRESH_SEEDS} seeds");
    for kind in FaultKind::ALL {
        assert!(tally.faults.of(kind) > 0, "{kind:?} was never done: {}", tally.faults);
    }
}

#[test]
fn seeds_that_found_a_bug_once_find_none_now() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions.txt");
    let text = fs::read_to_string(path).expect("the list is a part of the crate");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    for line in lines {
        let seed = line.split_whitespace().next().and_then(|word| word.parse().ok());
        let seed = seed.unwrap_or_else(|| panic!("a line must begin with a seed: {line}"));
        let violation = run_seed(seed, None, false).violation;
        assert_eq!(violation, None, "{line}");
    }
}

// Requirements: S3-001.
#[test]
fn two_runs_of_one_seed_do_the_same_and_two_seeds_do_not() {
    let marks: Vec<[u8; 32]> = (1..=4).map(|seed| run_seed(seed, None, false).mark).collect();
    for (seed, mark) in (1..).zip(&marks) {
        let again = run_twice(seed, None);
        assert_eq!((again.violation, again.mark), (None, *mark), "seed {seed}");
    }
    assert_ne!(marks[0], marks[1]);
}

/// A sample of each kind; `cargo xtask sim --mutants` hunts them all.
// Requirements: S2-024.
#[test]
fn planted_bugs_are_caught() {
    let bugs = [
        Bug::World(WorldBug::SyncSkipped),
        Bug::World(WorldBug::StoreIgnoresTokens),
        Bug::Node(fencepost_node::mutant::Mutant::MessageBeforeSync),
        Bug::Node(fencepost_node::mutant::Mutant::ReadWithoutQuorum),
        Bug::Node(fencepost_node::mutant::Mutant::WitnessIgnored),
        Bug::Core(fencepost_core::Mutant::TokenPerKey),
        Bug::Core(fencepost_core::Mutant::LastComeFirstServed),
    ];
    for bug in bugs {
        let hunt = hunt(bug, 1, SEEDS_MAX);
        assert!(hunt.caught.is_some(), "{bug} survived {SEEDS_MAX} seeds");
    }
}
