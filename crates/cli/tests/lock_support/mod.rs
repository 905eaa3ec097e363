//! Real processes for the tests of `lock` and `elect`: a server on a free port, and commands whose
//! lines are waited for.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use fencepost_client::blocking;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Only reached by a test that fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LINES_MAX: usize = 10_000;

/// A cluster of one, and a folder for what the test's commands write.
pub(crate) struct Server {
    child: Child,
    endpoint: String,
    folder: TempDir,
}

impl Server {
    pub(crate) fn start() -> Server {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = program();
        command.args(["serve", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(folder.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program was built");
        let lines = read_lines(child.stderr.take().expect("it is piped"));
        let line = find(&lines, |line| line.trim_start().starts_with("clients "));
        let endpoint = line.split_whitespace().nth(1).expect("an address").to_owned();
        Server { child, endpoint, folder }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// A file of the test's own.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn client(&self) -> blocking::Client {
        let builder = fencepost_client::Client::builder().endpoint(&self.endpoint);
        blocking::Client::connect(builder).expect("the server runs")
    }

    /// A verb that talks to this server, in the test's folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.args(arguments);
        command.env("FENCEPOST_ENDPOINTS", &self.endpoint).current_dir(self.folder.path());
        command
    }

    /// Starts such a verb.
    pub(crate) fn run(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    /// A verb from beginning to end: its exit code and what it has written.
    pub(crate) fn output(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(arguments).stdin(Stdio::null()).output().expect("it can be run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().expect("it was not killed");
        (code, text(&output.stdout), text(&output.stderr))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Also if it stands still.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program under test, without settings from outside.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FENCEPOST_") {
            command.env_remove(name);
        }
    }
    command
}

/// A process whose lines are read as they come.
pub(crate) struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program was built");
        let out = read_lines(child.stdout.take().expect("it is piped"));
        let err = read_lines(child.stderr.take().expect("it is piped"));
        Running { child, out, err }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// The next line of standard output.
    pub(crate) fn line(&self) -> String {
        self.out.recv_timeout(PATIENCE).unwrap_or_else(|error| {
            let told: Vec<String> = self.err.try_iter().collect();
            panic!("no line came ({error}), but this was told: {told:#?}")
        })
    }

    /// Waits for such a line on standard error.
    pub(crate) fn told(&self, part: &str) -> String {
        find(&self.err, |line| line.contains(part))
    }

    pub(crate) fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("it is piped");
        stdin.write_all(text.as_bytes()).expect("somebody reads");
    }

    /// Waits for its end; then the exit code, or 128 and the signal.
    pub(crate) fn code(&mut self) -> i32 {
        code(self.child.wait().expect("it is a child"))
    }

    /// What is left on standard error after the end.
    pub(crate) fn rest_told(&self) -> Vec<String> {
        self.err.iter().collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

fn read_lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(LINES_MAX);
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            // Read on even if nobody wants the lines: a writer that is cut off would fail.
            let _ = sender.try_send(line);
        }
    });
    receiver
}

/// The next line that fits.
fn find(lines: &Receiver<String>, fits: impl Fn(&str) -> bool) -> String {
    let mut seen = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if fits(&line) => return line,
            Ok(line) => seen.push(line),
            Err(RecvTimeoutError::Disconnected) => panic!("ended after {seen:#?}"),
            Err(RecvTimeoutError::Timeout) => panic!("nothing came after {seen:#?}"),
        }
    }
}

/// Resolves when nobody has the pipe at `path` open for writing any more, after somebody had.
pub(crate) struct Pipe {
    ended: Receiver<()>,
}

impl Pipe {
    pub(crate) fn make(path: &Path) -> Pipe {
        let made = Command::new("mkfifo").arg(path).status().expect("mkfifo is there");
        assert!(made.success());
        let (sender, ended) = sync_channel(1);
        let path = path.to_owned();
        thread::spawn(move || {
            let mut read = Vec::new();
            let mut pipe = std::fs::File::open(path).expect("it was made");
            pipe.read_to_end(&mut read).expect("it can be read");
            sender.send(()).expect("somebody waits");
        });
        Pipe { ended }
    }

    pub(crate) fn wait_until_closed(&self) {
        self.ended.recv_timeout(PATIENCE).expect("everybody who has it open ends");
    }
}

/// The watchdog of a supervisor.
pub(crate) fn watchdog_of(supervisor: Pid) -> Pid {
    let parent = format!(" {} ", supervisor.as_raw_pid());
    for entry in std::fs::read_dir("/proc").expect("it is there").flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((pid, rest)) = stat.split_once(" (lock-watchdog) ") else { continue };
        if rest.get(1..).is_some_and(|rest| rest.starts_with(&parent)) {
            return Pid::from_raw(pid.parse().expect("a number")).expect("not zero");
        }
    }
    panic!("there is no watchdog");
}
