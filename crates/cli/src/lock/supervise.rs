//! Runs a command under a lock, and ends it before the lock can be given away.
//!
//! Owns: the command from its beginning to the end of its last process. Guarantees: the command
//! does not begin before the watchdog knows it; it is begun by the thread that lives as long as the
//! process, with which it dies; when [`Supervisor::run`] returns, nothing of its process group runs
//! any more, or the outcome says so.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use fencepost_client::{Guard, Loss};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_current_process_group, set_child_subreaper,
    wait, waitpid,
};

use super::forward::Signals;
use super::leash::{Leash, THIS_PROGRAM};
use super::processes::ProcFs;
use super::say;
use super::stopping::{Step, Stopping, Why};
use super::terminal::Terminal;
use super::timeline::{Moment, Timeline};
use super::words::Word;
use super::work::Work;
use crate::logs;

/// How often to look whether processes that are being stopped have ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long processes that the command has left behind have to leave its group, as a daemon does.
/// Its parent ends before it calls setsid, and it needs a moment of a processor for that.
const TIME_TO_LEAVE: Duration = Duration::from_secs(1);
/// How long a watchdog that was told to end may take for it before it is killed.
const WATCHDOG_END_MAX: Duration = Duration::from_secs(1);
/// A watchdog that dies over and over is not started more often than this.
const REPLACE_EVERY: Duration = Duration::from_secs(1);

/// How long a job that is about to stop waits for its last message. Nothing of it runs meanwhile.
const STOPPED_FLUSH_MAX: Duration = Duration::from_millis(100);

/// What is to be run, and what it is told.
pub(crate) struct Order<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) env: Vec<(&'static str, Option<String>)>,
    pub(crate) timeline: Timeline,
}

/// How a command has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself, while the lock was held.
    Itself(WaitStatus),
    /// The lock was lost first, and everything was ended.
    Lost(Loss),
    /// These processes cannot be ended, whether the lock was lost or not.
    Unkillable(Vec<Pid>),
}

/// A command that runs, and all that watches over it.
pub(crate) struct Supervisor<'a> {
    guard: &'a Guard,
    timeline: Timeline,
    system: ProcFs,
    work: Work,
    leash: Option<Leash>,
    leash_since: Moment,
    /// Children that this process had before.
    spare: Vec<Pid>,
    terminal: Option<Terminal>,
    /// What the watchdog was told last.
    told: Option<Moment>,
    status: Option<WaitStatus>,
    /// Since when the command has been found to have ended while others of its group ran.
    left_behind_since: Option<Moment>,
    stopping: Option<Stopping>,
}

