//! The supervisor's side of its watchdog.
//!
//! Guarantees: talking to it never blocks, so a watchdog that hangs cannot hold up the supervisor. A
//! watchdog that has died, or takes nothing in any more, is found out and can be replaced.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, waitpid,
};
use rustix::time::Timespec;
use tokio::net::unix::pipe;

use super::words::{READY, WATCHING, Word, take_line};

/// This very program, even if its file was replaced meanwhile.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";
/// How long a new watchdog may take to answer before the command is not begun.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long to wait for the end of a watchdog that was killed.
const DEATH_MAX: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// A watchdog says a few words in its life.
const READ_LEN: usize = 256;

/// A running watchdog.
pub(crate) struct Leash {
    pid: Pid,
    /// The process itself: its number may belong to another one once it has ended. Old kernels have
    /// none.
    handle: Option<OwnedFd>,
    words: ChildStdin,
    answers: pipe::Receiver,
    buffer: Vec<u8>,
}

impl Leash {
    /// Starts a watchdog, which does nothing yet.
    pub(crate) fn start(grace: Duration, spare: &[Pid]) -> io::Result<Leash> {
        let mut command = Command::new(THIS_PROGRAM);
        command.arg0("fencepost").arg("__watchdog");
        command.args(["--supervisor", &getpid().as_raw_pid().to_string()]);
        command.args(["--grace", &grace.as_micros().to_string()]);
        for pid in spare {
            command.args(["--spare", &pid.as_raw_pid().to_string()]);
        }
        // It should keep no file system busy.
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let words = child.stdin.take().ok_or_else(missing)?;
        ioctl_fionbio(&words, true)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let pid = Pid::from_child(&child);
        Ok(Leash {
            pid,
            handle: pidfd_open(pid, PidfdFlags::empty()).ok(),
            words,
            answers: pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?,
            buffer: Vec::new(),
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Says something. An error means that the watchdog is of no use any more.
    pub(crate) fn tell(&mut self, word: Word) -> io::Result<()> {
        // A pipe takes so little whole or not at all.
        self.words.write_all(format!("{word}\n").as_bytes())
    }

    /// Waits until it says that it watches.
    pub(crate) async fn is_watching(&mut self) -> io::Result<()> {
        let heard = async {
            loop {
                match self.hear().await.as_deref() {
                    Some(READY) => {}
                    Some(WATCHING) => return Ok(()),
                    _ => return Err(io::Error::other("it has ended at once")),
                }
            }
        };
        let in_time = tokio::time::timeout(ANSWER_MAX, heard).await;
        in_time.unwrap_or_else(|_| Err(io::Error::other("it does not answer")))
    }

    /// Resolves when it is gone.
    pub(crate) async fn is_gone(&mut self) {
        while self.hear().await.is_some() {}
    }

    /// Makes room for another one.
    pub(crate) fn drop_it(self) {
        // It has died by itself, or hangs.
        if let Some(handle) = self.handle {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }

    /// Ends it, and takes note of its end.
    pub(crate) fn end_now(self) {
        if let Some(handle) = &self.handle {
            let _ = pidfd_send_signal(handle, Signal::KILL);
            // A process that hangs in the kernel must not hold up this one.
            let mut ends = [PollFd::new(handle, PollFlags::IN)];
            let _ = poll(&mut ends, Some(&DEATH_MAX));
        }
        // Its end may have been taken note of before.
        let _ = waitpid(Some(self.pid), WaitOptions::NOHANG);
    }

    /// The next thing that it says; nothing once it is gone. May be dropped at any point.
    async fn hear(&mut self) -> Option<String> {
        loop {
            if let Some(line) = take_line(&mut self.buffer) {
                return Some(line);
            }
            self.answers.readable().await.ok()?;
            let mut chunk = [0; READ_LEN];
            match self.answers.try_read(&mut chunk) {
                Ok(0) => return None,
                Ok(read) => self.buffer.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}
