//! What servers write to standard error, and what happens if it is not read.

use std::io::{PipeReader, PipeWriter, Write as _, pipe};
use std::net::TcpListener;

use rustix::pipe::fcntl_setpipe_size;
use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::support::{Done, Lines, Plan, Running, folder};

/// A pipe with no room for another byte.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("there is room for a pipe");
    let size = fcntl_setpipe_size(&writer, 4_096).expect("it may be smaller");
    writer.write_all(&vec![b'x'; size]).expect("there is room for so much");
    (reader, writer)
}

#[test]
fn stalled_log_reader_does_not_freeze_the_cluster() {
    let cluster = Cluster::planned();
    let (mut readers, mut processes) = (Vec::new(), Vec::new());
    for plan in &cluster.plans {
        let (reader, writer) = full_pipe();
        readers.push(Some(reader));
        processes.push(Running::with_stderr(plan.command(), writer));
    }
    let leader = cluster.leader();
    let (killed, other) = ((leader + 1) % 3, (leader + 2) % 3);
    processes[killed].end(Signal::KILL);
    cluster.run(&["lock", "demo", "--", "true"]).good();
    // What had room is written as soon as it is read.
    Lines::read(readers[leader].take().expect("it is not read yet")).wait_for("is ready");
    // A process ends although its last lines are not read.
    assert_eq!(processes[other].end(Signal::TERM).code(), Some(0));
    assert!(readers[other].is_some(), "its pipe is open and full");
}

#[test]
fn fatal_error_ends_the_process_although_it_is_not_read() {
    let home = folder();
    let taken = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let port = taken.local_addr().expect("it listens").port();
    let plan = Plan { clients: port, ..Plan::new(home.path()) };
    let (_unread, writer) = full_pipe();
    assert_eq!(Running::with_stderr(plan.command(), writer).wait().code(), Some(1));
}

#[track_caller]
fn json(lines: &[String]) -> Vec<Value> {
    let parsed = |line: &String| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(value["timestamp"].is_string() && value["level"].is_string(), "{line}");
        value
    };
    lines.iter().map(parsed).collect()
}

#[test]
fn every_line_of_a_json_log_is_json() {
    let home = folder();
    let mut process = Plan::new(home.path()).with(&["--log-format", "json"]).begin();
    process.err.wait_for("is ready");
    assert_eq!(process.end(Signal::TERM).code(), Some(0));
    process.err.wait_for("handing over");
    let lines = json(&process.err.all());
    let is_banner = |line: &&Value| line["fields"]["clients"].is_string();
    assert_eq!(lines.iter().filter(is_banner).count(), 1, "{lines:?}");

    let taken = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let port = taken.local_addr().expect("it listens").port();
    let occupied = Plan { clients: port, ..Plan::new(home.path()) };
    let wrong = [
        (occupied, "cannot listen"),
        (Plan::new(home.path()).with(&["--log-level", "loud"]), "the log level loud"),
        (Plan::new(home.path()).with(&["--initial-cluster", "x"]), "the initial cluster x"),
    ];
    for (plan, message) in wrong {
        let done = Done::of(plan.with(&["--log-format", "json"]).command());
        let lines: Vec<String> = done.err.lines().map(str::to_owned).collect();
        let lines = json(&lines);
        let last = lines.last().expect("it says why it ends");
        assert_eq!(last["level"], "ERROR", "{last}");
        let text = last["fields"]["message"].as_str().expect("it is text");
        assert!(text.contains(message), "{text}");
    }
}
