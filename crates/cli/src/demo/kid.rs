//! `fencepost __kid`: becomes another verb, and dies with the demo that started it.
//!
//! It is not for people, and not in the help.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Become a verb that does not outlive its parent.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whom to die with
    #[arg(long)]
    parent: i32,

    /// The verb, with its arguments
    #[arg(last = true, required = true)]
    verb: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    // It stays in force when the process becomes another program.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent has died before that was asked for, nothing tells of it any more.
    if getppid().map(Pid::as_raw_pid) != Some(args.parent) {
        return Ok(ExitCode::FAILURE);
    }
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    // It returns only if it fails.
    let error = Command::new(program).args(args.verb).exec();
    Err(error).context("cannot run this program again")
}
