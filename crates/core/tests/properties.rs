//! Random histories, against a naive model and against the invariants.

mod support;

use fencepost_core::{Entry, Millis, Restore, State};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use support::check::{Check, Checker, Seen, ensure};
use support::drive::Driver;
use support::generate::{History, Kind, history};
use support::run::{against_invariants, against_model};

/// So many cases, unless `PROPTEST_CASES` asks for another number.
fn config(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    let persistence = FileFailurePersistence::WithSource("regressions");
    ProptestConfig {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { cases },
        max_shrink_iters: 50_000,
        failure_persistence: Some(Box::new(persistence)),
        ..asked
    }
}

fn copy(state: &State) -> Result<State, String> {
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    State::decode(&bytes).map_err(|error| format!("I2: no copy of itself: {error:?}"))
}

/// I2: a replica that begins anew from snapshots stays equal to one that applied every entry.
fn snapshots_are_equal(history: &History) -> Check {
    let mut state = Driver::begin(history);
    let mut replica = state.clone();
    let mut driver = Driver::default();
    for step in &history.entries {
        if step.snapshot {
            replica = copy(&replica)?;
        }
        let entry = driver.entry(step, &state);
        let effects = state.apply(entry.clone());
        let same = replica.apply(entry.clone());
        driver.note(&effects.events);
        ensure(effects == same, || {
            format!("I2: {entry:?} had other effects\n {effects:#?}\n {same:#?}")
        })?;
        ensure(state.hash() == replica.hash(), || format!("I2: other states after {entry:?}"))?;
    }
    Ok(())
}

/// Equal entries have equal effects, however often they are applied.
fn effects_are_equal(history: &History) -> Check {
    let mut state = Driver::begin(history);
    let mut driver = Driver::default();
    let mut log: Vec<Entry> = Vec::new();
    let mut effects = Vec::new();
    for step in &history.entries {
        let entry = driver.entry(step, &state);
        let done = state.apply(entry.clone());
        driver.note(&done.events);
        effects.push(done);
        log.push(entry);
    }
    let mut second = Driver::begin(history);
    for (entry, done) in log.into_iter().zip(effects) {
        ensure(second.apply(entry.clone()) == done, || format!("{entry:?} had other effects"))?;
    }
    ensure(state.hash() == second.hash(), || "other states at the end".into())
}

/// I6 and all the others, through restores from a backup of an earlier moment.
fn restores_are_safe(history: &History) -> Check {
    let mut state = Driver::begin(history);
    let (mut driver, mut checker) = (Driver::default(), Checker::default());
    let mut restored = 0;
    for (at, step) in history.entries.iter().enumerate() {
        if step.snapshot && at % 8 == 7 && restored < 3 {
            let inputs = Restore {
                unix_ms: 1_000 * (1 + restored),
                incarnation: 1 + restored,
                grant_after: Some(Millis(1)),
                ..Restore::default()
            };
            let after = copy(&state)?.restore(inputs).map_err(|no| format!("{no}"))?;
            checker.restored(&state, &after)?;
            (state, restored) = (copy(&after)?, restored + 1);
        }
        let entry = driver.entry(step, &state);
        let before = state.clone();
        let (mut ticked, mut effects) = (state.clone(), Default::default());
        let seen = Seen::apply(&before, &mut ticked, &entry, &mut state, &mut effects);
        checker.check(&seen).map_err(|what| format!("{what}\n after {entry:?}"))?;
        driver.note(&effects.events);
    }
    Ok(())
}

/// Packing commands into one entry changes nothing, as long as nothing is left over that is due.
fn packing_is_neutral(history: &History) -> Check {
    let mut packed = Driver::begin(history);
    let mut single = packed.clone();
    let mut driver = Driver::default();
    for step in &history.entries {
        let entry = driver.entry(step, &packed);
        let effects = packed.apply(entry.clone());
        driver.note(&effects.events);
        let mut events = single.apply(Entry { at: entry.at, commands: Vec::new() }).events;
        let mut replies = Vec::new();
        for command in entry.commands.clone() {
            let now = single.now();
            if single.next_deadline().is_some_and(|next| next <= now) {
                return Ok(());
            }
            let done = single.apply(Entry { at: entry.at, commands: vec![command] });
            events.extend(done.events);
            replies.extend(done.replies);
        }
        let same = events == effects.events && replies == effects.replies;
        ensure(same, || format!("packed, {entry:?} had other effects"))?;
        ensure(packed.hash() == single.hash(), || format!("other states after {entry:?}"))?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(1_500))]

    #[test]
    fn the_model_agrees(history in history(Kind::Modelled, 60)) {
        against_model(&history, |_| {}).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn the_invariants_hold(history in history(Kind::Wild, 60)) {
        against_invariants(&history, |_| {}).map_err(TestCaseError::fail)?;
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn the_invariants_hold_in_calm_histories(history in history(Kind::Modelled, 60)) {
        against_invariants(&history, |_| {}).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn snapshots_keep_replicas_equal(history in history(Kind::Wild, 60)) {
        snapshots_are_equal(&history).map_err(TestCaseError::fail)?;
    }

    // Requirements: S0-127.
    #[test]
    fn a_log_has_one_meaning(history in history(Kind::Wild, 60)) {
        effects_are_equal(&history).map_err(TestCaseError::fail)?;
    }

    // Requirements: S1-076.
    #[test]
    fn restores_never_repeat_a_token(history in history(Kind::Wild, 60)) {
        restores_are_safe(&history).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn packing_changes_nothing(history in history(Kind::Wild, 60)) {
        packing_is_neutral(&history).map_err(TestCaseError::fail)?;
    }
}
