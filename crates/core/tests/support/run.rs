//! Histories, run against the model and against the invariants.

use fencepost_core::{Effects, State};

use super::check::{Check, Checker, Seen, ensure};
use super::drive::Driver;
use super::generate::History;
use super::model::Model;
use super::summary;

/// Compares every answer, revision, key, place and lease with the model's.
pub(crate) fn against_model(history: &History, prepare: impl Fn(&mut State)) -> Check {
    let (mut state, mut model) = (Driver::begin(history), Model::new());
    prepare(&mut state);
    let mut driver = Driver::default();
    for step in &history.entries {
        let entry = driver.entry(step, &state);
        let expected = model.apply(entry.at.0, &entry.commands);
        let effects = state.apply(entry.clone());
        driver.note(&effects.events);
        let told = effects.replies.iter().zip(&expected).zip(&entry.commands);
        for ((reply, expected), command) in told {
            let got = (reply.revision.0, summary::answer(&reply.outcome));
            ensure(got == *expected, || {
                format!("model: {command:?}\n answered {got:?}\n expected {expected:?}")
            })?;
        }
        let (mut got, mut expected) = (summary::view(&state), model.view());
        got.sort();
        expected.sort();
        ensure(got == expected, || {
            format!("model: after {entry:?}\n stands {got:#?}\n expected {expected:#?}")
        })?;
    }
    Ok(())
}

/// Checks every invariant after every entry.
pub(crate) fn against_invariants(history: &History, prepare: impl Fn(&mut State)) -> Check {
    let mut state = Driver::begin(history);
    prepare(&mut state);
    let (mut driver, mut checker) = (Driver::default(), Checker::default());
    for step in &history.entries {
        let entry = driver.entry(step, &state);
        let before = state.clone();
        let (mut ticked, mut effects) = (state.clone(), Effects::default());
        let seen = Seen::apply(&before, &mut ticked, &entry, &mut state, &mut effects);
        checker.check(&seen).map_err(|what| format!("{what}\n after {entry:?}"))?;
        driver.note(&effects.events);
    }
    Ok(())
}
