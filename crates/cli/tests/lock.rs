//! `fencepost lock` as people use it: real processes, a real server.

mod lock_support;

use std::fs;
use std::process::Stdio;

use lock_support::{Running, Server, program};
use rustix::process::Signal;

/// A command that says that it runs, and ends when it is sent a line.
const WAITS: &str = "echo up; read line; echo down";

fn lock<'a>(arguments: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let mut all = vec!["lock", "job"];
    all.extend(arguments);
    all.extend(["--", "sh", "-c", script]);
    all
}

#[test]
fn the_command_is_told_its_lock_and_a_token_that_rises() {
    let server = Server::start();
    let script = "echo $FENCEPOST_LOCK $FENCEPOST_TOKEN $FENCEPOST_LEASE $FENCEPOST_SIGNED_TOKEN";
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let (code, out, _) = server.output(&lock(&[], script));
        assert_eq!(code, 0);
        let words: Vec<&str> = out.split_whitespace().collect();
        let [name, token, lease, signed] = words[..] else { panic!("{out}") };
        assert_eq!(signed.split('.').count(), 3, "{signed}");
        assert_eq!(name, "job");
        assert!(i64::from_str_radix(lease, 16).is_ok_and(|lease| lease > 0), "{lease}");
        tokens.push(token.parse::<i64>().expect("a number"));
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn two_commands_run_one_after_the_other() {
    let server = Server::start();
    let script = "echo begin >> order; echo up; read line; echo end >> order";
    let mut first = server.run(&lock(&[], script));
    assert_eq!(first.line(), "up");
    let mut second = server.run(&lock(&[], script));
    let told = second.told("waiting for job");
    assert!(told.contains("held by fencepost-lock-") && told.contains("1 of 1"), "{told}");
    first.write("go\n");
    assert_eq!(second.line(), "up");
    second.write("go\n");
    assert_eq!((first.code(), second.code()), (0, 0));
    let order = fs::read_to_string(server.file("order")).expect("it was written");
    assert_eq!(order, "begin\nend\nbegin\nend\n");
}

#[test]
fn a_lock_that_is_not_to_be_had_has_its_own_exit_code() {
    let server = Server::start();
    let mut first = server.run(&lock(&[], WAITS));
    assert_eq!(first.line(), "up");
    let (code, out, err) = server.output(&lock(&["--try"], "echo ran"));
    assert_eq!((code, out.as_str()), (124, ""));
    assert!(err.contains("cannot get the lock job"), "{err}");
    assert_eq!(server.output(&lock(&["--wait", "100ms"], "echo ran")).0, 124);
    let (code, out, err) = server.output(&lock(&["--try", "-E", "7", "-q"], "echo ran"));
    assert_eq!((code, out.as_str(), err.as_str()), (7, "", ""));
    first.write("go\n");
    assert_eq!(first.code(), 0);
    assert_eq!(server.output(&lock(&["--try"], "echo ran")).1, "ran\n");
}

#[test]
fn exit_codes_are_those_of_timeout() {
    let server = Server::start();
    assert_eq!(server.output(&lock(&[], "exit 3")).0, 3);
    assert_eq!(server.output(&lock(&[], "kill -TERM $$")).0, 143);
    assert_eq!(server.output(&lock(&[], "kill -KILL $$")).0, 137);
    fs::write(server.file("plain"), "no program").expect("it can be written");
    let (code, _, err) = server.output(&["lock", "job", "--", "./plain"]);
    assert_eq!(code, 126, "{err}");
    assert!(err.contains("cannot run ./plain"), "{err}");
    assert_eq!(server.output(&["lock", "job", "--", "./nothing"]).0, 127);
}

#[test]
fn what_fails_beside_the_command_is_not_taken_for_its_code() {
    let server = Server::start();
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nobody = format!("http://{}", free.local_addr().expect("it is bound"));
    drop(free);
    let arguments = ["lock", "job", "--endpoints", &nobody, "--timeout", "300ms", "--", "true"];
    let (code, _, err) = server.output(&arguments);
    assert_eq!(code, 125, "{err}");
    let (code, _, err) = server.output(&lock(&["--ttl", "10s", "--grace", "9s"], "echo ran"));
    assert_eq!(code, 2);
    assert!(err.contains("a grace of 9s does not fit into a TTL of 10s"), "{err}");
    assert_eq!(err.lines().count(), 3, "{err}");
}

#[test]
fn signals_are_passed_on_to_the_group() {
    let server = Server::start();
    let script = "for s in INT TERM HUP QUIT USR1 USR2 WINCH; do trap \"echo $s\" $s; done
        echo up
        while :; do read line && exit 5; done";
    let mut running = server.run(&lock(&[], script));
    assert_eq!(running.line(), "up");
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
    ] {
        running.signal(signal);
        assert_eq!(running.line(), name);
    }
    running.write("go\n");
    assert_eq!(running.code(), 5);
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let server = Server::start();
    let fencepost = env!("CARGO_BIN_EXE_fencepost");
    let inner = "trap 'echo heard' USR1; echo up; while :; do read line && exit 5; done";
    let outer = format!("trap '' HUP; exec {fencepost} lock job -- sh -c \"{inner}\"");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &outer]).env("FENCEPOST_ENDPOINTS", server.endpoint());
    let mut running = Running::start(command);
    assert_eq!(running.line(), "up");
    running.signal(Signal::HUP);
    // Signals are passed on in a fixed order: this one would come after.
    running.signal(Signal::USR1);
    assert_eq!(running.line(), "heard");
    running.write("go\n");
    assert_eq!(running.code(), 5);
}

