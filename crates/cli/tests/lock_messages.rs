//! Messages of `fencepost lock` that are not read: neither the lock nor the command waits for them.

mod lock_support;

use std::fs;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use fencepost_client::Token;
use lock_support::{Pipe, Running, Server, watchdog_of};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal, kill_process};

/// A pipe with no room for another byte.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("there is room for a pipe");
    let size = fcntl_setpipe_size(&writer, 4_096).expect("it may be smaller");
    writer.write_all(&vec![b'x'; size]).expect("there is room for so much");
    (reader, writer)
}

/// A verb whose standard error nobody reads.
struct Unread {
    child: Child,
    /// Open, so that writing waits and does not fail.
    reader: PipeReader,
}

impl Unread {
    fn start(mut command: Command) -> Unread {
        let (reader, writer) = full_pipe();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
        Unread { child: command.spawn().expect("the program was built"), reader }
    }

    fn run(server: &Server, arguments: &[&str]) -> Unread {
        Unread::start(server.command(arguments))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it runs");
    }

    /// Waits until it has a message that is not read.
    fn wait_until_blocked(&self) {
        wait_until_blocked(self.pid(), 2);
    }

    /// Its exit code. It has to end by itself.
    #[track_caller]
    fn code(&mut self) -> i32 {
        let mut status = None;
        until(|| {
            status = self.child.try_wait().expect("it is a child");
            status.is_some()
        });
        status.and_then(|status| status.code()).expect("it was not killed")
    }

    /// What is in the pipe after the end.
    #[track_caller]
    fn text(mut self) -> String {
        self.code();
        let mut text = String::new();
        self.reader.read_to_string(&mut text).expect("it is text");
        text
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a bound on waiting for real processes")]
    let now = std::time::Instant::now;
    let begin = now();
    while !is_so() {
        assert!(now() - begin < lock_support::PATIENCE, "it did not happen");
        std::thread::yield_now();
    }
}

/// Waits until a thread of a process waits for room to write to this descriptor.
#[track_caller]
fn wait_until_blocked(pid: Pid, descriptor: u8) {
    let tasks = format!("/proc/{}/task", pid.as_raw_pid());
    let is_blocked = |task: &Path| {
        // The first argument of the system call that it is in.
        let call = fs::read_to_string(task.join("syscall")).unwrap_or_default();
        call.split(' ').nth(1) == Some(&format!("{descriptor:#x}"))
    };
    until(|| {
        let tasks = fs::read_dir(&tasks).expect("it runs").flatten();
        tasks.into_iter().any(|task| is_blocked(&task.path()))
    });
}

fn force(server: &Server, name: &str, now: bool) {
    let client = server.client();
    let token = client.get_lock(name).expect("it is there").holders[0].fencing_token;
    client.force_release(name, Token(token), "maintenance", now).expect("it is held");
}

/// Whether the lock is free for the next.
fn is_free(server: &Server) -> bool {
    server.output(&["lock", "job", "--try", "--", "true"]).0 == 0
}

#[test]
fn granted_waiter_begins_although_its_message_is_not_read() {
    let server = Server::start();
    let mut holder = server.run(&["lock", "job"]);
    holder.line();
    let ran = server.file("ran");
    let script = format!("touch {}", ran.display());
    let mut waiter = Unread::run(&server, &["lock", "job", "--", "sh", "-c", &script]);
    // "waiting for job".
    waiter.wait_until_blocked();
    holder.signal(Signal::INT);
    assert_eq!(holder.code(), 0);
    assert_eq!(waiter.code(), 0);
    assert!(ran.exists());
    assert!(is_free(&server));
}

#[test]
fn unread_message_about_leftovers_delays_no_release() {
    let server = Server::start();
    let script = "sleep 600 & exit 3";
    let mut running = Unread::run(&server, &["lock", "job", "--", "sh", "-c", script]);
    assert_eq!(running.code(), 3);
    assert!(is_free(&server));
}

#[test]
fn unread_message_about_a_loss_delays_no_end() {
    let server = Server::start();
    let all = Pipe::make(&server.file("pipe"));
    let script = "exec 8> pipe; trap '' TERM; echo up > ready; sleep 600 & sleep 600";
    let mut running =
        Unread::run(&server, &["lock", "job", "--grace", "0s", "--", "sh", "-c", script]);
    until(|| fs::read(server.file("ready")).is_ok_and(|text| text == b"up\n"));
    force(&server, "job", true);
    all.wait_until_closed();
    assert_eq!(running.code(), 122);
}

#[test]
fn unread_message_about_a_watchdog_stops_no_renewal() {
    let server = Server::start();
    let all = Pipe::make(&server.file("pipe"));
    let script = "exec 8> pipe; echo up > ready; exec sleep 600";
    let mut running =
        Unread::run(&server, &["lock", "job", "--ttl", "2s", "--", "sh", "-c", script]);
    until(|| fs::read(server.file("ready")).is_ok_and(|text| text == b"up\n"));
    kill_process(watchdog_of(running.pid()), Signal::KILL).expect("it runs");
    // "another one has taken its place".
    running.wait_until_blocked();
    running.signal(Signal::TERM);
    all.wait_until_closed();
    assert_eq!(running.code(), 143);
    assert!(is_free(&server));
}

#[test]
fn missing_command_gives_the_lock_back_although_stderr_is_full() {
    let server = Server::start();
    let mut running = Unread::run(&server, &["lock", "job", "--", "/no/such/command"]);
    assert_eq!(running.code(), 127);
    assert!(is_free(&server));
}

#[test]
fn full_stdout_keeps_no_holder_from_giving_back() {
    let server = Server::start();
    for arguments in [&["lock", "job"][..], &["elect", "job", "me"]] {
        let (_reader, writer) = full_pipe();
        let mut command = server.command(arguments);
        command.stdout(writer).stderr(Stdio::piped()).stdin(Stdio::null());
        let mut child = command.spawn().expect("the program was built");
        let pid = Pid::from_child(&child);
        wait_until_blocked(pid, 1);
        kill_process(pid, Signal::TERM).expect("it runs");
        until(|| child.try_wait().expect("it is a child").is_some());
        let output = child.wait_with_output().expect("it has ended");
        assert_eq!(output.status.code(), Some(0));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("the key and the token were not written"), "{told}");
        assert!(is_free(&server));
    }
}

