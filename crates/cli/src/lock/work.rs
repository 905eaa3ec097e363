//! The processes of a command, and how they are stopped.
//!
//! Owns: the process group, and those that have left it and are still below the supervisor, which
//! takes in every orphan below it. Guarantees: a signal to the group reaches all of it at once, and
//! is sent before anybody is looked for, so nothing escapes by forking and no crowd puts it off.
//! Those outside are looked for again and again. No process counts as gone because it could not be
//! seen.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::process::Process;
use super::processes::{Found, ProcFs};

/// How often processes outside the group are looked for before the caller should wait a little.
const SWEEPS_MAX: u32 = 20;

/// A running command.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    group: Pid,
    supervisor: Pid,
    /// The supervisor as it was at the beginning: once it has ended, its number may pass on.
    supervisor_then: Option<Process>,
    /// Children of the supervisor that are not the command's.
    spare: Vec<Pid>,
    system: ProcFs,
}

impl Work {
    pub(crate) fn new(group: Pid, supervisor: Pid, spare: Vec<Pid>, system: ProcFs) -> Work {
        // A signal to group 1 would be a signal to everybody.
        assert!(group.as_raw_pid() > 1);
        let supervisor_then = system.process(supervisor);
        Work { group, supervisor, supervisor_then, spare, system }
    }

    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Passes a signal on to the group.
    pub(crate) fn signal(&self, signal: Signal) {
        // There may be nobody left, or nobody whom this user may signal.
        let _ = kill_process_group(self.group, signal);
    }

    /// Asks the group to end.
    pub(crate) fn ask_group(&self) {
        self.signal(Signal::TERM);
        // What is stopped could not act on it.
        self.signal(Signal::CONT);
    }

    /// Asks those outside the group to end.
    pub(crate) fn ask_strangers(&self) {
        // Those who are not seen now are seen when they are killed.
        for process in self.strangers().processes {
            self.system.signal(&process, Signal::TERM);
            self.system.signal(&process, Signal::CONT);
        }
    }

    /// Ends everything, also outside the group. Whether it saw that nothing is left outside.
    pub(crate) fn kill_all(&self) -> bool {
        self.signal(Signal::KILL);
        for _ in 0..SWEEPS_MAX {
            let strangers = self.strangers();
            if strangers.processes.is_empty() {
                return !strangers.may_lack_some;
            }
            strangers.processes.iter().for_each(|one| self.system.signal(one, Signal::KILL));
        }
        false
    }

    /// Whether the kernel knows of nobody in the group, not even somebody who has ended.
    pub(crate) fn is_group_gone(&self) -> bool {
        test_kill_process_group(self.group).is_err_and(|errno| errno == Errno::SRCH)
    }

    /// Whether nothing runs in the group any more. Sends no signal: what is about to leave the group
    /// is not disturbed.
    pub(crate) fn has_left_group(&self) -> bool {
        self.is_group_gone() || {
            let seen = self.seen_in_group();
            seen.processes.is_empty() && !seen.may_lack_some
        }
    }

    /// Which of a group that is being stopped are still there.
    pub(crate) fn left_in_group(&self) -> io::Result<Vec<Pid>> {
        if self.is_group_gone() {
            return Ok(Vec::new());
        }
        let left = self.seen_in_group();
        if !left.processes.is_empty() {
            return certain(left);
        }
        // A process that forks and ends, over and over, can stay ahead of a reader of the list. A
        // signal reaches it, and those who have ended do not mind.
        self.signal(Signal::KILL);
        certain(self.seen_in_group())
    }

    /// Who is still there, inside the group and outside.
    pub(crate) fn left(&self) -> io::Result<Vec<Pid>> {
        let mut left = certain(self.strangers())?;
        left.extend(self.left_in_group()?);
        Ok(left)
    }

    /// Those of the group that run. Nearly always they are found among the descendants. All processes
    /// are read if there is none, and the group is there all the same: an ended process that was not
    /// looked at by its parent, or one that is below another parent since the supervisor has ended.
    fn seen_in_group(&self) -> Found {
        let mut below = self.below();
        below.processes.retain(|one| one.is_in_group(self.group));
        match below.processes.is_empty() {
            true => self.system.alive_in_group(self.group),
            false => below,
        }
    }

    /// Those that have left the group and still run.
    fn strangers(&self) -> Found {
        let mut found = self.below();
        found.processes.retain(|one| !one.is_in_group(self.group));
        found
    }

    fn below(&self) -> Found {
        let then = self.supervisor_then.and_then(|then| then.stat);
        let now = self.system.process(self.supervisor);
        if then.is_some_and(|then| !now.is_some_and(|now| now.is_same(&then))) {
            // It has ended. What was below it cannot be told from others any more.
            return Found::default();
        }
        self.system.below(self.supervisor, &self.spare)
    }
}

/// Who was found, unless none was found and there may be some.
fn certain(found: Found) -> io::Result<Vec<Pid>> {
    if found.processes.is_empty() && found.may_lack_some {
        return Err(io::Error::other("it cannot be told whether processes are left"));
    }
    Ok(found.processes.into_iter().map(|one| one.pid).collect())
}
