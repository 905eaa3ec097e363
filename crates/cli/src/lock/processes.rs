//! The processes of this machine, as the kernel lists them.
//!
//! Owns: reading `/proc`. Guarantees: what is said about a process was true at one moment; it may
//! have ended since.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    state: u8,
    parent: i32,
    group: i32,
    session: i32,
    /// When it was started, in ticks of the kernel. Tells it from a later one of the same number.
    started: u64,
}

impl Process {
    /// Nothing if there is no such process.
    pub(crate) fn of(pid: Pid) -> Option<Process> {
        parse(&fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?)
    }

    /// All that there are.
    pub(crate) fn all() -> Vec<Process> {
        let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
        let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let pids = names.filter_map(|name| name.parse().ok()).filter_map(Pid::from_raw);
        pids.filter_map(Process::of).collect()
    }

    /// Whether it still runs. What has ended and was not looked at by its parent does not: its files
    /// are closed and its memory is gone.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }

    pub(crate) fn is_child_of(&self, parent: Pid) -> bool {
        self.parent == parent.as_raw_pid()
    }

    pub(crate) fn is_in_group(&self, group: Pid) -> bool {
        self.group == group.as_raw_pid()
    }

    /// Sends it a signal, and not to a later process of the same number.
    pub(crate) fn signal(&self, signal: Signal) {
        // Whoever cannot be opened has ended.
        let Ok(handle) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        if Process::of(self.pid).is_some_and(|now| now.started == self.started) {
            // It may end before the signal comes, or belong to another user.
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

/// Everything below `root`, without those in `spare` and all that is below them.
pub(crate) fn descendants(root: Pid, spare: &[Pid]) -> Vec<Process> {
    below(&Process::all(), root, spare)
}

fn below(all: &[Process], root: Pid, spare: &[Pid]) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|one| one.is_child_of(parent));
        for child in children.filter(|child| !spare.contains(&child.pid)) {
            // The list was not read in one moment: a number may stand in it twice.
            if found.iter().all(|known| known.pid != child.pid) {
                found.push(*child);
                parents.push(child.pid);
            }
        }
    }
    found
}

/// Whether nobody could continue the process group of `pid` if it were stopped: no parent of it
/// stands outside the group and inside the session, as a shell with job control does.
pub(crate) fn is_orphaned(pid: Pid) -> bool {
    let Some(own) = Process::of(pid) else { return true };
    let mut one = own;
    while let Some(parent) = Pid::from_raw(one.parent.max(0)).and_then(Process::of) {
        if parent.group != own.group {
            return parent.session != own.session;
        }
        one = parent;
    }
    true
}

/// Reads a line of `/proc/PID/stat`. The name, in parentheses, may hold anything.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = *fields.next()?.as_bytes().first()?;
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    // The twenty-second field of all, and three of those after the name are read.
    let started = fields.nth(15)?.parse().ok()?;
    let pid = Pid::from_raw(pid.parse().ok()?)?;
    Some(Process { pid, state, parent, group, session, started })
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpgrp, getpid, getppid};

    use super::*;

    fn made(pid: i32, parent: i32) -> Process {
        let pid = Pid::from_raw(pid).expect("not zero");
        Process { pid, state: b'S', parent, group: 0, session: 0, started: 0 }
    }

    #[test]
    fn a_name_with_parentheses_is_no_trouble() {
        let line = "42 (a) b (c)) Z 7 8 9 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 5555 1 2";
        let process = parse(line).expect("a whole line");
        assert_eq!(process.pid.as_raw_pid(), 42);
        assert_eq!((process.parent, process.group, process.session), (7, 8, 9));
        assert_eq!(process.started, 5555);
        assert!(!process.is_alive());
    }

    #[test]
    fn this_process_is_found() {
        let own = Process::of(getpid()).expect("it runs");
        assert!(own.is_alive());
        assert!(own.is_in_group(getpgrp()));
        assert!(own.is_child_of(getppid().expect("it has a parent")));
        assert!(Process::all().iter().any(|one| one.pid == own.pid && one.started == own.started));
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_the_spared_are_left_out() {
        let all =
            [made(10, 1), made(11, 10), made(12, 11), made(13, 10), made(14, 13), made(15, 1)];
        let root = Pid::from_raw(10).expect("not zero");
        let spare = [Pid::from_raw(13).expect("not zero")];
        let mut found: Vec<i32> =
            below(&all, root, &spare).iter().map(|one| one.pid.as_raw_pid()).collect();
        found.sort_unstable();
        assert_eq!(found, [11, 12]);
    }
}
