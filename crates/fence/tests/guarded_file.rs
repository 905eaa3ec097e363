//! A guarded file whose writers are killed.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use fencepost_fence::{GuardedFile, Presented, Refusal, Repeats, Token, WriteError};
use support::example::{Process, example};

/// Large enough that a kill can meet a write half done.
fn contents(number: u64) -> String {
    format!("{number} ").repeat(20_000)
}

/// Writes with growing tokens until it is killed after some more acknowledgements. Says how many
/// were acknowledged and how many were sent.
fn write_and_kill(path: &Path, first: u64, acks: u64) -> (u64, u64) {
    let mut process = Process(
        Command::new(example("guard"))
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut to = process.0.stdin.take().unwrap();
    let sender = std::thread::spawn(move || {
        let mut sent = first;
        while writeln!(to, "{sent} {}", contents(sent)).is_ok() {
            sent += 1;
        }
        sent
    });
    let mut from = BufReader::new(process.0.stdout.take().unwrap());
    let mut acked = first - 1;
    let mut line = String::new();
    for _ in 0..acks {
        line.clear();
        from.read_line(&mut line).unwrap();
        assert_eq!(line, "ok\n");
        acked += 1;
    }
    // It is writing the next version right now.
    process.kill();
    let mut rest = String::new();
    from.read_to_string(&mut rest).unwrap();
    acked += u64::try_from(rest.matches("ok\n").count()).unwrap();
    (acked, sender.join().unwrap())
}

#[test]
fn a_killed_writer_leaves_a_whole_file_and_its_mark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    let file = GuardedFile::new(&path);
    let mut first = 1;
    for round in 0..20 {
        let (acked, sent) = write_and_kill(&path, first, 1 + round % 4);
        let text = fs::read_to_string(&path).unwrap();
        let found: u64 = text.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(text, contents(found), "half a version");
        assert!(
            acked <= found && found <= sent,
            "{acked} acknowledged, {found} found, {sent} sent"
        );
        let mark = file.mark().unwrap().highest().unwrap().get();
        assert!(found <= mark && mark <= sent, "{found} found, {mark} remembered");
        let late = Presented::exclusive(Token::new(mark - 1).unwrap_or(Token::new(1).unwrap()));
        if mark > 1 {
            assert!(matches!(file.write(late, b"late"), Err(WriteError::Refused(_))));
        }
        first = mark + 1;
    }
}

/// Two processes take turns, and the order of their tokens is kept.
#[test]
fn two_processes_share_a_guarded_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    let mut others = Vec::new();
    for start in [1_u64, 2] {
        let mut process = Process(
            Command::new(example("guard"))
                .arg(&path)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut to = process.0.stdin.take().unwrap();
        let lines: String = (0..50).map(|each| format!("{0} {0}\n", start + 2 * each)).collect();
        to.write_all(lines.as_bytes()).unwrap();
        drop(to);
        others.push(process);
    }
    let mut refused = 0;
    for mut process in others {
        let mut text = String::new();
        process.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 50);
        refused += text.lines().filter(|line| line.contains("is stale")).count();
        assert!(text.lines().all(|line| line == "ok" || line.contains("is stale")), "{text}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "100", "{refused} were refused");
}

// Requirements: S0-075.
#[test]
fn equal_token_may_repeat_its_write_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.csv");
    let file = GuardedFile::new(&path).repeats(Repeats::SameData);
    let exclusive = |number| Presented::exclusive(Token::new(number).unwrap());
    file.write(exclusive(5), b"first").unwrap();
    file.write(exclusive(5), b"first").unwrap();
    for other in [&b"other"[..], b"longer", b""] {
        let refused = file.write(exclusive(5), other).unwrap_err();
        assert!(matches!(refused, WriteError::Refused(Refusal::Reused { .. })), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"first");
    }
    file.write(exclusive(6), b"other").unwrap();
    let late = file.write(exclusive(5), b"first").unwrap_err();
    assert!(matches!(late, WriteError::Refused(Refusal::Stale { .. })), "{late}");
}
