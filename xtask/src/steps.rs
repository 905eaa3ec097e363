//! A row of named steps: each announced, timed, and the first failure final.

use std::time::{Duration, Instant};

use anyhow::Context as _;

/// The steps run so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Runs one step. An error names the step, so that the last line of a red run says where.
    pub(crate) fn run(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        eprintln!("==> {name}");
        let started = now();
        let outcome = step();
        let took = started.elapsed();
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        eprintln!("<== {name}: {verdict} in {:.1} s", took.as_secs_f64());
        outcome.with_context(|| format!("step `{name}` failed"))?;
        self.done.push((name, took));
        Ok(())
    }

    /// One line that says what was run.
    pub(crate) fn summary(&self) -> String {
        let names: Vec<&str> = self.done.iter().map(|(name, _)| *name).collect();
        let total: Duration = self.done.iter().map(|(_, took)| *took).sum();
        format!(
            "{} steps passed in {:.1} s: {}",
            names.len(),
            total.as_secs_f64(),
            names.join(", ")
        )
    }
}

#[expect(clippy::disallowed_methods, reason = "the times shown to a person, and nothing else")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_failure_names_its_step() {
        let mut steps = Steps::default();
        steps.run("first", || Ok(())).expect("it returns Ok");
        let error = steps.run("second", || bail!("broken")).expect_err("it returns an error");
        assert_eq!(format!("{error:#}"), "step `second` failed: broken");
    }

    #[test]
    fn the_summary_lists_what_passed_in_order() {
        let mut steps = Steps::default();
        steps.run("first", || Ok(())).expect("it returns Ok");
        steps.run("second", || Ok(())).expect("it returns Ok");
        let summary = steps.summary();
        assert!(summary.starts_with("2 steps passed in "), "{summary}");
        assert!(summary.ends_with(": first, second"), "{summary}");
    }
}
