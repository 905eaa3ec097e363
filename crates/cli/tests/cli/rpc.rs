//! `rpc`: a client for JSON over TCP, against a real node and against what is none.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::repl::fed;
use crate::support::{Done, Plan, Running, Server, command, folder};

/// A node that speaks JSON over TCP, and where.
fn node(home: &Path) -> (Server, String) {
    let server = Plan::new(home).with(&["--json-tcp", "127.0.0.1:0"]).start();
    let line = server.process.err.wait_for("  json/tcp  ");
    let address = line.split_whitespace().nth(1).expect("it has a value").to_owned();
    (server, address)
}

fn rpc(address: &str, args: &[&str]) -> Command {
    let usual = ["rpc", "--address", address];
    command(&std::env::temp_dir(), usual.iter().chain(args))
}

/// A listener that takes one line and says this.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = listener.local_addr().expect("it listens").to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("one comes");
        let mut line = String::new();
        let mut reader = BufReader::new(stream.try_clone().expect("it is a socket"));
        reader.read_line(&mut line).expect("it is text");
        stream.write_all(answer.as_bytes()).expect("it reads");
    });
    address
}

// Requirements: S3-006.
#[test]
fn an_rpc_is_sent_and_its_answer_printed() {
    let home = folder();
    let (server, address) = node(home.path());
    let lock = ["acquire_lock", "key=42", "owner=me", "ttl=30s"];
    let answer = Done::of(rpc(&address, &lock)).json();
    assert_eq!(answer["type"], "acquire_lock");
    assert_eq!(answer["payload"]["result"], "acquired");
    let token = answer["payload"]["fencing_token"].as_i64().expect("a token");
    let shown = server.json(&["show", "42"]);
    assert_eq!(shown["holders"][0]["client"], "me");
    assert_eq!(shown["holders"][0]["token"], token);
    // What was not done is printed too, and has another exit code.
    let denied = Done::of(rpc(&address, &["acquire_lock", "key=42", "owner=you"]));
    assert_eq!(denied.code, 1, "{denied:?}");
    assert_eq!(denied.document()["payload"]["code"], "lock_held");
    let named = format!("fencing_token={token}");
    let release = ["release_lock", "key=42", "owner=me", &named];
    assert_eq!(Done::of(rpc(&address, &release)).json()["payload"]["result"], "released");
    for kind in ["ping", "get_leader", "get_cluster_info", "heartbeat"] {
        assert_eq!(Done::of(rpc(&address, &[kind])).json()["type"], kind);
    }
}

// Requirements: S3-006.
#[test]
fn an_rpc_waits_for_as_long_as_its_request_says() {
    let home = folder();
    let (_server, address) = node(home.path());
    let acquire = |owner: &str, more: &[&str]| {
        let owner = format!("owner={owner}");
        rpc(&address, &[&["acquire_lock", "key=a", &owner, "ttl=60s"], more].concat())
    };
    Done::of(acquire("a", &[])).good();
    // Longer than an answer may take that waits for nothing.
    let waiting = Running::start(acquire("b", &["wait_ms=60s", "--timeout", "10ms"]));
    crate::support::until(|| {
        let lock = Done::of(rpc(&address, &["get_lock", "key=a"])).json();
        let waiters = lock["payload"]["waiters"].clone();
        if waiters == 1 { Ok(()) } else { Err(lock) }
    });
    Done::of(rpc(&address, &["release_lock", "key=a", "owner=a"])).good();
    let answer: Value = serde_json::from_str(&waiting.out.wait_for_count(1)[0]).expect("JSON");
    assert_eq!(answer["payload"]["owner"], "b");
}

// Requirements: S3-006.
#[test]
fn lines_of_standard_input_are_sent_one_by_one() {
    let home = folder();
    let (_server, address) = node(home.path());
    let object = json!({ "type": "get_lock", "request_id": 7, "payload": { "key": "a" } });
    let input = format!("acquire_lock key=a owner=me\n\n{object}\r\nping");
    let text = fed(rpc(&address, &[]), &input).good();
    let answers: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let kinds: Vec<&Value> = answers.iter().map(|answer| &answer["type"]).collect();
    assert_eq!(kinds, ["acquire_lock", "get_lock", "ping"]);
    assert_eq!(
        (&answers[1]["request_id"], &answers[1]["payload"]["owner"]),
        (&json!(7), &json!("me"))
    );
    // What is no request is named and not sent; the others are.
    let done = fed(rpc(&address, &[]), "ping\n{\nping x\nping\nfly\n");
    assert_eq!((done.code, done.out.lines().count()), (1, 3), "{done:?}");
    assert!(done.err.contains("line 2 was not sent: this is no JSON"), "{done:?}");
    assert!(done.err.contains("line 3 was not sent: \"x\" is neither"), "{done:?}");
    assert!(done.out.lines().last().is_some_and(|line| line.contains("\"success\":false")));
}

// Requirements: S3-006.
#[test]
fn an_rpc_without_an_answer_says_what_is_not_known() {
    let nothing = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = nothing.local_addr().expect("it listens").to_string();
    // It takes the connection, and never answers.
    let late = ["--timeout", "200ms"];
    let text = Done::of(rpc(&address, &[&["ping"], &late[..]].concat())).refused(1);
    assert!(text.contains(&format!("cannot ask {address} for ping")), "{text}");
    assert!(text.contains("no answer came in time"), "{text}");
    let acquire = [&["acquire_lock", "key=a", "owner=b"], &late[..]].concat();
    let text = Done::of(rpc(&address, &acquire)).refused(1);
    assert!(text.contains("it is not known whether this was done: acquire_lock"), "{text}");
    drop(nothing);
    let text = Done::of(rpc(&address, &acquire)).refused(1);
    assert!(text.contains(&format!("cannot reach {address}")), "{text}");
    for (answer, why) in [
        ("", "the connection was closed without an answer"),
        ("{\"success\":tr", "the connection was closed within the answer"),
        ("HTTP/1.1 400 Bad Request\r\n", "the answer is no JSON"),
        ("{\"a\":1}\n", "this is no JSON over TCP"),
    ] {
        let text = Done::of(rpc(&answering(answer), &["ping"])).refused(1);
        assert!(text.contains(why), "{text} does not say {why:?}");
    }
    let text = Done::of(rpc(&address, &["ping", "x"])).refused(2);
    assert!(text.contains("\"x\" is neither FIELD=VALUE nor FIELD:=JSON"), "{text}");
}
