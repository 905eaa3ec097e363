//! The data store as clients see it, in a process of its own that can be killed.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fencepost_fence::signed::{Grant, PublicKey, Signer};
use fencepost_fence::{Presented, Token};
use support::example::{Process, store, store_on_small_disk, store_refuses, watch};
use support::http::Caller;

fn body(key: &str, value: u64, data: &str) -> String {
    format!(
        r#"{{"clientID":"c1","fencingToken":{{"key":"{key}","value":{value}}},"data":"{data}"}}"#
    )
}

fn start(file: &Path) -> (Process, Caller) {
    let (process, address) = store(file, &[]);
    (process, Caller::connect(address).unwrap())
}

// Requirements: S0-073, S0-076, S1-016, S1-017, S1-018, S1-019, S1-020, S1-098.
#[test]
fn the_founding_json_is_answered_in_the_founding_words() {
    let folder = tempfile::tempdir().unwrap();
    let (_process, mut caller) = start(&folder.path().join("data.txt"));
    let done = (200, r#"{"success":true}"#.to_owned());
    assert_eq!(caller.post("/", &body("k", 5, "five")).unwrap(), done);
    let stale = r#"{"success":false,"error":"Token 4 is stale, last seen was 5"}"#;
    assert_eq!(caller.post("/write", &body("k", 4, "four")).unwrap(), (409, stale.to_owned()));
    assert_eq!(caller.post("/write", &body("k", 5, "five again")).unwrap(), done);
    assert_eq!(caller.post("/", &body("other", 1, "one")).unwrap(), done);
    let (status, text) = caller.get("/").unwrap();
    assert_eq!(status, 200);
    assert_eq!(
        text,
        concat!(
            r#"{"entries":[{"key":"k","value":5,"mode":"exclusive","clientID":"c1","data":"five again"},"#,
            r#"{"key":"other","value":1,"mode":"exclusive","clientID":"c1","data":"one"}],"more":false}"#
        )
    );
    let one = r#"{"key":"k","value":5,"mode":"exclusive","clientID":"c1","data":"five again"}"#;
    assert_eq!(caller.get("/?key=%6B").unwrap(), (200, one.to_owned()));
    assert_eq!(caller.get("/?key=none").unwrap().0, 404);
}

#[test]
fn tokens_are_exact_beyond_2_to_the_53() {
    let folder = tempfile::tempdir().unwrap();
    let (_process, mut caller) = start(&folder.path().join("data.txt"));
    let large = (1_u64 << 53) + 1;
    assert_eq!(caller.post("/", &body("k", large, "x")).unwrap().0, 200);
    assert_eq!(caller.post("/", &body("k", large - 1, "x")).unwrap().0, 409);
    let text =
        body("k", u64::MAX, "last").replace(&u64::MAX.to_string(), &format!("\"{}\"", u64::MAX));
    assert_eq!(caller.post("/", &text).unwrap().0, 200);
    assert_eq!(caller.post("/", &body("k", u64::MAX - 1, "x")).unwrap().0, 409);
    assert!(caller.get("/").unwrap().1.contains(&format!("\"value\":{}", u64::MAX)));
}

#[test]
fn bad_requests_are_refused_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_process, mut caller) = start(&folder.path().join("data.txt"));
    assert_eq!(caller.post("/", &body("k", 5, "five")).unwrap().0, 200);
    let before = caller.get("/").unwrap();
    let good = body("k", 9, "nine");
    let deep = "[".repeat(100_000);
    let cases = [
        "",
        "{}",
        "null",
        "[1]",
        &deep,
        &good[..good.len() - 1],
        &good.replace(":9", ":0"),
        &good.replace(":9", ":-9"),
        &good.replace(":9", ":9.5"),
        &good.replace(":9", ":1e400"),
        &good.replace(":9", ":18446744073709551616"),
        &good.replace(":9", ":[9]"),
        &good.replace("\"nine\"", "9"),
        &good.replace("\"data\"", "\"date\""),
        &good.replace("\"k\"", "\"\""),
        &good.replace("nine", "\u{1}"),
    ];
    for case in cases {
        let (status, text) = caller.post("/", case).unwrap();
        assert_eq!(status, 400, "{}: {text}", &case[..case.len().min(80)]);
        assert!(text.starts_with(r#"{"success":false,"error":"#), "{text}");
    }
    assert_eq!(caller.call("PUT", "/", &[], &good).unwrap().0, 405);
    assert_eq!(caller.call("GET", "/write", &[], "").unwrap().0, 405);
    assert_eq!(caller.post("/elsewhere", &good).unwrap().0, 404);
    assert_eq!(caller.get("/?limit=0").unwrap().0, 400);
    assert_eq!(caller.get("/?x=1").unwrap().0, 400);
    assert_eq!(caller.get("/").unwrap(), before);
}

#[test]
fn a_body_has_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let (_process, address) = store(&folder.path().join("data.txt"), &[]);
    let mut caller = Caller::connect(address).unwrap();
    let data = "x".repeat(1 << 20);
    assert_eq!(caller.post("/", &body("k", 1, &data)).unwrap().0, 200);
    // Announced, and refused before it is sent.
    caller.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2000000000\r\n\r\n").unwrap();
    assert_eq!(caller.answer().unwrap().0, 413);
    // Not announced, and cut off when it gets too long.
    let mut caller = Caller::connect(address).unwrap();
    caller.send(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").unwrap();
    let chunk = format!("10000\r\n{}\r\n", "y".repeat(0x1_0000));
    for _ in 0..25 {
        // The store may have hung up already.
        if caller.send(chunk.as_bytes()).is_err() {
            break;
        }
    }
    assert_eq!(caller.answer().unwrap().0, 413);
    let mut caller = Caller::connect(address).unwrap();
    assert_eq!(caller.get("/").unwrap().0, 200);
}

#[test]
fn a_long_list_comes_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let (_process, address) = store(&folder.path().join("data.txt"), &[]);
    thread::scope(|scope| {
        for lane in 0..8 {
            scope.spawn(move || {
                let mut caller = Caller::connect(address).unwrap();
                for each in 0..25 {
                    let key = format!("key {:03}", lane * 25 + each);
                    assert_eq!(caller.post("/", &body(&key, 1, "x")).unwrap().0, 200);
                }
            });
        }
    });
    let mut caller = Caller::connect(address).unwrap();
    let mut seen = 0;
    let mut after = String::new();
    loop {
        let (_, text) = caller.get(&format!("/?limit=70&after={after}")).unwrap();
        let keys: Vec<&str> = text
            .match_indices("key 0")
            .chain(text.match_indices("key 1"))
            .map(|(at, _)| &text[at..at + 7])
            .collect();
        seen += keys.len();
        if text.ends_with("\"more\":false}") {
            break;
        }
        assert_eq!(keys.len(), 70);
        after = keys.iter().max().unwrap().replace(' ', "%20");
    }
    assert_eq!(seen, 200);
}

