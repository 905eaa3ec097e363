//! cargo-nextest where it is installed, and cargo itself where it is not.
//!
//! Guarantees: the output of the runner reaches the terminal unchanged. The number of passed tests is read
//! from the closing lines of the runner.

use std::path::Path;

use crate::command::{Stream, cargo_captured, has_cargo};

/// What runs the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Runner {
    /// A process for each test
    Nextest,
    /// A process for all tests of a binary
    #[value(name = "cargo")]
    CargoTest,
}

impl Runner {
    pub(crate) fn choose(root: &Path) -> Self {
        if has_cargo(root, "nextest") { Self::Nextest } else { Self::CargoTest }
    }

    /// Runs these tests, and returns how many passed; none if the closing lines cannot be parsed.
    pub(crate) fn run(
        self,
        root: &Path,
        selection: &[&str],
        env: &[(&str, &str)],
    ) -> anyhow::Result<Option<u64>> {
        let output = cargo_captured(root, &self.args(selection), env, self.stream())?;
        Ok(self.passed(&output))
    }

    fn args<'a>(self, selection: &[&'a str]) -> Vec<&'a str> {
        let verb: &[&str] = match self {
            Self::Nextest => &["nextest", "run"],
            Self::CargoTest => &["test"],
        };
        verb.iter().chain(selection).copied().collect()
    }

    /// Where the closing lines are written.
    fn stream(self) -> Stream {
        match self {
            Self::Nextest => Stream::Stderr,
            Self::CargoTest => Stream::Stdout,
        }
    }

    /// The number of passed tests in the closing lines of the run, or of each binary.
    fn passed(self, output: &str) -> Option<u64> {
        let (begin, before) = match self {
            Self::Nextest => ("Summary [", "run: "),
            Self::CargoTest => ("test result: ok. ", "ok. "),
        };
        let plain = without_colors(output);
        let lines = plain.lines().map(str::trim).filter(|line| line.starts_with(begin));
        let counts = lines.map(|line| {
            let (_, rest) = line.split_once(before)?;
            rest.split_once(" passed")?.0.parse().ok()
        });
        let counts: Option<Vec<u64>> = counts.collect();
        counts.filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum())
    }
}

/// Without the sequences that color a terminal: from the escape up to a letter.
fn without_colors(text: &str) -> String {
    let mut is_inside = false;
    let is_shown = |letter: &char| {
        let was_inside = is_inside;
        is_inside = *letter == '\u{1b}' || (is_inside && !letter.is_ascii_alphabetic());
        !was_inside && !is_inside
    };
    text.chars().filter(is_shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_runners_get_the_same_selection() {
        let selection = ["--workspace", "--locked"];
        let nextest = Runner::Nextest.args(&selection).join(" ");
        let plain = Runner::CargoTest.args(&selection).join(" ");
        assert_eq!(nextest, "nextest run --workspace --locked");
        assert_eq!(plain, "test --workspace --locked");
    }

    #[test]
    fn passed_tests_are_read_from_the_summary_of_nextest() {
        let plain = "     Summary [   4.2s] 3 tests run: 3 passed (1 slow), 2 skipped\n";
        let color = "\u{1b}[32;1m     Summary\u{1b}[0m [   4.2s] \u{1b}[1m1\u{1b}[0m test run: \
                     \u{1b}[1m1\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped\n";
        assert_eq!(Runner::Nextest.passed(plain), Some(3));
        assert_eq!(Runner::Nextest.passed(color), Some(1));
        assert_eq!(Runner::Nextest.passed("a Summary of something\n"), None);
    }

    #[test]
    fn passed_tests_of_all_binaries_are_added_up() {
        let output = "test a ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\
                     test result: \u{1b}[32mok\u{1b}[0m. 40 passed; 0 failed; 0 ignored\n";
        assert_eq!(Runner::CargoTest.passed(output), Some(42));
        assert_eq!(Runner::CargoTest.passed("test result: ok. many passed\n"), None);
    }
}
