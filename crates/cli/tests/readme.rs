//! What the README and the recipes say must be true.

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

const RECIPES: &str = include_str!("../../../docs/recipes.md");

/// What a recipe's script does, and what three machines that run the recipe write together.
const SCRIPTS: [(&str, &str, &[&str]); 4] = [
    ("migrate.sh", "echo migrated", &["migrated"]),
    ("report.sh", "test -e report || { echo reported; touch report; }", &["reported"]),
    ("rebuild.sh", "echo rebuilt; touch prices.csv", &["rebuilt"]),
    ("lead.sh", "mkdir led || echo together; echo leads; rmdir led", &["leads", "leads", "leads"]),
];

#[test]
fn the_recipes_work_as_they_are_written() {
    use std::os::unix::fs::PermissionsExt as _;

    let server = Server::start();
    for (name, script, _) in SCRIPTS {
        let path = server.file(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("there is room");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("it is ours");
    }
    let old = std::fs::File::create(server.file("source.csv")).expect("there is room");
    old.set_modified(std::time::UNIX_EPOCH).expect("it is ours");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_fencepost")).parent();
    let binary = binary.expect("it has a folder").display();
    let path = format!("{binary}:{}", std::env::var("PATH").unwrap_or_default());
    let recipes: Vec<&str> =
        RECIPES.lines().filter(|line| line.starts_with("fencepost ")).collect();
    assert_eq!(recipes.len(), SCRIPTS.len());
    for (recipe, (name, _, expected)) in recipes.into_iter().zip(SCRIPTS) {
        assert!(recipe.contains(name), "{recipe}");
        let machine = || {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", recipe]).current_dir(server.file(""));
            shell.env("FENCEPOST_ENDPOINTS", server.endpoint()).env("PATH", &path);
            shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            shell.spawn().expect("there is a shell")
        };
        let machines = [machine(), machine(), machine()];
        let mut written = Vec::new();
        for machine in machines {
            let output = machine.wait_with_output().expect("it ends");
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{recipe}: {told}");
            let lines = String::from_utf8_lossy(&output.stdout);
            written.extend(lines.lines().map(str::to_owned));
        }
        assert_eq!(written, expected, "{recipe}");
    }
}
