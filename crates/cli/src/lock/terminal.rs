//! The terminal, and which process group may read from it.
//!
//! A command runs in a group of its own. On a terminal that group must be the foreground one, or it
//! is stopped when it reads. Guarantees: what was given to the command is taken back.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The terminal of this process.
pub(crate) struct Terminal {
    device: File,
    modes: Termios,
    is_given: bool,
}

impl Terminal {
    /// Nothing if there is no terminal.
    pub(crate) fn open() -> Option<Terminal> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&device).ok()?;
        // Whoever takes the terminal back is in the background then, and the kernel would stop it
        // for that with this signal. Children begin with no signal blocked.
        let mut stopping = SigSet::empty();
        stopping.add(Signal::SIGTTOU);
        stopping.thread_block().ok()?;
        Some(Terminal { device, modes, is_given: false })
    }

    /// Gives it to a command that begins, if it is there for it alone. In a pipeline, others of the
    /// same job may need it; then the command gets it when it asks.
    pub(crate) fn give_at_start(&mut self, group: Pid) {
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            self.give(group);
        }
    }

    /// Gives it to the group if it is this process's to give. Whether the group has it now.
    pub(crate) fn give(&mut self, group: Pid) -> bool {
        if tcgetpgrp(&self.device).is_ok_and(|now| now == getpgrp()) {
            self.is_given = tcsetpgrp(&self.device, group).is_ok();
        }
        self.is_given
    }

    /// Takes it back.
    pub(crate) fn take_back(&mut self) {
        if std::mem::take(&mut self.is_given) {
            // It may be gone: the window was closed.
            let _ = tcsetpgrp(&self.device, getpgrp());
        }
    }

    /// Takes it back from a command that was killed and could not tidy up.
    pub(crate) fn take_back_tidied(&mut self) {
        let had_it = self.is_given;
        self.take_back();
        if had_it {
            let _ = tcsetattr(&self.device, OptionalActions::Drain, &self.modes);
        }
    }
}
