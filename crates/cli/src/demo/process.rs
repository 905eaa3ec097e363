//! A process that the demo has started, and what it says.
//!
//! Guarantees: it is gone when this is dropped, also if it is stopped, and when the demo itself is
//! killed. What the terminal sends to the demo does not reach it. What it says is read to the end,
//! so that it never waits for a reader.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::failure::Failure;

/// How long a process may take to say what is waited for. On a busy machine everything is slow.
const PATIENCE: Duration = Duration::from_secs(20);
/// Lines that wait to be heard; far more than any of these processes says. Further ones are lost.
const LINES_MAX: usize = 1_024;
/// The last lines that were not waited for, in case that it fails.
const KEPT_MAX: usize = 5;

/// A running process.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    kept: VecDeque<String>,
}

impl Process {
    /// Starts a verb of this program in a directory, with nothing of the environment or of a
    /// configuration file that could change what it does.
    ///
    /// To be called on the main thread: the process dies with the thread that has started it.
    pub(super) fn start(name: &str, folder: &Path, args: &[&str]) -> anyhow::Result<Process> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let config = folder.join("no-settings.toml");
        std::fs::write(&config, "").context("cannot write into the temporary directory")?;
        let mut command = Command::new(program);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("FENCEPOST_") || variable == "NOTIFY_SOCKET" {
                command.env_remove(variable);
            }
        }
        command.arg("__kid").args(["--parent", &getpid().as_raw_pid().to_string()]);
        command.arg("--").args(args).arg("--config").arg(config);
        command.current_dir(folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start another process")?;
        let (tell, lines) = mpsc::channel(LINES_MAX);
        if let Some(stdout) = child.stdout.take() {
            listen(stdout, tell.clone());
        }
        if let Some(stderr) = child.stderr.take() {
            listen(stderr, tell);
        }
        let stdin = child.stdin.take();
        Ok(Process { name: name.to_owned(), child, stdin, lines, kept: VecDeque::new() })
    }

    /// Waits for a line that `pick` makes something of.
    pub(super) async fn hear<T>(&mut self, pick: impl Fn(&str) -> Option<T>) -> Result<T, Failure> {
        let heard = async {
            while let Some(line) = self.lines.recv().await {
                if let Some(found) = pick(&line) {
                    return Some(found);
                }
                if self.kept.len() == KEPT_MAX {
                    self.kept.pop_front();
                }
                self.kept.push_back(line);
            }
            None
        };
        let why = match timeout(PATIENCE, heard).await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => "it ended".to_owned(),
            Err(_) => format!("it said nothing of the kind for {} seconds", PATIENCE.as_secs()),
        };
        let last: Vec<&str> = self.kept.iter().map(|line| line.trim()).collect();
        let last = if last.is_empty() { "nothing".to_owned() } else { last.join(" / ") };
        Err(Failure::new(
            format!("the demo cannot go on without {}", self.name),
            format!("{why}; its last words: {last}"),
            "look whether the machine is very busy, and run the demo again",
        ))
    }

    /// Says a line to it. If it is stopped, it hears it when it goes on.
    pub(super) fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("nobody can talk to this process")?;
        writeln!(stdin, "{line}").with_context(|| format!("{} does not listen", self.name))?;
        Ok(())
    }

    /// Stops it in the middle of whatever it does, and returns when it stands still.
    pub(super) fn pause(&self) -> anyhow::Result<()> {
        kill_process(self.pid()?, Signal::STOP)?;
        // It tells of the stop, and does not take the end from whoever waits for that.
        waitpid(Some(self.pid()?), WaitOptions::UNTRACED)?;
        Ok(())
    }

    /// Lets it go on.
    pub(super) fn resume(&self) -> anyhow::Result<()> {
        Ok(kill_process(self.pid()?, Signal::CONT)?)
    }

    /// Kills it, as `kill -9` does.
    pub(super) fn kill(&mut self) {
        // It may have ended before.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let number = i32::try_from(self.child.id()).context("this is no process")?;
        Pid::from_raw(number).context("this is no process")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn listen(from: impl Read + Send + 'static, tell: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            // A full queue, or nobody who listens: it is read all the same.
            let _ = tell.try_send(line);
        }
    });
}