impl<'a> Supervisor<'a> {
    /// Starts the watchdog and the command. The command waits until [`run`](Supervisor::run).
    pub(crate) fn start(guard: &'a Guard, order: &Order<'_>) -> io::Result<Supervisor<'a>> {
        let own = getpid();
        let system = ProcFs::open()?;
        let spare: Vec<Pid> = system.below(own, &[]).processes.iter().map(|one| one.pid).collect();
        // Whatever loses its parent below becomes a child of this process, and stays within reach.
        set_child_subreaper(Some(own))?;
        let leash = Leash::start(order.timeline.grace(), &spare)?;
        let group = match begin(order) {
            Ok(group) => group,
            Err(error) => {
                leash.end_now();
                return Err(error);
            }
        };
        Ok(Supervisor {
            guard,
            timeline: order.timeline,
            work: work(group, &spare, leash.pid(), &system),
            system,
            leash: Some(leash),
            leash_since: Moment::now(),
            spare,
            terminal: Terminal::open(),
            told: None,
            status: None,
            left_behind_since: None,
            stopping: None,
        })
    }

    /// Lets the command run, and watches over it to its end.
    pub(crate) async fn run(mut self, signals: &mut Signals) -> io::Result<Ended> {
        let early = match self.let_go(signals).await {
            Ok(early) => early,
            Err(error) => {
                self.work.kill_all();
                self.dismiss_watchdog().await;
                return Err(error);
            }
        };
        for signal in early {
            self.receive(signal);
        }
        let ended = self.watch(signals).await;
        self.dismiss_watchdog().await;
        if let Some(terminal) = &mut self.terminal {
            match self.status.is_some_and(WaitStatus::signaled) {
                true => terminal.take_back_tidied(),
                false => terminal.take_back(),
            }
        }
        Ok(ended)
    }

    /// Ends the watchdog and takes note of its end, and of that of everything else that has ended: a
    /// first process that takes no note, as in many containers, would keep their numbers in use.
    async fn dismiss_watchdog(&mut self) {
        if let Some(mut leash) = self.leash.take() {
            // If it does not hear this, it finds nobody to kill.
            let _ = leash.tell(Word::Finished);
            let _ = tokio::time::timeout(WATCHDOG_END_MAX, leash.is_gone()).await;
            leash.end_now();
        }
        self.reap();
    }

    /// Waits until the command's process is ready and the watchdog knows of it, then lets it go. The
    /// signals that came meanwhile.
    async fn let_go(&mut self, signals: &mut Signals) -> io::Result<Vec<Signal>> {
        let mut early = Vec::new();
        loop {
            let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
            match waitpid(Some(self.work.group()), options)? {
                Some((_, status)) if status.stopped() => break,
                Some((_, status)) => {
                    self.status = Some(status);
                    return Ok(early);
                }
                None => match signals.next().await {
                    Signal::CHILD => {}
                    signal => early.push(signal),
                },
            }
        }
        self.tell_group()?;
        if let Some(leash) = &mut self.leash {
            leash.is_watching().await?;
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.give_at_start(self.work.group());
        }
        // Looked at last: from here on the watchdog sees to it that this does not come too late.
        if self.guard.is_valid() {
            self.work.signal(Signal::CONT);
        }
        Ok(early)
    }

    async fn watch(&mut self, signals: &mut Signals) -> Ended {
        let mut lost = std::pin::pin!(self.guard.lost());
        loop {
            // A loss is looked at before anything else, by the clock: this process may have stood
            // still for any length of time.
            if !self.guard.is_valid() {
                self.lose();
            }
            self.renew_leash();
            if let Some(ended) = self.go_on() {
                return ended;
            }
            let is_ending = self.stopping.is_some() || self.left_behind_since.is_some();
            let pause = if is_ending { LOOK_EVERY } else { self.timeline.tick() };
            let leash_gone = async {
                match &mut self.leash {
                    Some(leash) => leash.is_gone().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = &mut lost, if self.stopping.as_ref().is_none_or(|on| !on.is_loss()) => {}
                signal = signals.next() => self.receive(signal),
                () = leash_gone => self.replace_leash(),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn receive(&mut self, signal: Signal) {
        match signal {
            Signal::CHILD => self.reap(),
            signal => self.work.signal(signal),
        }
    }

    /// Takes note of every child that has ended or stopped: the command, and orphans that became
    /// children of this process.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid != self.work.group() {
                continue;
            }
            match status.stopping_signal() {
                Some(signal) => self.command_stopped(signal),
                None => self.status = Some(status),
            }
        }
    }

    /// The command was stopped: it wants to read from the terminal, or somebody wants it to stand
    /// still. Then this job stands still with it, so that the shell takes over. Renewals stand still
    /// too: if nobody continues the job in time, the lock is lost and the watchdog ends it.
    fn command_stopped(&mut self, signal: i32) {
        if self.stopping.is_some() || !self.guard.is_valid() {
            return;
        }
        let Some(terminal) = &mut self.terminal else { return };
        let wants_terminal = [Signal::TTIN, Signal::TTOU].iter().any(|one| one.as_raw() == signal);
        if wants_terminal && terminal.give(self.work.group()) {
            self.work.signal(Signal::CONT);
            return;
        }
        if self.system.is_orphaned(getpid()) {
            // Nobody could continue it.
            self.work.signal(Signal::CONT);
            return;
        }
        terminal.take_back();
        say("stopped: the lock is lost unless this is continued soon");
        // Otherwise it would be read when it has been continued.
        logs::flush_within(STOPPED_FLUSH_MAX);
        // Returns when somebody has continued the job.
        let _ = kill_current_process_group(Signal::STOP);
        if self.guard.is_valid() {
            terminal.give(self.work.group());
            self.work.signal(Signal::CONT);
        }
    }

    fn lose(&mut self) {
        let now = Moment::now();
        if self.stopping.as_ref().is_some_and(Stopping::is_loss) {
            return;
        }
        let loss = self.guard.loss().unwrap_or(Loss::Unconfirmed);
        let latest = self.timeline.kill_at_latest(Moment::deadline(self.guard));
        self.stopping = Some(Stopping::of_loss(loss, now, self.timeline.grace(), latest));
    }

    /// The next step of stopping; the outcome, if there is nothing left.
    fn go_on(&mut self) -> Option<Ended> {
        if self.stopping.is_none() {
            let status = self.status?;
            self.reap();
            if self.work.has_left_group() {
                return Some(Ended::Itself(status));
            }
            let now = Moment::now();
            let since = *self.left_behind_since.get_or_insert(now);
            if now < since.after(TIME_TO_LEAVE) {
                return None;
            }
            say(
                "the command has ended and left processes behind; they are stopped before the lock \
                 is given back",
            );
            let latest = self.timeline.kill_at_latest(Moment::deadline(self.guard));
            self.stopping = Some(Stopping::of_rest(Moment::now(), self.timeline.grace(), latest));
        }
        let stopping = self.stopping.as_mut()?;
        // Signals first, then a look at who is left.
        let is_loss = stopping.is_loss();
        match stopping.step(Moment::now()) {
            Step::Wait => {}
            Step::Ask => {
                self.work.ask_group();
                if is_loss {
                    self.work.ask_strangers();
                    // Last: whoever reads this may be slow.
                    say("the lock was lost; the command is asked to end");
                }
            }
            Step::Kill if is_loss => drop(self.work.kill_all()),
            Step::Kill => self.work.signal(Signal::KILL),
        }
        self.reap();
        let left = if is_loss { self.work.left() } else { self.work.left_in_group() };
        let is_hopeless = self.stopping.as_ref()?.is_hopeless(Moment::now());
        match left {
            Ok(left) if left.is_empty() => Some(self.outcome()),
            Ok(left) if is_hopeless => Some(Ended::Unkillable(left)),
            // Who cannot be seen may be there.
            Err(_) if is_hopeless => Some(Ended::Unkillable(vec![self.work.group()])),
            Ok(_) | Err(_) => None,
        }
    }

    fn outcome(&self) -> Ended {
        let why = self.stopping.as_ref().map(Stopping::why);
        match (why, self.status) {
            (Some(Why::Lost(loss)), _) => Ended::Lost(loss.clone()),
            (_, Some(status)) => Ended::Itself(status),
            // Nothing runs, so the command has ended; how, nobody knows.
            (_, None) => Ended::Lost(Loss::Unconfirmed),
        }
    }

    /// Tells the watchdog of a deadline that has moved on.
    fn renew_leash(&mut self) {
        let deadline = Moment::deadline(self.guard);
        if self.told == Some(deadline) {
            return;
        }
        let until = until(&self.timeline, deadline);
        let told = self.leash.as_mut().map(|leash| leash.tell(until));
        if told.is_some_and(|told| told.is_ok()) {
            self.told = Some(deadline);
        } else {
            self.replace_leash();
        }
    }

    /// Tells a watchdog all that it needs to know.
    fn tell_group(&mut self) -> io::Result<()> {
        let deadline = Moment::deadline(self.guard);
        if let Some(leash) = &mut self.leash {
            leash.tell(Word::Group(self.work.group()))?;
            leash.tell(until(&self.timeline, deadline))?;
            self.told = Some(deadline);
        }
        Ok(())
    }

    /// The watchdog has died, or takes nothing in any more.
    fn replace_leash(&mut self) {
        if let Some(old) = self.leash.take() {
            old.drop_it();
        }
        self.told = None;
        let now = Moment::now();
        let is_over = self.stopping.is_some() || self.status.is_some();
        if is_over || now < self.leash_since.after(REPLACE_EVERY) {
            return;
        }
        self.leash_since = now;
        match Leash::start(self.timeline.grace(), &self.spare) {
            Ok(leash) => {
                self.work = work(self.work.group(), &self.spare, leash.pid(), &self.system);
                self.leash = Some(leash);
                match self.tell_group() {
                    Ok(()) => say("the watchdog was gone; another one has taken its place"),
                    Err(_) => self.leash = None,
                }
            }
            // Tried again later.
            Err(error) => say(&format!("there is no watchdog, and none can be started: {error}")),
        }
    }
}

fn until(plan: &Timeline, deadline: Moment) -> Word {
    Word::Until { stop: plan.stop_at_latest(deadline), kill: plan.kill_at_latest(deadline) }
}

fn work(group: Pid, spare: &[Pid], watchdog: Pid, system: &ProcFs) -> Work {
    let spare = spare.iter().copied().chain([watchdog]).collect();
    Work::new(group, getpid(), spare, system.clone())
}

/// Starts the command's process, which stops at once.
fn begin(order: &Order<'_>) -> io::Result<Pid> {
    let mut command = Command::new(THIS_PROGRAM);
    command.arg0("fencepost").arg("__exec");
    command.args(["--supervisor", &getpid().as_raw_pid().to_string(), "--"]);
    command.args(order.command);
    for (name, value) in &order.env {
        match value {
            Some(value) => command.env(name, value),
            // One that comes from a command around this one is about another lock.
            None => command.env_remove(name),
        };
    }
    let child = command.process_group(0).spawn()?;
    Ok(Pid::from_child(&child))
}
