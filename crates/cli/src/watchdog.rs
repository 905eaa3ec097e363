//! `fencepost __watchdog`: a process that holds a timer and nothing else.
//!
//! A supervisor that was frozen or killed cannot stop its command. This process can: it is told at
//! each renewal until when the command may run, and if nothing new comes in time, or the supervisor
//! is gone without a last word, it ends the command before the lock can be given away. What it
//! decides stands in `lock/vigil.rs`. It is not for people, and not in the help.
//!
//! Guarantees: it waits on a timer of the clock that goes on while the machine sleeps, so after a
//! sleep it acts at once. It talks to nobody but the supervisor and opens no connection.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, getpid, setsid};
use rustix::thread::set_name;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::lock::processes::ProcFs;
use crate::lock::timeline::Moment;
use crate::lock::vigil::{Action, Vigil};
use crate::lock::words::{READY, WATCHING, Word, take_line};
use crate::lock::work::Work;
use crate::logs;

/// What a supervisor says at once fits into this many times over.
const READ_LEN: usize = 4_096;

/// Watch over a command.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whose command it is
    #[arg(long)]
    supervisor: i32,

    /// Microseconds between TERM and KILL
    #[arg(long)]
    grace: u64,

    /// Children of the supervisor that are not the command's
    #[arg(long)]
    spare: Vec<i32>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // A session of its own: what the terminal sends to the supervisor's job is not for it. If it has
    // one already, that is as good.
    let _ = setsid();
    // Whoever kills all processes of the supervisor's name must not kill this one with them.
    set_name(c"lock-watchdog")?;
    // Whoever asks everything around the supervisor to end asks this one too. It ends when the
    // command has.
    SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT])
        .thread_block()?;
    // If it fails, it must end at once, so that it is replaced.
    logs::open_for_messages()?;
    let mut watchdog = Watchdog::new(args)?;
    say(READY);
    while !watchdog.step()? {}
    Ok(ExitCode::SUCCESS)
}

struct Watchdog {
    vigil: Vigil,
    supervisor: Pid,
    spare: Vec<Pid>,
    system: ProcFs,
    work: Option<Work>,
    timer: OwnedFd,
    supervisor_words: File,
    buffer: Vec<u8>,
    is_alone: bool,
}

impl Watchdog {
    fn new(args: &Args) -> anyhow::Result<Watchdog> {
        let supervisor = Pid::from_raw(args.supervisor).context("there is no process 0")?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let mut spare: Vec<Pid> = args.spare.iter().filter_map(|&pid| Pid::from_raw(pid)).collect();
        spare.push(getpid());
        Ok(Watchdog {
            vigil: Vigil::new(Duration::from_micros(args.grace)),
            supervisor,
            spare,
            system: ProcFs::open()?,
            work: None,
            timer: timerfd_create(TimerfdClockId::Boottime, flags)?,
            supervisor_words: File::from(io::stdin().as_fd().try_clone_to_owned()?),
            buffer: Vec::new(),
            is_alone: false,
        })
    }

    /// Waits until something happens, and acts on it. Whether it was the last thing.
    fn step(&mut self) -> anyhow::Result<bool> {
        self.arm(self.vigil.next_look(Moment::now()))?;
        let has_news = self.wait()?;
        if has_news && self.listen()? {
            return Ok(true);
        }
        let is_gone = self.work.as_ref().is_some_and(Work::is_group_gone);
        let action = self.vigil.look(Moment::now(), is_gone);
        Ok(action.is_some_and(|action| self.act(action)))
    }

    /// Sleeps until the timer goes off or the supervisor says something; then whether it has.
    fn wait(&self) -> io::Result<bool> {
        let timer = PollFd::new(&self.timer, PollFlags::IN);
        let words = PollFd::new(&self.supervisor_words, PollFlags::IN);
        // Once the supervisor is gone, its end of the pipe would be ready for ever.
        let mut both = [timer, words];
        let waited = poll(if self.is_alone { &mut both[..1] } else { &mut both[..] }, None);
        match waited {
            Ok(_) => Ok(!self.is_alone && !both[1].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Hears what the supervisor has to say. Whether there is nothing left to do.
    fn listen(&mut self) -> io::Result<bool> {
        let mut chunk = [0; READ_LEN];
        let read = match self.supervisor_words.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
            read => read?,
        };
        if read == 0 {
            self.is_alone = true;
            let action = self.vigil.is_left_alone(Moment::now());
            return Ok(self.act(action));
        }
        self.buffer.extend_from_slice(&chunk[..read]);
        while let Some(line) = take_line(&mut self.buffer) {
            // What cannot be understood changes nothing: the moment that was named last stands.
            let Some(word) = Word::parse(&line) else { continue };
            if let Word::Group(group) = word {
                let (spare, system) = (self.spare.clone(), self.system.clone());
                self.work = Some(Work::new(group, self.supervisor, spare, system));
            }
            let action = self.vigil.hear(word, Moment::now());
            if action.is_some_and(|action| self.act(action)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether this was the last thing.
    fn act(&self, action: Action) -> bool {
        match action {
            Action::SayWatching => say(WATCHING),
            Action::Ask => {
                if let Some(work) = self.work.clone() {
                    work.ask_group();
                    // To look for others takes time, and the timer must not wait for it.
                    let ask = move || work.ask_strangers();
                    drop(std::thread::Builder::new().spawn(ask));
                }
            }
            Action::Kill => {
                return self.work.as_ref().is_none_or(|work| {
                    work.kill_all() && work.left_in_group().is_ok_and(|left| left.is_empty())
                });
            }
            Action::Leave => return true,
        }
        false
    }

    fn arm(&self, at: Option<Moment>) -> io::Result<()> {
        // All zero means never; the first nanosecond of a machine's life is over for good.
        let since_boot =
            at.map_or(Duration::ZERO, |at| at.since_boot().max(Duration::from_nanos(1)));
        let it_value = Timespec {
            tv_sec: i64::try_from(since_boot.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(since_boot.subsec_nanos()),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let set = Itimerspec { it_interval, it_value };
        // Setting it also takes back that it has gone off.
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &set)?;
        Ok(())
    }
}

/// The supervisor may be gone; then nobody needs to hear it.
fn say(word: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}
