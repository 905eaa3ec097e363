//! cargo-nextest where it is installed, and cargo itself where it is not.
//!
//! Guarantees: what the runner says reaches the terminal as it says it. How many tests have passed is
//! read from its own closing lines.

use std::path::Path;

use crate::command::{Stream, cargo_heard, has_cargo};

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

    /// Runs these tests, and answers with how many have passed, if the runner says it as we know it.
    pub(crate) fn run(
        self,
        root: &Path,
        selection: &[&str],
        env: &[(&str, &str)],
    ) -> anyhow::Result<Option<u64>> {
        let heard = cargo_heard(root, &self.args(selection), env, self.stream())?;
        Ok(self.passed(&heard))
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

    /// How many tests have passed, by the closing lines of the runner, or of each binary.
    fn passed(self, heard: &str) -> Option<u64> {
        let (begin, before) = match self {
            Self::Nextest => ("Summary [", "run: "),
            Self::CargoTest => ("test result: ok. ", "ok. "),
        };
        let plain = without_colors(heard);
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
    fn nextest_says_at_the_end_how_many_have_passed() {
        let plain = "     Summary [   4.2s] 3 tests run: 3 passed (1 slow), 2 skipped\n";
        let color = "\u{1b}[32;1m     Summary\u{1b}[0m [   4.2s] \u{1b}[1m1\u{1b}[0m test run: \
                     \u{1b}[1m1\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped\n";
        assert_eq!(Runner::Nextest.passed(plain), Some(3));
        assert_eq!(Runner::Nextest.passed(color), Some(1));
        assert_eq!(Runner::Nextest.passed("a Summary of something\n"), None);
    }

    #[test]
    fn cargo_says_for_each_binary_how_many_have_passed() {
        let heard = "test a ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\
                     test result: \u{1b}[32mok\u{1b}[0m. 40 passed; 0 failed; 0 ignored\n";
        assert_eq!(Runner::CargoTest.passed(heard), Some(42));
        assert_eq!(Runner::CargoTest.passed("test result: ok. many passed\n"), None);
    }
}
