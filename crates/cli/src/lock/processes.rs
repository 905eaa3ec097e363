//! The processes of this machine, as the kernel lists them.
//!
//! Owns: reading `/proc`. Guarantees: what is said about a process was true at one moment; it may
//! have ended since. What cannot be read is an error and never an absence: whoever takes a process
//! for gone gives its lock away.

use std::collections::{HashMap, HashSet};
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    state: u8,
    parent: i32,
    group: i32,
    session: i32,
    threads: u64,
    /// When it was started, in ticks of the kernel. Tells it from a later one of the same number.
    started: u64,
}

impl Process {
    /// Nothing if there is no such process.
    pub(crate) fn of(pid: Pid) -> Option<Process> {
        parse(&fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?)
    }

    /// Whether it still runs. What has ended and was not looked at by its parent does not: its files
    /// are closed and its memory is gone. But a process whose first thread has ended looks the same
    /// while its others go on.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x') || self.threads > 1
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

/// All processes, read one after the other: it is not a picture of one moment.
#[derive(Debug)]
pub(crate) struct Census(Vec<Process>);

impl Census {
    pub(crate) fn take() -> io::Result<Census> {
        let mut all = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            if name.to_str().is_none_or(|name| name.parse::<u32>().is_err()) {
                continue;
            }
            match fs::read_to_string(format!("/proc/{}/stat", name.display())) {
                Ok(stat) => all.push(parse(&stat).ok_or(io::ErrorKind::InvalidData)?),
                Err(error) if has_ended(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Census(all))
    }

    /// Those of a process group that still run.
    pub(crate) fn alive_in_group(&self, group: Pid) -> impl Iterator<Item = &Process> {
        self.0.iter().filter(move |one| one.is_alive() && one.is_in_group(group))
    }

    /// Everything below `root`, without those in `spare` and all that is below them. It costs as
    /// much as there are processes, however they are related: somebody may have made very many.
    pub(crate) fn below(&self, root: Pid, spare: &[Pid]) -> Vec<Process> {
        let mut families: HashMap<i32, Vec<&Process>> = HashMap::new();
        for one in &self.0 {
            families.entry(one.parent).or_default().push(one);
        }
        // The list was not read in one moment: a number may stand in it twice.
        let mut seen: HashSet<i32> = spare.iter().map(|pid| pid.as_raw_pid()).collect();
        let mut found = Vec::new();
        let mut parents = vec![root.as_raw_pid()];
        while let Some(parent) = parents.pop() {
            for child in families.remove(&parent).unwrap_or_default() {
                if seen.insert(child.pid.as_raw_pid()) {
                    found.push(*child);
                    parents.push(child.pid.as_raw_pid());
                }
            }
        }
        found
    }
}

/// A process ended while it was looked at.
fn has_ended(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| errno == Errno::NOENT || errno == Errno::SRCH)
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
    // The twentieth field of all and the one after the next; the sixth was read last.
    let threads = fields.nth(13)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    let pid = Pid::from_raw(pid.parse().ok()?)?;
    Some(Process { pid, state, parent, group, session, threads, started })
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpgrp, getpid, getppid};

    use super::*;

    fn made(pid: i32, parent: i32) -> Process {
        let pid = Pid::from_raw(pid).expect("not zero");
        Process { pid, state: b'S', parent, group: 0, session: 0, threads: 1, started: 0 }
    }

    #[test]
    fn a_name_with_parentheses_is_no_trouble() {
        let line = "42 (a) b (c)) Z 7 8 9 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 5555 1 2";
        let process = parse(line).expect("a whole line");
        assert_eq!(process.pid.as_raw_pid(), 42);
        assert_eq!((process.parent, process.group, process.session), (7, 8, 9));
        assert_eq!((process.threads, process.started), (1, 5555));
        assert!(!process.is_alive());
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_alive() {
        let line = "42 (daemon) Z 7 8 9 0 -1 1 2 3 4 5 6 7 8 9 20 0 2 0 5555 1 2";
        assert!(parse(line).expect("a whole line").is_alive());
    }

    #[test]
    fn this_process_is_found() {
        let own = Process::of(getpid()).expect("it runs");
        assert!(own.is_alive());
        assert!(own.is_in_group(getpgrp()));
        assert_eq!(own.parent, getppid().expect("it has a parent").as_raw_pid());
        let census = Census::take().expect("it can be read");
        assert!(census.alive_in_group(getpgrp()).any(|one| one.pid == own.pid));
        assert!(census.0.iter().any(|one| one.pid == own.pid && one.started == own.started));
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_the_spared_are_left_out() {
        let all = vec![
            made(10, 1),
            made(11, 10),
            made(12, 11),
            made(13, 10),
            made(14, 13),
            made(15, 1),
            // Read twice, and its own parent: numbers are used again while the list is read.
            made(11, 12),
            made(16, 16),
        ];
        let root = Pid::from_raw(10).expect("not zero");
        let spare = [Pid::from_raw(13).expect("not zero")];
        let mut found: Vec<i32> =
            Census(all).below(root, &spare).iter().map(|one| one.pid.as_raw_pid()).collect();
        found.sort_unstable();
        assert_eq!(found, [11, 12]);
    }
}
