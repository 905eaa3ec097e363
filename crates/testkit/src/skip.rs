//! A test that cannot run here.
//!
//! libtest knows no skip: such a test returns early, and counts as passed. So it also appends a line to
//! a file, from which the run learns which of the tests that passed have shown nothing.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, thread};

/// The variable with the path of the file that lists the skipped tests.
pub const SKIPPED_FILE: &str = "FENCEPOST_SKIPPED_TESTS";
/// The variable that turns every skip into a failure.
pub const REQUIRE_TOOLS: &str = "FENCEPOST_REQUIRE_TOOLS";

/// Between the fields of a line.
const SEPARATOR: char = '\t';

/// A test that did not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// Its crate, its binary and its path in there, as in `fence::redis::marks_survive_a_kill`.
    pub test: String,
    /// Why it cannot run, as in `redis-server is missing`.
    pub reason: String,
    /// What to do about it, as in `apt-get install redis-server`.
    pub remedy: String,
}

impl Skipped {
    /// Reads a line of the file.
    #[must_use]
    pub fn parse(line: &str) -> Option<Skipped> {
        let mut fields = line.split(SEPARATOR).map(str::to_owned);
        let skipped =
            Skipped { test: fields.next()?, reason: fields.next()?, remedy: fields.next()? };
        fields.next().is_none().then_some(skipped)
    }

    fn line(&self) -> String {
        let clean = |field: &str| field.replace(char::is_control, " ");
        let fields = [&self.test, &self.reason, &self.remedy].map(|field| clean(field));
        fields.join(&SEPARATOR.to_string()) + "\n"
    }

    /// One write, so that the lines of tests that run at once do not mix.
    fn append(&self, file: &Path) -> io::Result<()> {
        OpenOptions::new().create(true).append(true).open(file)?.write_all(self.line().as_bytes())
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}: {})", self.test, self.reason, self.remedy)
    }
}

/// Reports that the running test cannot run here. The test returns right after.
///
/// The name of the test is that of its thread, so this is called on the thread on which libtest runs it.
///
/// # Panics
///
/// If every tool is required, if this is no thread of a test, or if the file cannot be written.
pub fn skip(reason: &str, remedy: &str) {
    let test = name_of_the_running_test().expect("a test skips itself on its own thread");
    let skipped = Skipped { test, reason: reason.to_owned(), remedy: remedy.to_owned() };
    report(&skipped, tools_are_required(), env::var_os(SKIPPED_FILE).map(PathBuf::from));
}

/// Whether a skip is a failure.
#[must_use]
pub fn tools_are_required() -> bool {
    crate::is_on(REQUIRE_TOOLS)
}

fn report(skipped: &Skipped, is_failure: bool, file: Option<PathBuf>) {
    assert!(!is_failure, "{skipped}\n{REQUIRE_TOOLS} is set, so a skipped test is a failure");
    eprintln!("SKIPPED: {skipped}");
    if let Some(file) = file {
        skipped.append(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    }
}

/// `crate::binary::path`, and `crate::path` in the binary that bears the name of the crate.
fn name_of_the_running_test() -> Option<String> {
    let thread = thread::current();
    let path = thread.name().filter(|&name| name != "main")?;
    let package = env::var("CARGO_PKG_NAME").ok()?;
    let file = env::current_exe().ok()?;
    Some(full_name(&package, file.file_name()?.to_str()?, path))
}

fn full_name(package: &str, file: &str, path: &str) -> String {
    let room = package.strip_prefix("fencepost-").unwrap_or(package);
    // Behind the last hyphen cargo puts a hash.
    let binary = file.rsplit_once('-').map_or(file, |(binary, _)| binary);
    if binary == package.replace('-', "_") {
        return format!("{room}::{path}");
    }
    format!("{room}::{binary}::{path}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn skipped() -> Skipped {
        let [test, reason, remedy] = ["a::b::c", "redis-server is missing", "install it"];
        Skipped { test: test.into(), reason: reason.into(), remedy: remedy.into() }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        assert_eq!(Skipped::parse(skipped().line().trim_end()), Some(skipped()));
        assert_eq!(skipped().to_string(), "a::b::c (redis-server is missing: install it)");
        assert_eq!(Skipped::parse("a\tb"), None);
        assert_eq!(Skipped::parse("a\tb\tc\td"), None);
    }

    #[test]
    fn a_reason_of_many_lines_stays_one_line() {
        let odd = Skipped { reason: "strace:\nnot\tpermitted".into(), ..skipped() };
        assert_eq!(odd.line().lines().count(), 1);
        let read = Skipped::parse(odd.line().trim_end()).expect("it has three fields");
        assert_eq!(read.reason, "strace: not permitted");
    }

    #[test]
    fn every_skip_is_appended_to_the_file() {
        let file = env::temp_dir().join(format!("fencepost-skipped-{}", std::process::id()));
        report(&skipped(), false, Some(file.clone()));
        report(&skipped(), false, Some(file.clone()));
        let text = fs::read_to_string(&file).expect("it was written");
        fs::remove_file(&file).expect("it is ours");
        assert_eq!(text, skipped().line().repeat(2));
    }

    #[test]
    #[should_panic(expected = "a skipped test is a failure")]
    fn a_skip_fails_where_tools_are_required() {
        report(&skipped(), true, None);
    }

    #[test]
    fn the_name_has_crate_binary_and_path() {
        let named = |file| full_name("fencepost-fence", file, "a::b");
        assert_eq!(named("redis-0123456789abcdef"), "fence::redis::a::b");
        assert_eq!(named("fencepost_fence-0123456789abcdef"), "fence::a::b");
    }

    #[test]
    fn the_running_test_is_named_by_its_thread() {
        let name = name_of_the_running_test().expect("this is a test");
        assert_eq!(name, "testkit::skip::tests::the_running_test_is_named_by_its_thread");
    }
}