#[test]
fn closed_stdout_ends_a_holder_without_a_command() {
    let server = Server::start();
    let (reader, writer) = pipe().expect("there is room for a pipe");
    drop(reader);
    let mut command = server.command(&["lock", "job"]);
    command.stdout(writer).stderr(Stdio::piped()).stdin(Stdio::null());
    let output = command.output().expect("the program was built");
    assert_eq!(output.status.code(), Some(125));
    assert!(is_free(&server));
}

#[test]
fn message_is_written_whole_or_not_at_all() {
    let server = Server::start();
    let script = "sleep 600 & exit 0";
    let (code, _, err) = server.output(&["lock", "job", "--", "sh", "-c", script]);
    assert_eq!(code, 0);
    assert!(err.starts_with("fencepost: the command has ended and left processes"), "{err}");
    let running = Unread::run(&server, &["lock", "job", "--", "sh", "-c", script]);
    let text = running.text();
    assert!(text.chars().all(|letter| letter == 'x'), "{text}");
}

/// Without the list of processes nothing can be said about what is left of a command.
#[test]
fn command_without_proc_is_refused_before_the_lock_is_taken() {
    let hides = "mount -t tmpfs none /proc && exec \"$@\"";
    let hidden = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", hides, "sh", program]);
        command
    };
    let mut probe = hidden("true");
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        fencepost_testkit::skip("/proc cannot be hidden", "run the tests as root, with util-linux");
        return;
    }
    let server = Server::start();
    let mut command = hidden(env!("CARGO_BIN_EXE_fencepost"));
    command.args(["lock", "job", "--", "true"]);
    command.env("FENCEPOST_ENDPOINTS", server.endpoint());
    let mut running = Running::start(command);
    assert_eq!(running.code(), 125);
    let told = running.rest_told().join("\n");
    assert!(told.contains("/proc cannot be used") && told.contains("mount it"), "{told}");
    assert!(!told.contains("room for more processes"), "{told}");
    assert!(server.client().get_lock("job").is_ok_and(|lock| lock.fence_floor == 0), "{told}");
}
