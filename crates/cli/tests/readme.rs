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

/// What a recipe's program does, and what three machines that run the recipe write together.
const PROGRAMS: [(&str, &str, &[&str]); 4] = [
    ("migrate.sh", "echo migrated", &["migrated"]),
    ("report.sh", "echo reported", &["reported"]),
    ("rebuild.sh", "echo rebuilt; touch prices.csv", &["rebuilt"]),
    ("lead.sh", "mkdir led || echo together; echo leads; rmdir led", &["leads", "leads", "leads"]),
];
/// The day that machines see: a recipe that asks for it must not depend on when this test runs.
const TODAY: &str = "echo 2026-11-18";

/// A program that machines find beside their work.
fn install(server: &Server, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;

    let path = server.file(name);
    std::fs::write(&path, script).expect("there is room");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("it is ours");
}

/// What `count` machines write together that run `line` at the same time.
fn run(server: &Server, line: &str, count: usize) -> Vec<String> {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_fencepost")).parent();
    let binary = binary.expect("it has a folder").display();
    let here = server.file("");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{binary}:{path}", here.display());
    let machine = |_| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).current_dir(&here);
        shell.env("FENCEPOST_ENDPOINTS", server.endpoint()).env("PATH", &path);
        shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        shell.spawn().expect("there is a shell")
    };
    let machines: Vec<_> = (0..count).map(machine).collect();
    let mut written = Vec::new();
    for machine in machines {
        let output = machine.wait_with_output().expect("it ends");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {told}");
        let lines = String::from_utf8_lossy(&output.stdout);
        written.extend(lines.lines().map(str::to_owned));
    }
    written
}

/// A server, and beside it every program that the recipes call. The keys that they need are set.
fn with_recipes() -> Server {
    let server = Server::start();
    for (name, script, _) in PROGRAMS {
        install(&server, name, &format!("#!/bin/sh\n{script}\n"));
    }
    install(&server, "date", &format!("#!/bin/sh\n{TODAY}\n"));
    let (_, once) = RECIPES.split_once("```sh\n#!").expect("the page has a script");
    let (once, _) = once.split_once("```").expect("it ends");
    install(&server, "once.sh", &format!("#!{once}"));
    let old = std::fs::File::create(server.file("source.csv")).expect("there is room");
    old.set_modified(std::time::UNIX_EPOCH).expect("it is ours");
    for line in RECIPES.lines().filter(|line| line.starts_with("fencepost kv put ")) {
        run(&server, line, 1);
    }
    server
}

/// The line of the recipe that calls this program.
fn recipe(program: &str) -> &'static str {
    let mut lines = RECIPES.lines().filter(|line| line.starts_with("fencepost "));
    lines.find(|line| line.contains(program)).expect("there is such a recipe")
}

// Requirements: S4-001.
#[test]
fn the_recipes_work_as_they_are_written() {
    let server = with_recipes();
    for (program, _, expected) in PROGRAMS {
        assert_eq!(run(&server, recipe(program), 3), expected, "{program}");
    }
}

// Requirements: S4-001.
#[test]
fn a_later_machine_finds_the_work_of_a_recipe_done() {
    let server = with_recipes();
    for program in ["migrate.sh", "report.sh"] {
        let line = recipe(program);
        assert_eq!(run(&server, line, 1).len(), 1, "{program}");
        // Nothing is left in the directory: what was done is known to the cluster alone.
        assert_eq!(run(&server, line, 2), [""; 0], "{program}");
    }
    install(&server, "date", "#!/bin/sh\necho 2026-11-17\n");
    assert_eq!(run(&server, recipe("report.sh"), 1), [""; 0], "a clock that is a day behind");
    install(&server, "date", "#!/bin/sh\necho 2026-11-19\n");
    assert_eq!(run(&server, recipe("report.sh"), 2), ["reported"], "the next day");
    let next = recipe("migrate.sh").replace(" 7 ", " 10 ");
    assert_eq!(run(&server, &next, 2), ["migrated"], "the next version, which is no text");
}

// Requirements: S4-001.
#[test]
fn a_job_that_fails_leaves_its_work_to_the_next() {
    let server = with_recipes();
    let fails_once = "#!/bin/sh\nmkdir begun 2>/dev/null && exit 5\necho migrated\n";
    install(&server, "migrate.sh", fails_once);
    let line = format!("{} || echo $?", recipe("migrate.sh"));
    let mut written = run(&server, &line, 2);
    written.sort();
    assert_eq!(written, ["5", "migrated"]);
}

// Requirements: S4-001.
#[test]
fn a_recipe_runs_nothing_if_its_mark_cannot_be_read() {
    let server = with_recipes();
    run(&server, "fencepost kv del done/schema", 1);
    let line = format!("{} || echo $?", recipe("migrate.sh"));
    assert_eq!(run(&server, &line, 1), ["1"]);
}
