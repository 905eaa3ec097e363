//! `fencepost elect`: real processes, a real server.

mod lock_support;

use lock_support::Server;
use rustix::process::Signal;
use serde_json::Value;

fn document(line: &str) -> Value {
    serde_json::from_str(line).expect("a document")
}

#[test]
fn leaders_follow_each_other_and_observers_see_them() {
    let server = Server::start();
    let mut observer = server.run(&["elect", "--observe", "chief", "-o", "json"]);
    let mut first = server.run(&["elect", "chief", "one:80"]);
    let line = first.line();
    let (key, token) = line.split_once(' ').expect("a key and a token");
    assert!(key.starts_with("chief/"), "{line}");
    let seen = document(&observer.line());
    assert_eq!(seen["name"], "chief");
    assert_eq!(seen["value"], "one:80");
    assert_eq!(seen["key"], key);
    assert_eq!(seen["token"], token.parse::<i64>().expect("a number"));

    let mut second = server.run(&["elect", "chief", "two:80"]);
    second.told("waiting for chief");
    first.signal(Signal::INT);
    assert_eq!(first.code(), 0);
    let line = second.line();
    let later = document(&observer.line());
    assert_eq!(later["value"], "two:80");
    assert!(later["token"].as_i64() > seen["token"].as_i64(), "{line}");
    observer.signal(Signal::INT);
    assert_eq!(observer.code(), 0);
    second.signal(Signal::TERM);
    assert_eq!(second.code(), 0);
}

#[test]
fn a_command_runs_while_it_leads() {
    let server = Server::start();
    let script = "echo $FENCEPOST_LOCK; read line; exit 9";
    let mut first = server.run(&["elect", "chief", "one", "--", "sh", "-c", script]);
    assert_eq!(first.line(), "chief");
    let client = server.client();
    let leader = client.election("chief").leader().expect("it answers").expect("somebody leads");
    assert_eq!(&leader.value[..], b"one");
    assert_eq!(server.output(&["elect", "chief", "two", "--try"]).0, 124);
    first.write("go\n");
    assert_eq!(first.code(), 9);
    assert!(client.election("chief").leader().expect("it answers").is_none());
}

#[test]
fn a_leader_that_cannot_renew_leads_no_more() {
    let server = Server::start();
    let script = "echo up; exec sleep 600";
    let mut first = server.run(&["elect", "chief", "one", "--ttl", "1s", "--", "sh", "-c", script]);
    assert_eq!(first.line(), "up");
    server.signal(Signal::STOP);
    assert_eq!(first.code(), 122);
}
