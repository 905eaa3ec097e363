//! `repl`: lock commands as text, and JSON over TCP beside them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Done, Plan, Server, command, folder};

/// Runs a command with this on its standard input.
pub(crate) fn fed(mut command: Command, input: &str) -> Done {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be run");
    let mut pipe = child.stdin.take().expect("it was asked for");
    pipe.write_all(input.as_bytes()).expect("it reads");
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it speaks UTF-8");
    let code = output.status.code().expect("it ends by itself");
    Done { code, out: text(output.stdout), err: text(output.stderr) }
}

fn repl(server: &Server, more: &[&str], input: &str) -> Done {
    let usual = ["--endpoints", &server.endpoint, "repl"];
    fed(command(&std::env::temp_dir(), usual.iter().chain(more)), input)
}

// Requirements: S4-012, S4-013, S4-014, S4-015.
#[test]
fn lines_are_answered_in_the_words_of_the_founding_document() {
    let home = folder();
    let server = Server::alone(home.path());
    let input = "ACQUIRE:db:client-1:30000\nACQUIRE:db:client-2:30000\r\n\n  HEARTBEAT:db:client-1\n\
                 RELEASE:db:client-2\nRELEASE:db:client-1\nRELEASE:db:client-1\nnonsense\n\
                 ACQUIRE:db:client-2:30000";
    let text = repl(&server, &[], input).good();
    let results: Vec<&str> = text.lines().collect();
    assert_eq!(
        results,
        [
            "Acquired",
            "Denied(Lock held by client-1)",
            "Renewed",
            "Denied(Not the lock owner)",
            "Released",
            "NotFound",
            "Error(Invalid lock command: nonsense)",
            "Acquired",
        ]
    );
    // It holds, although the command has ended.
    assert_eq!(server.json(&["show", "db"])["holders"][0]["client"], "client-2");
}

#[test]
fn help_and_the_end_of_the_input() {
    let home = folder();
    let server = Server::alone(home.path());
    assert_eq!(repl(&server, &[], "").good(), "");
    let help = repl(&server, &[], "help\nquit\nACQUIRE:a:b:30000\n").good();
    for word in ["ACQUIRE:", "HEARTBEAT:", "RELEASE:", "%3A", "NotFound"] {
        assert!(help.contains(word), "{help}");
    }
    assert!(!help.contains("Acquired\n"), "nothing is done after quit: {help}");
    let long = "x".repeat(100_000);
    let text = repl(&server, &[], &format!("{long}\nRELEASE:a:b\n")).good();
    assert!(text.starts_with("Error(Invalid lock command: xxx"), "{text}");
    assert!(text.ends_with("\nNotFound\n"), "{text}");
}

#[test]
fn programs_are_told_the_token() {
    let home = folder();
    let server = Server::alone(home.path());
    let text = repl(&server, &["-o", "json"], "ACQUIRE:a:b:30000\nRELEASE:a:b\n").good();
    let documents: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert_eq!(documents[0]["result"], "Acquired");
    assert!(documents[0]["fencing_token"].as_i64() > Some(0));
    assert_eq!(documents[0]["remaining_ms"], 30_000);
    assert_eq!(documents[1]["fencing_token"], Value::Null);
}

// Requirements: S4-029.
#[test]
fn the_demonstration_runs_as_the_founding_document_has_it() {
    let home = folder();
    let server = Server::alone(home.path());
    // As often as anybody likes.
    for _ in 0..2 {
        let text = server.run(&["repl", "--demo"]).good();
        assert_eq!(
            text,
            "Acquire: Acquired\nClient-2 attempt: Denied(Lock held by client-1)\n\
             Heartbeat: Renewed\nRelease: Released\nClient-2 retry: Acquired\n\
             Client-2 release: Released\n"
        );
    }
}

// Requirements: S3-009.
#[test]
fn json_over_tcp_is_spoken_if_asked_for() {
    let home = folder();
    let server = Plan::new(home.path()).with(&["--json-tcp", "127.0.0.1:0"]).start();
    let line = server.process.err.wait_for("  json/tcp  ");
    let address = line.split_whitespace().nth(1).expect("it has a value");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let payload = json!({ "key": "a", "owner": "nc", "ttl": "30s" });
    let request = json!({ "type": "acquire_lock", "request_id": "1", "payload": payload });
    writeln!(stream, "{request}").expect("it reads");
    let mut told = String::new();
    BufReader::new(stream).read_line(&mut told).expect("it answers");
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    assert_eq!((&told["success"], &told["request_id"]), (&json!(true), &json!("1")));
    let denied = repl(&server, &[], "ACQUIRE:a:me:30000\n").good();
    assert_eq!(denied, "Denied(Lock held by nc)\n");
}

// Requirements: S3-034.
#[test]
fn other_machines_are_kept_out_of_json_over_tcp() {
    let home = folder();
    let plan = Plan::new(home.path()).with(&["--json-tcp", "0.0.0.0:0"]);
    let text = Done::of(plan.command()).refused(2);
    assert!(text.contains("0.0.0.0:0") && text.contains("--json-tcp"), "{text}");
    assert!(text.contains("--insecure"), "{text}");
}
