//! `fencepost __exec`: the step between the supervisor of a command and the command itself.
//!
//! It sees to it that the command dies with its supervisor, and stops until the supervisor has told
//! the watchdog of it. Then it becomes the command. It is not for people, and not in the help.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal,
};

use crate::{logs, signals};

/// The exit codes of timeout(1): the command is there and cannot be run, or is not there.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Become a command.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Who is to be waited for, and died with
    #[arg(long)]
    supervisor: i32,

    /// The command
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If it has died before it was asked for, nothing tells of it any more.
    if getppid().map(Pid::as_raw_pid) != Some(args.supervisor) {
        return Ok(ExitCode::from(crate::lock::OWN_FAILURE));
    }
    // The supervisor sees the stop and, once the watchdog knows whom to kill, ends it.
    kill_process(getpid(), Signal::STOP)?;
    let mut words = args.command.into_iter();
    let program = words.next().unwrap_or_default();
    // It returns only if it fails.
    let error = Command::new(&program).args(words).exec();
    // It has unblocked all signals.
    signals::outlive_file_size_limit();
    // The lock is held until this process ends, so it must not wait for the message to be read.
    if logs::open_for_messages().is_ok() {
        logs::message(&format!("fencepost: cannot run {}: {error}\n", program.display()));
    }
    let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    Ok(ExitCode::from(code))
}
