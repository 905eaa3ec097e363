//! The lock is lost in every way that there is, and nothing of the command is left when somebody
//! else gets it.
//!
//! How that is seen: every process of the first command inherits an open file that is locked with
//! flock(1). The system gives that lock up when the last of them has ended. The next command looks,
//! as the first thing it does, whether the file is locked.

mod lock_support;

use fencepost_client::Token;
use lock_support::{Pipe, Running, Server, watchdog_of};
use rustix::process::{Signal, kill_process};

/// Processes in the group, a child and a grandchild, that do not care about TERM.
const STUBBORN: &str = "trap '' TERM; exec 9> held; flock 9; sh -c 'sleep 600 & sleep 600' & \
                        echo up; wait";
/// The same, and one that has left the group.
const SCATTERED: &str = "trap '' TERM; exec 9> held; flock 9; setsid sleep 600 & \
                         sh -c 'sleep 600 & sleep 600' & echo up; wait";
/// A program whose first thread has ended while another one goes on.
const HEADLESS: &str = "import ctypes, threading, time\n\
                        threading.Thread(target=time.sleep, args=(600,)).start()\n\
                        print('up', flush=True)\n\
                        ctypes.CDLL(None).pthread_exit(None)";
/// What the next holder does first.
const LOOKS: &str = "flock -n held echo alone || echo together";

fn start(server: &Server, ttl: &str, script: &str) -> Running {
    let running = server.run(&["lock", "job", "--ttl", ttl, "--", "sh", "-c", script]);
    assert_eq!(running.line(), "up");
    running
}

/// The next in line, as soon as it stands in the queue.
fn next(server: &Server) -> Running {
    let running = server.run(&["lock", "job", "--", "sh", "-c", LOOKS]);
    running.told("waiting for job");
    running
}

#[test]
fn a_frozen_server_costs_the_lock() {
    let server = Server::start();
    let pipe = Pipe::make(&server.file("pipe"));
    let script = format!("exec 8> pipe; {SCATTERED}");
    let mut running = start(&server, "3s", &script);
    // It stays so. That all has ended before another one can hold the lock is shown by
    // `lock_partition.rs`, where the service goes on.
    server.signal(Signal::STOP);
    pipe.wait_until_closed();
    assert_eq!(running.code(), 122);
    let told = running.rest_told().join("\n");
    assert!(told.contains("the lock job was lost: no renewal was confirmed in time"), "{told}");
}

#[test]
fn a_command_that_heeds_term_can_tidy_up() {
    let server = Server::start();
    let script = "trap 'echo tidy; exit 0' TERM; echo up; while :; do read line; done";
    let mut running = start(&server, "1s", script);
    server.signal(Signal::STOP);
    assert_eq!(running.line(), "tidy");
    assert_eq!(running.code(), 122);
}

#[test]
fn a_killed_server_costs_the_lock() {
    let server = Server::start();
    let mut running = start(&server, "1s", STUBBORN);
    server.signal(Signal::KILL);
    assert_eq!(running.code(), 122);
}

#[test]
fn a_frozen_supervisor_leaves_nothing_running() {
    let server = Server::start();
    let mut first = start(&server, "2s", SCATTERED);
    let next = next(&server);
    first.signal(Signal::STOP);
    assert_eq!(next.line(), "alone");
    first.signal(Signal::CONT);
    assert_eq!(first.code(), 122);
}

// Requirements: S4-006, S4-011.
#[test]
fn a_killed_supervisor_leaves_nothing_running() {
    let server = Server::start();
    let mut first = start(&server, "2s", STUBBORN);
    let next = next(&server);
    first.signal(Signal::KILL);
    assert_eq!(next.line(), "alone");
    assert_eq!(first.code(), 137);
}

