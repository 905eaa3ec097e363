//! What the README says must be true.

#[path = "lock_support/mod.rs"]
mod lock_support;

use lock_support::Server;

const README: &str = include_str!("../../../README.md");
const EXAMPLE: &str = include_str!("../../client/examples/nightly.rs");

mod example {
    include!("../../client/examples/nightly.rs");

    /// The example as it stands in the README.
    pub(super) fn run() -> Result<(), Box<dyn std::error::Error>> {
        main()
    }
}

/// The first block of this language.
fn block(language: &str) -> &'static str {
    let fence = format!("```{language}\n");
    let (_, rest) = README.split_once(&fence).expect("there is such a block");
    rest.split_once("```").expect("it ends").0
}

#[test]
fn the_example_is_the_one_that_is_compiled_and_it_runs() {
    // The example runs in a process of its own, because it reads the environment.
    if std::env::var_os("FENCEPOST_EXAMPLE").is_some() {
        example::run().expect("the server is there");
        return;
    }
    assert_eq!(block("rust"), EXAMPLE);
    let server = Server::start();
    let this = std::env::current_exe().expect("this test runs");
    let mut command = std::process::Command::new(this);
    command.args(["--exact", "the_example_is_the_one_that_is_compiled_and_it_runs", "--nocapture"]);
    command.env("FENCEPOST_EXAMPLE", "1").env("FENCEPOST_ENDPOINTS", server.endpoint());
    let output = command.output().expect("this test can be run again");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("writing with token "), "{told}");
}

#[test]
fn the_tour_works_as_it_is_written() {
    let server = Server::start();
    let tour = block("console");
    let mut tokens = Vec::new();
    for line in tour.lines().filter_map(|line| line.strip_prefix("$ fencepost ")) {
        let mut shell = std::process::Command::new("sh");
        let program = env!("CARGO_BIN_EXE_fencepost");
        shell.args(["-c", &format!("{program} {line}")]);
        shell.env("FENCEPOST_ENDPOINTS", server.endpoint());
        let output = shell.output().expect("there is a shell");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {told}");
        let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        tokens.extend(printed.strip_prefix("token ").and_then(|token| token.parse::<i64>().ok()));
    }
    assert_eq!(tokens.len(), 2, "the tour takes the lock twice");
    assert!(tokens[0] < tokens[1]);
}
