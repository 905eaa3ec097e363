//! One process, as the kernel describes it.
//!
//! Owns: reading a line of `/proc/PID/stat`. Guarantees: names are bytes, and no name makes a line
//! unreadable or changes what is read from it. A process that this user may not look at
//! (`hidepid`, or one that forbids it) is still told from one that has ended, by system calls that
//! need no permission.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpgid, pidfd_open, pidfd_send_signal, test_kill_process,
};
use rustix::time::Timespec;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// None if this user may not read it.
    pub(super) stat: Option<Stat>,
    /// The process that listed it as its child.
    pub(super) listed_by: Option<Pid>,
}

/// What a line of `/proc/PID/stat` says, as far as it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    state: u8,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    threads: u64,
    /// When it was started, in ticks of the kernel. Tells it from a later one of the same number.
    pub(super) started: u64,
}

impl Process {
    /// Whether it still runs. What has ended and was not looked at by its parent does not: its files
    /// are closed and its memory is gone. But a process whose first thread has ended looks the same
    /// while its others go on.
    pub(crate) fn is_alive(&self) -> bool {
        match &self.stat {
            Some(stat) => !matches!(stat.state, b'Z' | b'X' | b'x') || stat.threads > 1,
            None => is_running(self.pid),
        }
    }

    /// Whether it is the process that was seen then, and not a later one of the same number.
    pub(super) fn is_same(&self, then: &Stat) -> bool {
        self.stat.is_some_and(|now| now.started == then.started)
    }

    pub(crate) fn is_in_group(&self, group: Pid) -> bool {
        match &self.stat {
            Some(stat) => stat.group == group.as_raw_pid(),
            None => getpgid(Some(self.pid)).is_ok_and(|own| own == group),
        }
    }

    /// Sends it a signal, and not to a later process of the same number: `is_same` looks again once
    /// the number cannot pass to another one unnoticed.
    pub(super) fn signal_if(&self, signal: Signal, is_same: impl FnOnce() -> bool) {
        // A process that cannot be opened has ended.
        let Ok(handle) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        if is_same() {
            // It may end before the signal comes, or belong to another user.
            let _ = pidfd_send_signal(handle, signal);
        }
    }
}

/// Whether a process runs that cannot be read. All of its threads have to end before it has.
fn is_running(pid: Pid) -> bool {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => {
            let mut ends = [PollFd::new(&handle, PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            // What cannot be found out counts as running.
            !poll(&mut ends, Some(&at_once)).is_ok_and(|ended| ended > 0)
        }
        Err(Errno::SRCH) => false,
        // Old kernels, or no room for a descriptor.
        Err(_) => test_kill_process(pid) != Err(Errno::SRCH),
    }
}

/// Reads a line of `/proc/PID/stat`. The name stands in parentheses and may hold any byte, also
/// parentheses and line ends; after the last parenthesis there are only numbers.
pub(super) fn parse(line: &[u8]) -> Option<(Pid, Stat)> {
    let begin = line.iter().position(|&byte| byte == b'(')?;
    let end = line.iter().rposition(|&byte| byte == b')').filter(|&end| end > begin)?;
    let pid = std::str::from_utf8(line.get(..begin)?).ok()?.trim_end().parse().ok()?;
    let pid = if pid > 0 { Pid::from_raw(pid)? } else { return None };
    let rest = std::str::from_utf8(line.get(end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let &[state] = fields.next()?.as_bytes() else { return None };
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    // The twentieth field of all and the one after the next; the sixth was read last.
    let threads = fields.nth(13)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    Some((pid, Stat { state, parent, group, session, threads, started }))
}

#[cfg(test)]
pub(super) fn made(pid: i32, parent: i32) -> Process {
    let stat = Stat { state: b'S', parent, group: 0, session: 0, threads: 1, started: 0 };
    Process { pid: Pid::from_raw(pid).expect("not zero"), stat: Some(stat), listed_by: None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rustix::process::{getpgrp, getpid};

    use super::*;

    /// A line with this name, and numbers that are told apart.
    fn line(name: &[u8]) -> Vec<u8> {
        let rest = b") Z 7 8 9 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 5555 1 2\n";
        [b"42 (", name, rest].concat()
    }

    fn expected() -> Stat {
        Stat { state: b'Z', parent: 7, group: 8, session: 9, threads: 1, started: 5555 }
    }

    #[test]
    fn names_of_any_bytes_are_read_over() {
        let names: [&[u8]; 8] = [
            b"",
            b"a) b (c",
            b") S 1 1 1 0 -1 1 2 3 4 5 6 7 8 9 20 0 9 0 1 1",
            b"two\nlines",
            b"\xd0\xbf\xd1\x80\xd0\xbe\xd0\xb2\xd0\xb5\xd1\x80\xd0\xba\xd0",
            b"\xff\xfe\x00\x80",
            b"(((",
            b" ",
        ];
        for name in names {
            let (pid, stat) = parse(&line(name)).expect("a whole line");
            assert_eq!((pid.as_raw_pid(), stat), (42, expected()), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn no_name_changes_what_is_read(name in proptest::collection::vec(any::<u8>(), 0..16)) {
            let (pid, stat) = parse(&line(&name)).expect("a whole line");
            prop_assert_eq!((pid.as_raw_pid(), stat), (42, expected()));
        }

        #[test]
        fn a_line_that_was_cut_is_nothing(cut in 0..40_usize) {
            prop_assert_eq!(parse(&line(b"name")[..cut]), None);
        }

        #[test]
        fn no_bytes_stop_the_reader(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some((pid, _)) = parse(&line) {
                prop_assert!(pid.as_raw_pid() > 0);
            }
        }
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_alive() {
        let line = b"42 (daemon) Z 7 8 9 0 -1 1 2 3 4 5 6 7 8 9 20 0 2 0 5555 1 2";
        let (pid, stat) = parse(line).expect("a whole line");
        assert!(Process { pid, stat: Some(stat), listed_by: None }.is_alive());
    }

    #[test]
    fn a_process_that_may_not_be_read_is_still_told_from_one_that_has_ended() {
        let own = Process { pid: getpid(), stat: None, listed_by: None };
        assert!(own.is_alive() && own.is_in_group(getpgrp()));
        let mut child = std::process::Command::new("true").spawn().expect("it can be run");
        let ended = Process { pid: Pid::from_child(&child), stat: None, listed_by: None };
        child.wait().expect("it is a child");
        assert!(!ended.is_alive() && !ended.is_in_group(getpgrp()));
    }
}
