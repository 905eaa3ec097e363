//! `demo`, from its first line to its last process.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Done, Running, command, folder, shape, until};

fn demo(home: &Path, more: &[&str]) -> std::process::Command {
    let mut demo = command(home, ["demo"].iter().chain(more));
    demo.env("TMPDIR", home).env("FENCEPOST_LISTEN", "0.0.0.0:1");
    demo
}

/// The processes that work in a folder.
fn at_work_in(folder: &Path) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("this is Linux").filter_map(Result::ok);
    let is_there = |path: &Path| {
        fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder) && cwd != folder)
    };
    let there = all.map(|entry| entry.path()).filter(|path| is_there(path));
    there.map(|path| path.display().to_string()).collect()
}

// Requirements: S0-077, S1-003, S1-017, S1-098, S1-100, S2-001, S3-030, S4-038.
#[test]
fn an_update_is_lost_without_fencing_and_none_with_it_or_by_a_dead_leader() {
    let home = folder();
    // Nothing of the surroundings changes it.
    fs::write(home.path().join("fencepost.toml"), "join = \"127.0.0.1:1\"\n").expect("room");
    let done = Done::of(demo(home.path(), &["--clients", "8", "--seed", "7", "-o", "json"]));
    let told = done.err.clone();
    let found: Value = done.json();
    assert_eq!(found["passed"], true, "{told}");
    assert_eq!(found["unfenced"]["acknowledged"], 2, "{told}");
    assert_eq!(found["unfenced"]["lost"], 1, "{told}");
    assert_eq!(found["fenced"]["lost"], 0, "{told}");
    assert_eq!(found["fenced"]["late_write_refused"], true, "{told}");
    let killed = &found["leader_killed"];
    assert_eq!((&killed["counter"], &killed["lost"]), (&80.into(), &0.into()), "{told}");
    assert_eq!(killed["tokens_rose"], true, "{told}");
    assert_ne!(killed["killed"], killed["leader"], "{told}");
    let paused = "{acknowledged:number,late_write_refused:bool,lost:number,tokens:[number]}";
    assert_eq!(shape(&found["fenced"]), paused);
    assert!(told.contains(" is stale, last seen was "), "{told}");
    assert!(!told.contains('\u{1b}'), "no colours where nobody sees them: {told}");
    assert_eq!(at_work_in(home.path()), [""; 0]);
    let left: Vec<_> = fs::read_dir(home.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "only the file that was there before: {left:?}");
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::TERM] {
        let home = folder();
        let mut demo = Running::start(demo(home.path(), &[]));
        // One client is stopped then, one waits, and four servers run.
        demo.out.wait_for("is stopped (SIGSTOP)");
        assert_eq!(at_work_in(home.path()).len(), 6);
        assert_eq!(demo.end(signal).code(), Some(1));
        assert_eq!(at_work_in(home.path()), [""; 0]);
        assert_eq!(fs::read_dir(home.path()).expect("it is there").count(), 0);
    }
}

#[test]
fn a_killed_demo_takes_its_processes_along() {
    let home = folder();
    let mut demo = Running::start(demo(home.path(), &[]));
    demo.out.wait_for("is stopped (SIGSTOP)");
    assert_eq!(at_work_in(home.path()).len(), 6);
    demo.end(Signal::KILL);
    until(|| match at_work_in(home.path()) {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    });
}
