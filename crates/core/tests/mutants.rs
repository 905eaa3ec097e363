//! Every planted bug is caught by the machinery of the property tests, from a fixed seed.

#[expect(dead_code, reason = "the other property tests use more of it")]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use fencepost_core::{Mutant, State};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use support::check::Check;
use support::generate::{Kind, history};
use support::run::{against_invariants, against_model};

/// A bug that so many histories do not show counts as a survivor.
const HISTORIES_MAX: usize = 1_000;

/// Runs histories until one shows a bug. Answers with what was found, or nothing.
fn first_finding(mutant: Option<Mutant>) -> Option<String> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (wild, modelled) = (history(Kind::Wild, 60), history(Kind::Modelled, 60));
    let plant = |state: &mut State| {
        if let Some(mutant) = mutant {
            state.plant(mutant);
        }
    };
    for at in 0..HISTORIES_MAX {
        let wild = wild.new_tree(&mut runner).expect("a history can be made").current();
        let modelled = modelled.new_tree(&mut runner).expect("a history can be made").current();
        let found = guarded(|| against_invariants(&wild, plant))
            .and_then(|()| guarded(|| against_model(&modelled, plant)));
        if let Err(finding) = found {
            return Some(format!("history {at}: {finding}"));
        }
    }
    None
}

/// An assertion that stops the state is a finding too.
fn guarded(check: impl FnOnce() -> Check) -> Check {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|_| Err("an assertion failed".into()))
}

macro_rules! mutants {
    ($($test:ident => $mutant:ident,)*) => {
        $(
            #[test]
            fn $test() {
                let finding = first_finding(Some(Mutant::$mutant));
                let finding = finding.expect("the planted bug must be caught");
                println!("caught: {finding}");
            }
        )*

        #[test]
        fn every_mutant_is_listed() {
            assert_eq!([$(Mutant::$mutant),*], Mutant::ALL);
        }
    };
}

mutants! {
    due_lease_serves => DueLeaseServes,
    expiry_keeps_waiters => ExpiryKeepsWaiters,
    token_per_key => TokenPerKey,
    last_come_first_served => LastComeFirstServed,
    release_ignores_token => ReleaseIgnoresToken,
    repeat_acts_again => RepeatActsAgain,
    cancel_forgotten => CancelForgotten,
    put_moves_forward => PutMovesForward,
    permit_overtakes => PermitOvertakes,
    shared_joins_exclusive => SharedJoinsExclusive,
    permit_too_many => PermitTooMany,
    renew_shortens => RenewShortens,
    renew_ignores_epoch => RenewIgnoresEpoch,
    try_stays => TryStays,
    revision_per_key => RevisionPerKey,
    time_runs_back => TimeRunsBack,
    group_piecemeal => GroupPiecemeal,
    floor_too_high => FloorTooHigh,
    wait_never_ends => WaitNeverEnds,
    reentry_queues_again => ReentryQueuesAgain,
}

#[test]
fn without_a_mutant_nothing_is_found() {
    assert_eq!(first_finding(None), None);
}