#[test]
fn standard_input_is_the_commands() {
    let server = Server::start();
    let mut running = server.run(&["lock", "job", "--", "cat"]);
    running.write("one\ntwo\n");
    assert_eq!((running.line(), running.line()), ("one".to_owned(), "two".to_owned()));
    // Waiting closes it, and the command sees that too.
    assert_eq!(running.code(), 0);
}

// Requirements: S0-134.
#[test]
fn without_a_command_it_is_held_until_interrupted() {
    let server = Server::start();
    let mut running = server.run(&["lock", "job"]);
    let line = running.line();
    let (key, token) = line.split_once(' ').expect("a key and a token");
    let lease = key.strip_prefix("job/").expect("it is the name of the lock and a lease");
    let (_, shown, _) = server.output(&["lease", "show", lease, "-o", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!(shown["ttl_ms"], 30_000, "{shown}");
    assert!(token.parse::<i64>().is_ok_and(|token| token > 0), "{line}");
    assert_eq!(server.output(&lock(&["--try"], "echo ran")).0, 124);
    running.signal(Signal::INT);
    assert_eq!(running.code(), 0);
    let mut running = server.run(&["lock", "job", "--try", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&running.line()).expect("a document");
    assert_eq!(json["name"], "job");
    assert!(json["token"].as_i64() > token.parse().ok(), "{json}");
    assert_eq!(json["key"], format!("job/{}", json["lease"].as_str().expect("a text")));
    running.signal(Signal::TERM);
    assert_eq!(running.code(), 0);
}

#[test]
fn a_waiter_that_is_interrupted_leaves_the_queue() {
    let server = Server::start();
    let mut first = server.run(&lock(&[], WAITS));
    assert_eq!(first.line(), "up");
    let mut second = server.run(&lock(&[], "echo ran"));
    second.told("waiting for job");
    second.signal(Signal::INT);
    assert_eq!(second.code(), 130);
    first.write("go\n");
    assert_eq!(first.code(), 0);
    // Its lease would still live for half a minute.
    assert_eq!(server.output(&lock(&["--try"], "echo ran")).1, "ran\n");
}

#[test]
fn what_a_command_leaves_behind_ends_before_the_lock_is_given_back() {
    let server = Server::start();
    let script = "exec 9> held; flock 9; (trap '' TERM; sleep 600) & echo up";
    let mut first = server.run(&lock(&["--grace", "200ms"], script));
    assert_eq!(first.line(), "up");
    let next = "flock -n held echo alone || echo together";
    assert_eq!(server.output(&lock(&[], next)).1, "alone\n");
    assert_eq!(first.code(), 0);
    assert!(first.rest_told().iter().any(|line| line.contains("left processes behind")));
}

#[test]
fn shared_locks_are_held_together_and_permits_are_counted() {
    let server = Server::start();
    for mode in [&["--shared"][..], &["--permits", "2"]] {
        let mut both = [server.run(&lock(mode, WAITS)), server.run(&lock(mode, WAITS))];
        for one in &both {
            assert_eq!(one.line(), "up");
        }
        assert_eq!(server.output(&lock(&["--try"], "echo ran")).0, 124);
        for one in &mut both {
            one.write("go\n");
            assert_eq!(one.code(), 0);
        }
    }
}

// Requirements: S2-011.
#[test]
fn a_release_that_is_not_confirmed_does_not_hide_the_commands_code() {
    let server = Server::start();
    let script = "echo up; read line; exit 5";
    let mut running = server.run(&lock(&["--timeout", "300ms"], script));
    assert_eq!(running.line(), "up");
    server.signal(Signal::STOP);
    running.write("go\n");
    assert_eq!(running.code(), 5);
    let told = running.rest_told().join("\n");
    assert!(told.contains("it will be free when its lease ends"), "{told}");
}

/// `script` gives the command a terminal, as if somebody sat at it.
#[test]
fn on_a_terminal_the_command_can_read_and_the_terminal_is_given_back() {
    let server = Server::start();
    let fencepost = env!("CARGO_BIN_EXE_fencepost");
    // The second command is the shell's own, and must be able to read again.
    let line = format!(
        "{fencepost} lock job -- sh -c 'echo up; read line; echo got-$line'; read line; echo own-$line"
    );
    let mut command = std::process::Command::new("script");
    command.args(["-qec", &line, "/dev/null"]);
    command.env("FENCEPOST_ENDPOINTS", server.endpoint()).env("SHELL", "/bin/sh");
    let mut running = Running::start(command);
    let wait_for = |running: &Running, wanted: &str| {
        while running.line().trim_end() != wanted {}
    };
    wait_for(&running, "up");
    running.write("one\n");
    wait_for(&running, "got-one");
    running.write("two\n");
    wait_for(&running, "own-two");
    assert_eq!(running.code(), 0);
}

#[test]
fn the_helpers_are_not_in_the_help() {
    let output = program().arg("--help").stdin(Stdio::null()).output().expect("it can be run");
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(help.contains("lock") && help.contains("elect"), "{help}");
    assert!(!help.contains("__"), "{help}");
}

#[test]
fn a_name_that_begins_with_a_dash_can_be_locked() {
    let server = Server::start();
    let script = ["--", "sh", "-c", "echo $FENCEPOST_LOCK"];
    let (code, out, err) = server.output(&[&["lock", "--name=-d"][..], &script].concat());
    assert_eq!((code, out.as_str()), (0, "-d\n"), "{err}");
    let elect = [&["elect", "--name=-d", "me"][..], &script].concat();
    assert_eq!(server.output(&elect).1, "-d\n");
    assert_eq!(server.output(&["lock", "job", "--name=-d", "--", "true"]).0, 2);
    assert_eq!(server.output(&["lock", "--", "true"]).0, 2);
    assert_eq!(server.output(&["elect", "--name=-d"]).0, 2);
}

#[test]
fn dashes_with_nothing_behind_them_hold_no_lock() {
    let server = Server::start();
    let (code, _, err) = server.output(&["lock", "job", "--"]);
    assert_eq!(code, 2);
    assert!(err.contains("no command after --") && err.lines().count() == 3, "{err}");
}

#[test]
fn a_ttl_that_makes_no_sense_is_explained() {
    let server = Server::start();
    let (code, _, err) = server.output(&lock(&["--ttl", "10ms"], "true"));
    assert_eq!(code, 2);
    assert!(err.contains("a TTL of 10ms is too short") && !err.contains("grace"), "{err}");
    for flag in ["--ttl", "--wait", "--grace"] {
        let (code, _, err) = server.output(&lock(&[flag, "10"], "true"));
        assert_eq!(code, 2);
        assert!(err.contains("a length of time is written as 500ms, 30s, 5m or 1h"), "{err}");
    }
}

#[test]
fn a_holder_says_who_it_is_unless_told_not_to() {
    let server = Server::start();
    let metadata = |arguments: &[&str]| {
        let mut holder = server.run(&lock(arguments, WAITS));
        assert_eq!(holder.line(), "up");
        let (code, out, err) = server.output(&["show", "job", "-o", "json"]);
        assert_eq!(code, 0, "{err}");
        let shown: serde_json::Value = serde_json::from_str(&out).expect("a document");
        let listed = server.output(&["ls"]).1;
        let denied = server.output(&lock(&["--try"], "true")).2;
        let pid = holder.pid().as_raw_pid();
        holder.write("go\n");
        assert_eq!(holder.code(), 0);
        let text = shown["holders"][0]["metadata"].as_str().expect("a text").to_owned();
        assert!(listed.contains(&text) && denied.contains(&text), "{listed} {denied}");
        (text, pid)
    };
    let (text, pid) = metadata(&[]);
    assert!(text.contains('@') && text.ends_with(&format!(", pid {pid}, running sh")), "{text}");
    assert_eq!(metadata(&["--meta", "nightly"]).0, "nightly");
    assert_eq!(metadata(&["--no-meta"]).0, "");
}

#[test]
fn who_waits_is_told_who_holds() {
    let server = Server::start();
    let mut first = server.run(&lock(&["--meta", "the nightly\u{1b}[2J job"], WAITS));
    assert_eq!(first.line(), "up");
    let second = server.run(&lock(&[], "true"));
    let told = second.told("waiting for job");
    assert!(told.contains("(the nightly\\u{1b}[2J job)"), "{told}");
    first.write("go\n");
    assert_eq!(first.code(), 0);
}

#[test]
fn a_plain_key_in_the_way_is_named_with_what_clears_it() {
    let server = Server::start();
    assert_eq!(server.output(&["kv", "put", "job/abc", "x"]).0, 0);
    let (code, _, err) = server.output(&lock(&["--try"], "true"));
    assert_eq!(code, 124);
    for part in ["the key job/abc", "a plain key", "fencepost kv del job/abc"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let shown = server.output(&["show", "job"]).1;
    assert!(shown.contains("fencepost kv del job/abc"), "{shown}");
    let mut waits = server.run(&lock(&[], "true"));
    let told = waits.told("waiting for job");
    assert!(told.contains("the key job/abc") && !told.contains("free soon"), "{told}");
    assert_eq!(server.output(&["kv", "del", "job/abc"]).0, 0);
    assert_eq!(waits.code(), 0);
}

#[test]
fn a_lock_leaves_no_lease_behind() {
    let server = Server::start();
    let leases = || server.output(&["lease", "ls", "-o", "json"]).1;
    assert_eq!(server.output(&lock(&["--ttl", "50m"], "true")).0, 0);
    assert_eq!(leases(), "{\"leases\":[]}\n");
    let client = server.client();
    client.lock("other").acquire().expect("it is free").release().expect("it is held");
    // The next acquire could have used it; it is given back soon if there is none.
    while leases() != "{\"leases\":[]}\n" {}
    let mut denied = server.run(&lock(&[], WAITS));
    assert_eq!(denied.line(), "up");
    assert_eq!(server.output(&lock(&["--try"], "true")).0, 124);
    denied.write("go\n");
    assert_eq!(denied.code(), 0);
    assert_eq!(leases(), "{\"leases\":[]}\n");
}

#[test]
fn a_server_that_answers_nothing_does_not_hide_the_others() {
    let server = Server::start();
    // The system takes connections for them, and nothing reads what is sent.
    let silent: Vec<_> =
        (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let address = |one: &std::net::TcpListener| one.local_addr().expect("it is bound").to_string();
    let mut endpoints: Vec<String> = silent.iter().map(address).collect();
    endpoints.push(server.endpoint().to_owned());
    let endpoints = endpoints.join(",");
    let (code, out, err) = server.output(&lock(&["--endpoints", &endpoints], "echo ran"));
    assert_eq!((code, out.as_str()), (0, "ran\n"), "{err}");
}
