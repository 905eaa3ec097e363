//! What the tests of the command share: real processes on loopback.
//!
//! Guarantees: a process that a test starts is gone when the test is over. Nothing here sleeps:
//! a test waits for a line that a process writes, or asks until the answer is right.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

pub(crate) use fencepost_testkit::free_port;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything here takes on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn folder() -> TempDir {
    TempDir::new().expect("there is room for a folder")
}

/// The command, without anything of the environment that it would listen to.
pub(crate) fn command<A: AsRef<OsStr>>(home: &Path, args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FENCEPOST_") || name == "NOTIFY_SOCKET" {
            command.env_remove(name);
        }
    }
    command.args(args).current_dir(home).stdin(Stdio::null());
    command
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn of(mut command: Command) -> Done {
        let output = command.output().expect("the command can be run");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it speaks UTF-8");
        Done {
            code: output.status.code().expect("it ends by itself"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// What it wrote, if it did what it should.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    #[track_caller]
    pub(crate) fn json(self) -> Value {
        Done { out: self.good(), code: 0, err: String::new() }.document()
    }

    /// What it wrote, whatever its exit code is.
    #[track_caller]
    pub(crate) fn document(self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "one document on one line: {self:?}");
        serde_json::from_str(&self.out).expect("it is JSON")
    }

    /// The three lines of an error. A server may log before them, as where few files can be open.
    #[track_caller]
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        let logged = self.err.lines().take_while(|line| line.contains(" INFO ")).count();
        let error: String = self.err.split_inclusive('\n').skip(logged).collect();
        assert!(error.starts_with("error: "), "{self:?}");
        assert_eq!(error.lines().count(), 3, "what, why and what to do: {self:?}");
        error
    }
}

/// The shape of a document: names and kinds, without values.
pub(crate) fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(all) => format!("[{}]", all.first().map(shape).unwrap_or_default()),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name}:{}", shape(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
    }
}

/// Lines that a process has written, for those who wait for one.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Board>);

#[derive(Default)]
struct Board {
    written: Mutex<Written>,
    changed: Condvar,
}

#[derive(Default)]
struct Written {
    lines: Vec<String>,
    is_over: bool,
}

impl Lines {
    pub(crate) fn read(from: impl Read + Send + 'static) -> Lines {
        let lines = Lines::default();
        let ours = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                ours.change(|written| written.lines.push(line));
            }
            ours.change(|written| written.is_over = true);
        });
        lines
    }

    fn change(&self, change: impl FnOnce(&mut Written)) {
        change(&mut self.0.written.lock().expect("nobody panics with it"));
        self.0.changed.notify_all();
    }

    /// All lines up to now.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.written.lock().expect("nobody panics with it").lines.clone()
    }

    /// Waits for a line that contains this.
    #[track_caller]
    pub(crate) fn wait_for(&self, part: &str) -> String {
        let found = |lines: &[String]| lines.iter().find(|line| line.contains(part)).cloned();
        let lines = self.wait_until(|lines| found(lines).is_some());
        found(&lines).unwrap_or_else(|| panic!("no line with {part:?} in {lines:#?}"))
    }

    /// Waits until so many lines are there.
    #[track_caller]
    pub(crate) fn wait_for_count(&self, count: usize) -> Vec<String> {
        let lines = self.wait_until(|lines| lines.len() >= count);
        assert!(lines.len() >= count, "fewer than {count} lines: {lines:#?}");
        lines
    }

    /// Waits until the lines are as wanted, no more can come, or patience is over.
    fn wait_until(&self, is_done: impl Fn(&[String]) -> bool) -> Vec<String> {
        let written = self.0.written.lock().expect("nobody panics with it");
        let waited = self.0.changed.wait_timeout_while(written, PATIENCE, |written| {
            !is_done(&written.lines) && !written.is_over
        });
        waited.expect("nobody panics with it").0.lines.clone()
    }
}

/// A process that goes on until it is told to end.
pub(crate) struct Running {
    child: Child,
    pub(crate) out: Lines,
    pub(crate) err: Lines,
}

impl Running {
    /// Starts it with standard error in the hands of the test.
    pub(crate) fn with_stderr(mut command: Command, stderr: impl Into<Stdio>) -> Running {
        command.stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("the command can be run");
        let out = Lines::read(child.stdout.take().expect("it was asked for"));
        Running { child, out, err: Lines::default() }
    }

