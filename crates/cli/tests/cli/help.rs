//! Help texts, completions and manual pages. `SNAPSHOTS=overwrite` writes the expected texts anew.

use snapbox::{Data, assert_data_eq};

use crate::support::{Done, command, folder};

fn help(args: &[&str]) -> String {
    let home = folder();
    Done::of(command(home.path(), args.iter().chain(&["--help"]))).good()
}

fn expected(name: &str) -> Data {
    fencepost_testkit::refuse_in_ci("SNAPSHOTS");
    let path = format!("{}/tests/cli/help/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    Data::read_from(path.as_ref(), None)
}

#[test]
fn every_verb_explains_itself() {
    let verbs = [
        "serve",
        "dev",
        "demo",
        "store",
        "ls",
        "show",
        "watch",
        "unlock",
        "release",
        "delete",
        "repl",
        "rpc",
        "lease",
        "client",
        "kv",
        "status",
        "member",
        "key",
        "limits",
        "move-leader",
        "snapshot",
        "bench",
        "config",
        "completions",
        "man",
    ];
    assert_data_eq!(help(&[]), expected("fencepost"));
    for verb in verbs {
        assert_data_eq!(help(&[verb]), expected(verb));
    }
}

#[test]
fn nothing_at_all_shows_the_help() {
    let home = folder();
    let done = Done::of(command(home.path(), [""; 0]));
    assert_eq!(done.code, 2);
    assert!(done.err.contains("Usage: fencepost"), "{done:?}");
}

#[test]
fn every_shell_gets_its_completions() {
    let home = folder();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Done::of(command(home.path(), ["completions", shell])).good();
        assert!(script.contains("move-leader"), "{shell}");
        assert!(!script.contains("__watchdog"), "what is hidden stays so: {shell}");
    }
    assert_eq!(Done::of(command(home.path(), ["completions", "none"])).code, 2);
}

#[test]
fn the_manual_has_a_page_for_every_verb() {
    let home = folder();
    let page = Done::of(command(home.path(), ["man"])).good();
    assert!(page.contains(".TH fencepost 1"), "{page}");
    Done::of(command(home.path(), ["man", "--dir", "pages"])).good();
    for name in ["fencepost", "fencepost-serve", "fencepost-lease-grant", "fencepost-snapshot-save"]
    {
        let path = home.path().join("pages").join(format!("{name}.1"));
        let page = std::fs::read_to_string(path).expect("every verb has one");
        assert!(page.contains(&format!(".TH {name} 1")), "{name}: {page}");
    }
    assert!(!home.path().join("pages/fencepost-__exec.1").exists());
    std::fs::write(home.path().join("file"), "").expect("there is room");
    let text = Done::of(command(home.path(), ["man", "--dir", "file"])).refused(1);
    assert!(text.contains("into file"), "{text}");
}

#[test]
fn every_verb_and_every_setting_is_documented() {
    let page = include_str!("../../../../docs/cli.md");
    let text = help(&[]);
    let (_, rest) = text.split_once("Commands:\n").expect("it lists them");
    let (listed, _) = rest.split_once("\n\n").expect("it lists them");
    let verbs: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 15, "{verbs:?}");
    for verb in verbs.iter().filter(|&&verb| verb != "help") {
        assert!(page.contains(&format!("`{verb}")), "docs/cli.md says nothing about {verb}");
    }
    for flag in help(&["serve"]).lines().filter_map(|line| line.trim().strip_prefix("--")) {
        let flag = flag.split_whitespace().next().expect("it has a name");
        let words = [format!("--{flag}"), flag.replace('-', "_")];
        let known = words.iter().any(|word| page.contains(word.as_str()));
        assert!(known, "docs/cli.md says nothing about --{flag}");
    }
}