/// If both are killed at once, only the command itself is promised to die.
#[test]
fn without_a_watchdog_the_command_still_dies_with_its_supervisor() {
    let server = Server::start();
    let mut first = start(&server, "2s", "exec 9> held; flock 9; echo up; exec sleep 600");
    let next = next(&server);
    let watchdog = watchdog_of(first.pid());
    kill_process(watchdog, Signal::STOP).expect("it runs");
    first.signal(Signal::KILL);
    assert_eq!(next.line(), "alone");
    kill_process(watchdog, Signal::KILL).expect("it stands still");
    assert_eq!(first.code(), 137);
}

#[test]
fn a_killed_watchdog_is_replaced() {
    let server = Server::start();
    let first = start(&server, "2s", STUBBORN);
    let next = next(&server);
    let watchdog = watchdog_of(first.pid());
    kill_process(watchdog, Signal::KILL).expect("it runs");
    first.told("another one has taken its place");
    first.signal(Signal::STOP);
    assert_eq!(next.line(), "alone");
}

#[test]
fn an_operator_who_asks_gets_the_lock_when_the_command_has_ended() {
    let server = Server::start();
    let script = "exec 9> held; flock 9; trap 'echo asked; exit' TERM; sleep 600 & echo up; wait";
    let mut first = start(&server, "30s", script);
    let next = next(&server);
    let (client, token) = (server.client(), token(&server));
    client.force_release("job", token, "maintenance", false).expect("it is held");
    assert_eq!(first.line(), "asked");
    assert_eq!(next.line(), "alone");
    assert_eq!(first.code(), 122);
    let told = first.rest_told().join("\n");
    assert!(told.contains("an operator asks for it"), "{told}");
}

#[test]
fn what_is_taken_away_at_once_is_ended_at_once() {
    let server = Server::start();
    for takes_lease in [false, true] {
        let pipe = server.file(if takes_lease { "first" } else { "second" });
        let all = Pipe::make(&pipe);
        let mut running =
            start(&server, "30s", &format!("exec 8> {}; {SCATTERED}", pipe.display()));
        let client = server.client();
        if takes_lease {
            let lock = client.get_lock("job").expect("it is there");
            client.revoke_lease(lock.holders[0].lease_id).expect("it lives");
        } else {
            client.force_release("job", token(&server), "now", true).expect("it is held");
        }
        all.wait_until_closed();
        assert_eq!(running.code(), 122);
    }
}

/// Such a program looks like one that has ended.
#[test]
fn a_program_whose_first_thread_has_ended_is_no_dead_one() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        fencepost_testkit::skip("python3 is missing", "apt-get install python3");
        return;
    }
    let server = Server::start();
    std::fs::write(server.file("headless.py"), HEADLESS).expect("the folder is there");
    // Left behind by a command that ends, and as the command itself when the lock is lost.
    let left = "exec 9> held; flock 9; python3 headless.py & read line";
    let mut first = start(&server, "30s", left);
    let after = next(&server);
    first.write("\n");
    assert_eq!(after.line(), "alone");
    assert_eq!(first.code(), 0);
    let mut first = start(&server, "30s", "exec 9> held; flock 9; exec python3 headless.py");
    let after = next(&server);
    let client = server.client();
    client.force_release("job", token(&server), "maintenance", false).expect("it is held");
    assert_eq!(after.line(), "alone");
    assert_eq!(first.code(), 122);
}

#[test]
fn a_watchdog_does_not_end_because_it_is_asked_to() {
    let server = Server::start();
    let first = start(&server, "2s", STUBBORN);
    let after = next(&server);
    let watchdog = watchdog_of(first.pid());
    first.signal(Signal::STOP);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill_process(watchdog, signal).expect("it runs");
    }
    assert_eq!(after.line(), "alone");
}

#[test]
fn a_holder_without_a_command_is_told() {
    let server = Server::start();
    let mut running = server.run(&["lock", "job", "--ttl", "1s"]);
    running.line();
    server.signal(Signal::STOP);
    assert_eq!(running.code(), 122);
}

fn token(server: &Server) -> Token {
    let lock = server.client().get_lock("job").expect("it is there");
    Token(lock.holders[0].fencing_token)
}