// Requirements: S1-102.
#[test]
fn signed_tokens_are_demanded_if_the_store_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::in_memory().unwrap();
    let jwks = folder.path().join("jwks.json");
    fs::write(&jwks, PublicKey::set([signer.public()])).unwrap();
    let file = folder.path().join("data.txt");
    let (_process, address) = store(&file, &["c1", jwks.to_str().unwrap()]);
    let mut caller = Caller::connect(address).unwrap();
    let sign = |cluster: &str, lock: &str, number: u64| {
        let presented = Presented::exclusive(Token::new(number).unwrap());
        let grant = Grant {
            cluster,
            incarnation: 0,
            lock,
            presented,
            lease: "1",
            holder: "c1",
            revision: number,
            audience: &[],
            expires_at: None,
        };
        signer.sign(&grant, 1_800_000_000)
    };
    let write = |signed: &str, more: &str| {
        format!(
            r#"{{"clientID":"c1","fencingToken":{{"key":"k",{more}"signed":"{signed}"}},"data":"d"}}"#
        )
    };
    let good = sign("c1", "k", 7);
    assert_eq!(caller.post("/", &write(&good, "")).unwrap().0, 200);
    assert_eq!(caller.post("/", &write(&good, r#""value":7,"#)).unwrap().0, 200);
    assert_eq!(caller.post("/", &write(&good, r#""value":8,"#)).unwrap().0, 400);
    assert_eq!(caller.post("/", &write(&good, r#""mode":"shared","#)).unwrap().0, 400);
    let (status, text) = caller.post("/", &body("k", 8, "d")).unwrap();
    assert_eq!((status, text.contains("signed tokens only")), (401, true));
    assert_eq!(caller.post("/", &write(&sign("c2", "k", 9), "")).unwrap().0, 401);
    assert_eq!(caller.post("/", &write(&sign("c1", "j", 9), "")).unwrap().0, 403);
    assert_eq!(caller.post("/", &write(&sign("c1", "k", 6), "")).unwrap().0, 409);
    // A token of one client writes for no other. Without a name the token alone decides.
    let by = |client: &str| write(&good, "").replace(r#""clientID":"c1""#, client);
    let (status, text) = caller.post("/", &by(r#""clientID":"mallory""#)).unwrap();
    assert_eq!((status, text.contains(r#"granted to the client \"c1\""#)), (403, true), "{text}");
    assert!(caller.get("/").unwrap().1.contains(r#""clientID":"c1""#));
    assert_eq!(caller.post("/", &by(r#""clientID":"""#)).unwrap().0, 200);
    let forged = good.replace(&good[good.len() - 9..good.len() - 4], "AAAAA");
    assert_eq!(caller.post("/", &write(&forged, "")).unwrap().0, 401);
    assert!(caller.get("/").unwrap().1.contains("\"value\":7"));
}

/// What was acknowledged is there, whenever the store is killed.
#[test]
fn a_killed_store_loses_nothing_acknowledged() {
    const WRITERS: usize = 8;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.txt");
    let acked: [AtomicU64; WRITERS] = Default::default();
    let sent: [AtomicU64; WRITERS] = Default::default();
    let total = AtomicU64::new(0);
    for round in 1..=10_u64 {
        let (mut process, address) = store(&file, &[]);
        check(address, &acked, &sent);
        let target = total.load(Ordering::SeqCst) + 37 * round;
        thread::scope(|scope| {
            for lane in 0..WRITERS {
                let (acked, sent, total) = (&acked[lane], &sent[lane], &total);
                scope.spawn(move || {
                    let mut caller = Caller::connect(address).unwrap();
                    loop {
                        let token = sent.load(Ordering::SeqCst) + 1;
                        sent.store(token, Ordering::SeqCst);
                        let data = format!("{token} ").repeat(50);
                        match caller.post("/", &body(&format!("lane{lane}"), token, &data)) {
                            Ok((200, _)) => {}
                            Ok(other) => panic!("{other:?}"),
                            // Killed: whether this one happened is unknown.
                            Err(_) => break,
                        }
                        acked.store(token, Ordering::SeqCst);
                        total.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            // Killed in the middle of things, after an amount of work, not of time.
            while total.load(Ordering::SeqCst) < target {
                thread::yield_now();
            }
            process.kill();
        });
        if round % 3 == 0 {
            // A power cut can leave half a line.
            let mut torn = OpenOptions::new().append(true).open(&file).unwrap();
            torn.write_all(b"0123abcd 99 {\"key\":\"lane0\",\"val").unwrap();
        }
    }
    let (_process, address) = store(&file, &[]);
    check(address, &acked, &sent);
}

/// A store that cannot write says that the outcome is unknown, and ends. What it had acknowledged
/// is there when it starts again.
#[test]
fn a_full_disk_ends_the_store_and_loses_nothing_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.txt");
    let (mut process, address) = store_on_small_disk(&file, 64);
    let mut caller = Caller::connect(address).unwrap();
    let data = "x".repeat(1_000);
    let mut acked = 0;
    let problem = loop {
        match caller.post("/", &body("k", acked + 1, &data)) {
            Ok((200, _)) => acked += 1,
            other => break other,
        }
    };
    assert!((10..40).contains(&acked), "{acked}");
    let (status, text) = problem.expect("it answers before it ends");
    assert_eq!(status, 500);
    assert!(text.contains("may or may not have happened"), "{text}");
    let status = process.0.wait().unwrap();
    assert!(!status.success(), "it must not go on with a disk that failed");
    let (_process, mut caller) = start(&file);
    let (_, text) = caller.get("/?key=k").unwrap();
    let found = (acked..=acked + 1).any(|value| text.contains(&format!("\"value\":{value},")));
    assert!(found, "{acked} acknowledged: {text}");
}

/// A kill keeps what the system has not yet written to the disk, a power cut does not. So the
/// order of the calls themselves is looked at.
#[test]
fn the_answer_comes_after_the_sync() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let file = folder.path().join("data.txt");
    let (mut process, address) = store(&file, &[]);
    let Some(mut watcher) = watch(&process, &trace) else { return };
    let mut caller = Caller::connect(address).unwrap();
    for token in 1..=3 {
        assert_eq!(caller.post("/", &body("k", token, "x")).unwrap().0, 200);
    }
    process.kill();
    watcher.0.wait().unwrap();
    let text = fs::read_to_string(&trace).unwrap();
    let mut order: Vec<&str> = text
        .lines()
        .filter_map(|line| match line {
            _ if line.contains("HTTP/1.1 200") => Some("answer"),
            // Once when it is done, on one line or on the second of two.
            _ if line.contains("fdatasync") && line.trim_end().ends_with("= 0") => Some("sync"),
            _ => None,
        })
        .collect();
    // strace may print the last answer a second time when SIGKILL interrupts the call.
    order.truncate(6);
    assert_eq!(order, ["sync", "answer"].repeat(3), "{text}");
}

fn check(address: SocketAddr, acked: &[AtomicU64], sent: &[AtomicU64]) {
    let mut caller = Caller::connect(address).unwrap();
    for (lane, (acked, sent)) in acked.iter().zip(sent).enumerate() {
        let (acked, sent) = (acked.load(Ordering::SeqCst), sent.load(Ordering::SeqCst));
        if acked == 0 {
            continue;
        }
        let (_, text) = caller.get(&format!("/?key=lane{lane}")).unwrap();
        let value = text.split("\"value\":").nth(1).unwrap().split(',').next().unwrap();
        let found: u64 = value.parse().unwrap();
        assert!(
            acked <= found && found <= sent,
            "{acked} acknowledged, {found} found, {sent} sent"
        );
        assert!(text.contains(&format!("{found} ").repeat(50)), "half a write");
        if found > 1 {
            let late = body(&format!("lane{lane}"), found - 1, "late");
            assert_eq!(caller.post("/", &late).unwrap().0, 409);
        }
    }
}

#[test]
fn a_damaged_store_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.txt");
    let (process, mut caller) = start(&file);
    for token in 1..=3 {
        assert_eq!(caller.post("/", &body("k", token, "x")).unwrap().0, 200);
    }
    drop(process);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("\"value\":2", "\"value\":9", 1)).unwrap();
    let words = store_refuses(&file);
    assert!(words.contains("is damaged at byte"), "{words}");
}

#[test]
fn two_stores_cannot_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.txt");
    let (_process, _caller) = start(&file);
    let words = store_refuses(&file);
    assert!(words.contains("in use by another process"), "{words}");
}
