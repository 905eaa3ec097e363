//! `dev`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Done, Running, command, folder};

// Requirements: S4-038.
#[test]
fn a_throw_away_cluster_serves_the_lines_that_it_prints() {
    let home = folder();
    let mut dev = command(home.path(), ["dev", "--nodes", "3", "--port", "0"]);
    dev.env("TMPDIR", home.path());
    let mut dev = Running::start(dev);
    dev.out.wait_for("End it with Ctrl-C");
    let lines = dev.out.all();
    let pasted = |part: &str| {
        let line = lines.iter().find(|line| line.trim_end().ends_with(part));
        let line = line.unwrap_or_else(|| panic!("no line with {part:?} in {lines:#?}"));
        let mut shell = Command::new("sh");
        let binary = Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().expect("it has a folder");
        let old = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{old}", binary.display()));
        shell.args(["-c", line]).current_dir(home.path());
        Done::of(shell).good()
    };
    assert!(pasted(" status").contains("leader"), "{lines:#?}");
    assert_eq!(pasted("kv put greeting hello"), "written at revision 2\n");
    assert_eq!(pasted("show jobs/nightly").lines().next(), Some("jobs/nightly: free"));
    let status = lines.iter().find(|line| line.ends_with(" status")).expect("it is there");
    let endpoints = status.split_whitespace().nth(2).expect("it names them");
    assert_eq!(endpoints.split(',').count(), 3);
    let args = ["--endpoints", endpoints, "status", "-o", "json"];
    let status = Done::of(command(home.path(), args)).json();
    let members = status["members"].as_array().expect("it lists them");
    let client = |member: &Value| member["client"].as_str().expect("it has one").to_owned();
    let reached: BTreeSet<String> = members.iter().map(client).collect();
    let printed = endpoints.split(',').map(|one| one.trim_start_matches("http://").to_owned());
    assert_eq!(reached, printed.collect::<BTreeSet<String>>());
    assert_eq!(dev.end(Signal::INT).code(), Some(0));
    let left = std::fs::read_dir(home.path()).expect("it is there").count();
    assert_eq!(left, 0, "nothing stays behind");
}

#[test]
fn a_port_that_was_asked_for_must_be_free() {
    let home = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let port = taken.local_addr().expect("it listens").port().to_string();
    let text = Done::of(command(home.path(), ["dev", "--port", &port])).refused(1);
    assert!(text.contains(&port) && text.contains("--port"), "{text}");
    assert_eq!(Done::of(command(home.path(), ["dev", "--nodes", "0"])).code, 2);
}
