//! The tests that could not run here.
//!
//! Owns: the file to which they append. Guarantees: each is listed once, by its name, and is not counted
//! as passed, although the runner does.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use fencepost_testkit::Skipped;

/// The file of one run.
pub(crate) struct Skips(PathBuf);

impl Skips {
    /// An empty file. Its path is absolute: every test runs in the folder of its crate.
    pub(crate) fn begin(folder: &Path) -> anyhow::Result<Skips> {
        fs::create_dir_all(folder)?;
        let file = fs::canonicalize(folder)?.join("skipped-tests.txt");
        fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Skips(file))
    }

    pub(crate) fn file(&self) -> &Path {
        &self.0
    }

    /// The skipped tests, each once.
    pub(crate) fn read(&self) -> anyhow::Result<BTreeSet<Skipped>> {
        let text = fs::read_to_string(&self.0)?;
        let mut tests = BTreeSet::new();
        for line in text.lines() {
            let skipped = Skipped::parse(line).ok_or_else(|| anyhow!("no skipped test: {line}"))?;
            if !tests.iter().any(|known: &Skipped| known.test == skipped.test) {
                tests.insert(skipped);
            }
        }
        Ok(tests)
    }
}

/// The last lines of a run. `passed` is the runner's count, in which the skipped tests are; none if it
/// could not be read.
pub(crate) fn summary(passed: Option<u64>, skipped: &BTreeSet<Skipped>) -> String {
    let truly = match passed {
        Some(passed) => grouped(passed.saturating_sub(skipped.len() as u64)),
        None => "All other".to_owned(),
    };
    if skipped.is_empty() {
        return format!("{truly} tests passed, none was skipped");
    }
    let lines: Vec<String> = skipped.iter().map(|one| format!("\n    {one}")).collect();
    format!("{truly} tests passed, {} SKIPPED:{}", skipped.len(), lines.concat())
}

/// With a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    fn skipped(test: &str) -> Skipped {
        let [reason, remedy] = ["etcd is missing", "install it"].map(str::to_owned);
        Skipped { test: test.to_owned(), reason, remedy }
    }

    #[test]
    fn skipped_tests_are_taken_from_the_passed_ones() {
        let two = BTreeSet::from([skipped("a::b"), skipped("a::c")]);
        assert_eq!(
            summary(Some(1_206), &two),
            "1,204 tests passed, 2 SKIPPED:\n    \
             a::b (etcd is missing: install it)\n    a::c (etcd is missing: install it)"
        );
        assert_eq!(summary(Some(7), &BTreeSet::new()), "7 tests passed, none was skipped");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn a_test_that_is_skipped_twice_is_listed_once() {
        let folder = env::temp_dir().join(format!("fencepost-skips-{}", std::process::id()));
        let skips = Skips::begin(&folder).expect("the folder is ours");
        let lines = "a::b\tetcd is missing\tinstall it\n\
                     a::b\tetcdctl is missing\tinstall it\n\
                     a::c\tetcd is missing\tinstall it\n";
        fs::write(skips.file(), lines).expect("the folder is ours");
        let read = skips.read().expect("it is readable");
        fs::write(skips.file(), "a::b\n").expect("the folder is ours");
        let broken = skips.read();
        fs::remove_dir_all(&folder).expect("the folder is ours");
        assert_eq!(read, BTreeSet::from([skipped("a::b"), skipped("a::c")]));
        assert!(broken.is_err());
    }
}
