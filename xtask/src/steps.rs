//! A row of named steps: each announced, timed, and the first failure final.
//!
//! Guarantees: a step that could not run is listed as skipped with its reason, and never as passed.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use fencepost_testkit::{REQUIRE_TOOLS, tools_are_required};

/// How a step ended that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// It could not run, and why.
    Skipped(String),
}

impl From<()> for Outcome {
    fn from((): ()) -> Outcome {
        Outcome::Passed
    }
}

/// The steps run so far.
pub(crate) struct Steps {
    /// Whether a skipped step is a failure.
    are_required: bool,
    passed: Vec<(&'static str, Duration)>,
    skipped: Vec<(&'static str, String)>,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { are_required: tools_are_required(), passed: Vec::new(), skipped: Vec::new() }
    }
}

impl Steps {
    /// Runs one step. An error names the step, so that the last line of a red run says where.
    pub(crate) fn run<T: Into<Outcome>>(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<()> {
        eprintln!("==> {name}");
        let started = now();
        let outcome = step().map(Into::into).and_then(|outcome| self.checked(outcome));
        let took = started.elapsed();
        let seconds = took.as_secs_f64();
        match &outcome {
            Ok(Outcome::Passed) => eprintln!("<== {name}: ok in {seconds:.1} s"),
            Ok(Outcome::Skipped(why)) => eprintln!("<== {name}: SKIPPED: {why}"),
            Err(_) => eprintln!("<== {name}: FAILED in {seconds:.1} s"),
        }
        match outcome.with_context(|| format!("step `{name}` failed"))? {
            Outcome::Passed => self.passed.push((name, took)),
            Outcome::Skipped(why) => self.skipped.push((name, why)),
        }
        Ok(())
    }

    fn checked(&self, outcome: Outcome) -> anyhow::Result<Outcome> {
        match outcome {
            Outcome::Skipped(why) if self.are_required => {
                bail!("{REQUIRE_TOOLS} is set, but it cannot run: {why}")
            }
            other => Ok(other),
        }
    }

    /// One line that says what was run and how long it took, and what was skipped.
    pub(crate) fn summary(&self) -> String {
        let total: Duration = self.passed.iter().map(|(_, took)| *took).sum();
        let shown =
            self.passed.iter().map(|(name, took)| format!("{name} ({:.1} s)", took.as_secs_f64()));
        let shown: Vec<String> = shown.collect();
        let passed = format!(
            "{} steps passed in {:.1} s: {}",
            shown.len(),
            total.as_secs_f64(),
            shown.join(", ")
        );
        if self.skipped.is_empty() {
            return passed;
        }
        let shown = self.skipped.iter().map(|(name, why)| format!("{name} ({why})"));
        let shown: Vec<String> = shown.collect();
        format!("{passed}; {} SKIPPED: {}", shown.len(), shown.join(", "))
    }
}

#[expect(clippy::disallowed_methods, reason = "the times shown to a person, and nothing else")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps {
        Steps { are_required: false, ..Steps::default() }
    }

    fn skip() -> anyhow::Result<Outcome> {
        Ok(Outcome::Skipped("no tool".to_owned()))
    }

    #[test]
    fn a_failure_names_its_step() {
        let mut steps = steps();
        steps.run("first", || Ok(())).expect("it returns Ok");
        let error = steps
            .run("second", || -> anyhow::Result<()> { bail!("broken") })
            .expect_err("it fails");
        assert_eq!(format!("{error:#}"), "step `second` failed: broken");
    }

    #[test]
    fn the_summary_lists_what_passed_in_order() {
        let mut steps = steps();
        steps.run("first", || Ok(())).expect("it returns Ok");
        steps.run("second", || Ok(())).expect("it returns Ok");
        let summary = steps.summary();
        assert!(summary.starts_with("2 steps passed in "), "{summary}");
        assert!(summary.contains(": first ("), "{summary}");
        assert!(summary.contains(" s), second ("), "{summary}");
        assert!(!summary.contains("SKIPPED"), "{summary}");
    }

    #[test]
    fn a_skipped_step_is_not_counted_as_passed() {
        let mut steps = steps();
        steps.run("first", || Ok(())).expect("it returns Ok");
        steps.run("second", skip).expect("a skip is no failure");
        let summary = steps.summary();
        assert!(summary.starts_with("1 steps passed in "), "{summary}");
        assert!(summary.ends_with("; 1 SKIPPED: second (no tool)"), "{summary}");
    }

    #[test]
    fn a_skipped_step_fails_where_tools_are_required() {
        let mut steps = Steps { are_required: true, ..Steps::default() };
        let error = steps.run("first", skip).expect_err("it is required");
        assert!(format!("{error:#}").ends_with("it cannot run: no tool"), "{error:#}");
    }
}
