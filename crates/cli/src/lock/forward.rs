//! The signals that a supervisor receives.
//!
//! Guarantees: a signal that was ignored when the program began stays ignored, for the supervisor
//! and for the command, so that `nohup` works.

use std::future::poll_fn;
use std::task::Poll;
use std::{fs, io};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Those that ask a program to end.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
/// Those that a running command gets beside them.
const PASSED_ON: [Signal; 4] = [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::TSTP];

/// The signals that are listened for.
pub(crate) struct Signals {
    listened: Vec<(Signal, unix::Signal)>,
    ignored: u64,
}

impl Signals {
    /// Listens for those that ask to end.
    pub(crate) fn listen() -> io::Result<Signals> {
        let ignored = ignored(&fs::read("/proc/self/status").unwrap_or_default());
        let mut signals = Signals { listened: Vec::new(), ignored };
        signals.add(&ENDING)?;
        Ok(signals)
    }

    /// Listens also for those that a command gets, and for news of children.
    pub(crate) fn listen_for_command(&mut self) -> io::Result<()> {
        self.add(&PASSED_ON)?;
        // Even if it was ignored: then the kernel would not tell how a child has ended.
        self.ignored &= !bit(Signal::CHILD);
        self.add(&[Signal::CHILD])
    }

    fn add(&mut self, wanted: &[Signal]) -> io::Result<()> {
        for &one in wanted.iter().filter(|&&one| self.ignored & bit(one) == 0) {
            self.listened.push((one, signal(SignalKind::from_raw(one.as_raw()))?));
        }
        Ok(())
    }

    /// The next one. May be dropped at any point.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (one, listener) in &mut self.listened {
                if listener.poll_recv(context).is_ready() {
                    return Poll::Ready(*one);
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// The set of ignored signals, as the kernel lists it. The name of the program is in the list too,
/// and may be no text.
fn ignored(status: &[u8]) -> u64 {
    let mut lines = status.split(|&byte| byte == b'\n');
    let set = lines.find_map(|line| line.strip_prefix(b"SigIgn:"));
    let set = set.and_then(|set| std::str::from_utf8(set).ok());
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernels_list() {
        let status = b"Name:\t\xd0\xbf\xd0\nSigBlk:\t0000000000010000\nSigIgn:\t0000000000001001\n";
        let set = ignored(status);
        assert_ne!(set & bit(Signal::HUP), 0);
        assert_ne!(set & bit(Signal::PIPE), 0);
        assert_eq!(set & bit(Signal::INT), 0);
        assert_eq!(ignored(b"nothing of the kind"), 0);
    }
}
