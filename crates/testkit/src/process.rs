//! A test that looks at the process in which it runs: at its threads, its memory, its descriptors.
//!
//! cargo-nextest gives every test a process of its own. Plain `cargo test` runs all tests of a binary in
//! one, where each would see what the others do.

use std::env;
use std::process::Command;
use std::thread;

/// The variable that is set in a process with one test.
const ALONE: &str = "FENCEPOST_TEST_IS_ALONE";

/// Whether this process runs nothing but the calling test. If not, the test is run in a process of its
/// own, and the caller returns.
///
/// # Panics
///
/// If the test fails there.
#[must_use]
pub fn is_alone() -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let thread = thread::current();
    let path = thread.name().expect("a test runs on a thread with its name");
    let mut command = Command::new(env::current_exe().expect("a test has a file"));
    command.args(["--exact", path, "--nocapture"]).env(ALONE, "1");
    let output = command.output().expect("a test can be run again");
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{path}, alone: {said}");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_asks_for_it_is_alone() {
        if !is_alone() {
            return;
        }
        let arguments: Vec<String> = env::args().collect();
        let path = "process::tests::a_test_that_asks_for_it_is_alone";
        assert_eq!(arguments[1..], ["--exact", path, "--nocapture"]);
    }
}
