//! etcd's own command line, unmodified, against a real server.

#[path = "lock_support/mod.rs"]
mod lock_support;

use std::io::Write as _;
use std::process::{Command, Stdio};

use fencepost_testkit::skip;
use lock_support::{Running, Server};

/// The command, if it is installed.
fn etcdctl(server: &Server, arguments: &[&str]) -> Option<Command> {
    let is_there = Command::new("etcdctl").arg("version").output().is_ok();
    if !is_there {
        skip("etcdctl is missing", "apt-get install etcd-client");
        return None;
    }
    let mut command = Command::new("etcdctl");
    // Some of its versions send the whole URL as the name of the host, which is malformed.
    let address = server.endpoint().trim_start_matches("http://");
    command.env("ETCDCTL_API", "3").env("ETCDCTL_ENDPOINTS", address);
    command.args(arguments);
    Some(command)
}

/// What it prints.
fn printed(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it can be run");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {told}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn keys_leases_and_the_cluster() {
    let server = Server::start();
    let run = |arguments: &[&str]| etcdctl(&server, arguments).map(printed);
    let Some(told) = run(&["put", "k", "1"]) else { return };
    assert_eq!(told, "OK");
    assert_eq!(run(&["put", "k", "2", "--prev-kv"]).as_deref(), Some("OK\nk\n1"));
    assert_eq!(run(&["get", "k"]).as_deref(), Some("k\n2"));
    assert_eq!(run(&["get", "k", "--rev=2"]).as_deref(), Some("k\n1"));
    assert_eq!(run(&["del", "k"]).as_deref(), Some("1"));
    let lease = run(&["lease", "grant", "60"]).expect("it is there");
    let lease = lease.split(' ').nth(1).expect("its id").to_owned();
    assert!(run(&["put", "leased", "x", "--lease", &lease]).is_some());
    let shown = run(&["lease", "timetolive", &lease, "--keys"]).expect("it is there");
    assert!(shown.contains("leased"), "{shown}");
    assert!(run(&["lease", "list"]).expect("it is there").contains(&lease));
    assert!(run(&["lease", "keep-alive", "--once", &lease]).expect("it is there").contains("60"));
    assert!(run(&["lease", "revoke", &lease]).is_some());
    assert_eq!(run(&["get", "leased"]).as_deref(), Some(""));
    assert!(run(&["member", "list"]).expect("it is there").contains("started"));
    assert!(run(&["endpoint", "status"]).expect("it is there").contains("true"));
    assert!(run(&["endpoint", "health"]).is_some());
    assert!(run(&["endpoint", "hashkv"]).is_some());
    assert_eq!(run(&["alarm", "list"]).as_deref(), Some(""));
    assert!(run(&["compaction", "3"]).expect("it is there").contains("compacted revision 3"));
    let snapshot = server.file("snapshot.db").display().to_string();
    assert!(run(&["snapshot", "save", &snapshot]).is_some());
    assert!(run(&["snapshot", "status", &snapshot]).is_some());
}

#[test]
fn a_transaction_is_read_from_standard_input() {
    let server = Server::start();
    let Some(mut command) = etcdctl(&server, &["txn"]) else { return };
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it can be run");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(b"create(\"k\") = \"0\"\n\nput k 1\n\nget k\n\n").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("SUCCESS"));
}

#[test]
fn events_are_told_as_they_happen() {
    let server = Server::start();
    let Some(watch) = etcdctl(&server, &["watch", "--rev=2", "w"]) else { return };
    let watch = Running::start(watch);
    let run = |arguments: &[&str]| etcdctl(&server, arguments).map(printed);
    run(&["put", "w", "1"]);
    run(&["del", "w"]);
    let lines: Vec<String> = (0..6).map(|_| watch.line()).collect();
    assert_eq!(lines, ["PUT", "w", "1", "DELETE", "w", ""]);
}

// Requirements: S1-107.
#[test]
fn etcds_lock_and_ours_are_one_lock() {
    let server = Server::start();
    // Its commands have no standard input: this one waits for a pipe.
    let pipe = server.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it is there").success());
    let holds = format!("echo theirs; cat {}", pipe.display());
    let Some(theirs) = etcdctl(&server, &["lock", "m", "--", "sh", "-c", &holds]) else { return };
    let mut theirs = Running::start(theirs);
    assert_eq!(theirs.line(), "theirs");
    let mut ours = server.run(&["lock", "m", "--", "sh", "-c", "echo ours; read line"]);
    ours.told("waiting");
    // Ours is in the queue. Theirs, asked for now, comes after it.
    let Some(last) = etcdctl(&server, &["lock", "m", "--", "echo", "last"]) else { return };
    let mut last = Running::start(last);
    std::fs::write(&pipe, "").expect("it is read");
    assert_eq!(theirs.code(), 0);
    assert_eq!(ours.line(), "ours");
    ours.write("\n");
    assert_eq!(ours.code(), 0);
    assert_eq!(last.line(), "last");
    assert_eq!(last.code(), 0);
}

#[test]
fn many_clients_of_etcd_count_without_losing_one() {
    const CLIENTS: usize = 50;
    let server = Server::start();
    let file = server.file("count");
    std::fs::write(&file, "0\n").expect("the folder is there");
    let count = format!("expr 1 + $(cat {0}) > {0}.new; mv {0}.new {0}", file.display());
    let mut running = Vec::new();
    for _ in 0..CLIENTS {
        let command = etcdctl(&server, &["lock", "c", "--", "sh", "-c", &count]);
        let Some(command) = command else { return };
        running.push(Running::start(command));
    }
    for one in &mut running {
        assert_eq!(one.code(), 0);
    }
    let count = std::fs::read_to_string(&file).expect("it was written");
    assert_eq!(count.trim(), CLIENTS.to_string());
}

#[test]
fn an_election_is_observed() {
    let server = Server::start();
    let Some(leader) = etcdctl(&server, &["elect", "e", "one"]) else { return };
    let leader = Running::start(leader);
    assert!(leader.line().starts_with("e/"));
    assert_eq!(leader.line(), "one");
    let Some(observer) = etcdctl(&server, &["elect", "-l", "e"]) else { return };
    let observer = Running::start(observer);
    assert!(observer.line().starts_with("e/"));
    assert_eq!(observer.line(), "one");
}
