//! The processes of a command, and how they are stopped.
//!
//! Owns: the process group, and those that have left it and are still below the supervisor, which
//! takes in every orphan below it. Guarantees: a signal to the group reaches all of it at once, so
//! nothing escapes by forking. Those outside are looked for again and again.

use rustix::process::{Pid, Signal, kill_process_group};

use super::processes::{Process, descendants};

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

    /// Asks everything to end, also outside the group.
    pub(crate) fn ask_all(&self) {
        self.ask_group();
        for process in self.strangers() {
            process.signal(Signal::TERM);
            process.signal(Signal::CONT);
        }
    }

    /// Ends everything, also outside the group.
    pub(crate) fn kill_all(&self) {
        self.signal(Signal::KILL);
        for _ in 0..SWEEPS_MAX {
            let strangers = self.strangers();
            if strangers.is_empty() {
                return;
            }
            for process in strangers {
                process.signal(Signal::KILL);
            }
        }
    }

    /// Who of the group is still there.
    pub(crate) fn left_in_group(&self) -> Vec<Pid> {
        let mut all = Process::all();
        all.retain(|one| one.is_alive() && one.is_in_group(self.group));
        all.into_iter().map(|one| one.pid).collect()
    }

    /// Who is still there, inside the group and outside.
    pub(crate) fn left(&self) -> Vec<Pid> {
        let mut left = self.left_in_group();
        left.extend(self.strangers().into_iter().map(|one| one.pid));
        left
    }

    /// Those that have left the group and still run.
    fn strangers(&self) -> Vec<Process> {
        let mut found = descendants(self.supervisor, &self.spare);
        found.retain(|one| one.is_alive() && !one.is_in_group(self.group));
        found
    }
}