    pub(crate) fn start(mut command: Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command can be run");
        let out = Lines::read(child.stdout.take().expect("it was asked for"));
        let err = Lines::read(child.stderr.take().expect("it was asked for"));
        Running { child, out, err }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("it is a process");
        let pid = Pid::from_raw(pid).expect("it is a process");
        kill_process(pid, signal).expect("it runs");
        if signal == Signal::STOP {
            until(|| self.is_stopped());
        }
    }

    /// Whether all its threads stand still: those on other processors go on for a moment.
    fn is_stopped(&self) -> Result<(), String> {
        let tasks = format!("/proc/{}/task", self.child.id());
        for task in std::fs::read_dir(tasks).map_err(|why| why.to_string())? {
            let task = task.map_err(|why| why.to_string())?.path().join("stat");
            let stat = std::fs::read(&task).map_err(|why| why.to_string())?;
            let stat = String::from_utf8_lossy(&stat).into_owned();
            let state = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned());
            if !state.is_some_and(|state| state.starts_with('T')) {
                return Err(stat);
            }
        }
        Ok(())
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it is a child of this process")
    }

    /// Tells it to end, and waits for it.
    pub(crate) fn end(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended before.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How a server is to be started.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) home: PathBuf,
    pub(crate) data: String,
    pub(crate) clients: u16,
    pub(crate) peers: u16,
    pub(crate) more: Vec<String>,
}

impl Plan {
    /// On any ports.
    pub(crate) fn new(home: &Path) -> Plan {
        let home = home.to_owned();
        Plan { home, data: "data".to_owned(), clients: 0, peers: 0, more: Vec::new() }
    }

    pub(crate) fn with(mut self, args: &[&str]) -> Plan {
        self.more.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    pub(crate) fn command(&self) -> Command {
        let listen = format!("127.0.0.1:{}", self.clients);
        let peer_listen = format!("127.0.0.1:{}", self.peers);
        let usual = ["serve", "--data-dir", &self.data, "--listen", &listen];
        let mut command = command(&self.home, usual);
        command.args(["--peer-listen", &peer_listen]).args(&self.more);
        command
    }

    /// Starts it, and waits until it is ready.
    pub(crate) fn start(&self) -> Server {
        Server::ready(self.begin())
    }

    /// Starts it, without waiting.
    pub(crate) fn begin(&self) -> Running {
        Running::start(self.command())
    }
}

/// A server that is ready.
pub(crate) struct Server {
    pub(crate) process: Running,
    pub(crate) endpoint: String,
    pub(crate) peer: String,
}

impl Server {
    pub(crate) fn ready(process: Running) -> Server {
        // The last line of what it says then.
        process.err.wait_for("  data  ");
        let word = |label: &str| {
            let line = process.err.wait_for(label);
            line.split_whitespace().nth(1).expect("it has a value").to_owned()
        };
        let (endpoint, peer) = (word("  clients  "), word("  members  "));
        Server { process, endpoint, peer }
    }

    /// One server with everything as usual.
    pub(crate) fn alone(home: &Path) -> Server {
        Plan::new(home).start()
    }

    /// Runs a verb against this server.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        let home = std::env::temp_dir();
        Done::of(command(&home, ["--endpoints", &self.endpoint].iter().chain(args)))
    }

    /// Runs a verb against this server that goes on.
    pub(crate) fn begin(&self, args: &[&str]) -> Running {
        let home = std::env::temp_dir();
        Running::start(command(&home, ["--endpoints", &self.endpoint].iter().chain(args)))
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["-o", "json"]].concat()).json()
    }

    /// How the cluster is, also if it is not well.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.run(&["status", "-o", "json"]).document()
    }
}

/// A page over plain HTTP, with its status line and headers. `from` is a host and a port.
pub(crate) fn page(from: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(from).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {from}\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    page
}

/// Asks until the answer is there.
#[track_caller]
pub(crate) fn until<T: Debug, E: Debug>(mut ask: impl FnMut() -> Result<T, E>) -> T {
    #[expect(clippy::disallowed_methods, reason = "a bound on waiting for real processes")]
    let now = std::time::Instant::now;
    let begin = now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(why) if now() - begin > PATIENCE => panic!("it did not come: {why:?}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}
