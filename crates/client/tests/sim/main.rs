//! The session in a bad world: contention, partitions, pauses, clocks that differ, frames that are
//! lost, late or double, leaders that change. Everything follows from a seed.
//!
//! Beside it, single schedules to the millisecond: `members.rs`, `bounds.rs`,
//! `leases.rs`, `incarnations.rs` and `set_back.rs`.

mod bounds;
mod incarnations;
mod leases;
mod members;
mod set_back;
#[path = "../support/mod.rs"]
mod support;
mod town;
#[path = "../world/mod.rs"]
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use support::store::Mistake;
use world::{Options, World};

/// Runs one world, and says what happened in it if it goes wrong.
fn run(options: &Options) -> World {
    let mut world = World::new(options.clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    if outcome.is_err() {
        let lines = if number("FENCEPOST_SIM_SEED").is_some() { usize::MAX } else { 60 };
        let from = world.log.len().saturating_sub(lines);
        let log = world.log[from..].join("\n");
        panic!("seed {} went wrong; the end of its story:\n{log}", options.seed);
    }
    world
}

/// Which worlds to look at: 300 of them, as many as `FENCEPOST_SIM_SEEDS` says, or only the one that
/// `FENCEPOST_SIM_SEED` names, with its whole story.
fn seeds() -> std::ops::Range<u64> {
    match number("FENCEPOST_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FENCEPOST_SIM_SEEDS").unwrap_or(300),
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// How many of the worlds a planted mistake shows in.
fn findings(change: impl Fn(&mut Options), seeds: u64) -> u64 {
    let went_wrong = |seed: &u64| {
        let mut options = Options::seed(*seed);
        change(&mut options);
        let mut world = World::new(options);
        catch_unwind(AssertUnwindSafe(|| world.run())).is_err()
    };
    (0..seeds).filter(went_wrong).count() as u64
}

// Requirements: S2-002, S2-004, S2-021, S2-022, S2-024, S2-025, S4-002, S4-005.
#[test]
fn no_two_guards_are_valid_at_once_whatever_the_network_does() {
    let (mut acquired, mut losses, mut moves) = (0, 0, 0);
    for seed in seeds() {
        let world = run(&Options::seed(seed));
        acquired += world.check.acquired;
        losses += world.check.losses;
        moves += world.check.moves;
    }
    if number("FENCEPOST_SIM_SEED").is_some() {
        return;
    }
    // The worlds are worth something only if locks change hands and are lost, and clients move.
    assert!(acquired > 10_000, "only {acquired} locks were acquired");
    assert!(losses > 300, "only {losses} locks were lost");
    assert!(moves > 1_000, "only {moves} times did a session move");
}

#[test]
fn nothing_leaks_and_order_is_kept_even_with_clocks_out_of_bounds() {
    for seed in 1_000..1_100 {
        run(&Options { clocks_out_of_bounds: true, ..Options::seed(seed) });
    }
}

#[test]
fn without_faults_nothing_is_ever_lost() {
    for seed in 2_000..2_030 {
        let world = run(&Options { faults: false, ..Options::seed(seed) });
        assert_eq!(world.check.losses, 0, "seed {seed}:\n{}", world.log.join("\n"));
    }
}

// Requirements: S2-025.
#[test]
fn many_clients_on_one_lock_take_turns() {
    for seed in 3_000..3_010 {
        run(&Options { clients: 12, workers: 4, locks: 1, ..Options::seed(seed) });
    }
}

// Requirements: S2-022.
#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 4_000..4_005 {
        let (one, two) = (run(&Options::seed(seed)), run(&Options::seed(seed)));
        assert_eq!(one.log, two.log);
    }
}

// Requirements: S2-022.
#[test]
fn a_service_that_breaks_its_word_is_noticed() {
    for mistake in [Mistake::EndsEarly, Mistake::GrantsTwice] {
        let found = findings(|options| options.mistake = mistake, 20);
        assert!(found > 0, "{mistake:?} went unnoticed");
    }
}
