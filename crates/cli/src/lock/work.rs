//! The processes of a command, and how they are stopped.
//!
//! Owns: the process group, and those that have left it and are still below the supervisor, which
//! takes in every orphan below it. Guarantees: a signal to the group reaches all of it at once, and
//! is sent before anybody is looked for, so nothing escapes by forking and no crowd puts it off.
//! Those outside are looked for again and again. Nobody counts as gone because they could not be
//! seen.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::processes::{Census, Process};

/// How often processes outside the group are looked for before the caller should wait a little.
const SWEEPS_MAX: u32 = 20;

/// A running command.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    group: Pid,
    supervisor: Pid,
    /// Children of the supervisor that are not the command's.
    spare: Vec<Pid>,
}

impl Work {
    pub(crate) fn new(group: Pid, supervisor: Pid, spare: Vec<Pid>) -> Work {
        // A signal to group 1 would be a signal to everybody.
        assert!(group.as_raw_pid() > 1);
        Work { group, supervisor, spare }
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
        for process in self.strangers().unwrap_or_default() {
            process.signal(Signal::TERM);
            process.signal(Signal::CONT);
        }
    }

    /// Ends everything, also outside the group. Whether it saw that nothing is left outside.
    pub(crate) fn kill_all(&self) -> bool {
        self.signal(Signal::KILL);
        for _ in 0..SWEEPS_MAX {
            match self.strangers() {
                Ok(strangers) if strangers.is_empty() => return true,
                Ok(strangers) => strangers.iter().for_each(|one| one.signal(Signal::KILL)),
                Err(_) => return false,
            }
        }
        false
    }

    /// Whether the kernel knows of nobody in the group, not even somebody who has ended.
    pub(crate) fn is_group_gone(&self) -> bool {
        test_kill_process_group(self.group).is_err_and(|errno| errno == Errno::SRCH)
    }

    /// Who of the group is still there.
    pub(crate) fn left_in_group(&self) -> io::Result<Vec<Pid>> {
        if self.is_group_gone() {
            return Ok(Vec::new());
        }
        let left = self.seen_in_group(&Census::take()?);
        if !left.is_empty() {
            return Ok(left);
        }
        // A process that forks and ends, over and over, can stay ahead of whoever reads the list. A
        // signal reaches it, and those who have ended do not mind.
        self.signal(Signal::KILL);
        Ok(self.seen_in_group(&Census::take()?))
    }

    /// Who is still there, inside the group and outside.
    pub(crate) fn left(&self) -> io::Result<Vec<Pid>> {
        let mut left = self.left_in_group()?;
        left.extend(self.strangers()?.into_iter().map(|one| one.pid));
        Ok(left)
    }

    fn seen_in_group(&self, census: &Census) -> Vec<Pid> {
        census.alive_in_group(self.group).map(|one| one.pid).collect()
    }

    /// Those that have left the group and still run.
    fn strangers(&self) -> io::Result<Vec<Process>> {
        let mut found = Census::take()?.below(self.supervisor, &self.spare);
        found.retain(|one| one.is_alive() && !one.is_in_group(self.group));
        Ok(found)
    }
}
