//! `fencepost lock`: runs a command under a lock, or holds it.
//!
//! Owns: the exit codes, the arguments that `elect` has too. Guarantees: standard output is the
//! command's alone; when the lock is lost, everything of the command has ended before anybody else
//! can get it. `docs/guarantees.md` says what that rests on. No message waits to be read: a pipe or a
//! terminal that takes nothing delays neither the lock nor the command, but for the end of the process
//! by a second at most.

mod forward;
pub(crate) mod hold;
mod identity;
mod leash;
mod process;
pub(crate) mod processes;
mod progress;
mod spinner;
mod stdout;
mod stopping;
mod supervise;
mod terminal;
pub(crate) mod timeline;
pub(crate) mod vigil;
pub(crate) mod words;
pub(crate) mod work;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use fencepost_client::{LockBuilder, TTL_DEFAULT};

use crate::common::{Common, block_on};
use crate::failure::Failure;
use crate::logs;
use crate::words::parse_length;
use hold::Wish;
use processes::ProcFs;
use timeline::Timeline;

/// The lock was lost while it was held.
pub(crate) const LOCK_LOST: u8 = 122;
/// The lock was not to be had; `-E` overrides.
const NOT_OBTAINED: &str = "124";
/// Something failed that is not the command's fault.
pub(crate) const OWN_FAILURE: u8 = 125;
/// A command that was ended by signal n.
const SIGNAL_BASE: u8 = 128;

/// Run a command under a lock, or hold it.
///
/// The command gets FENCEPOST_LOCK, FENCEPOST_TOKEN, FENCEPOST_LEASE and FENCEPOST_SIGNED_TOKEN in
/// its environment. If the lock is lost, the command and everything that it has started is ended
/// before anybody else can get the lock: TERM, a grace, KILL.
///
/// When the command has ended, what it has left in its process group for more than one second is stopped,
/// and the lock is given back. What leaves the group in time, as daemons do, runs on without the lock.
///
/// Exit codes: the command's own; 128+n if signal n has ended it; 122 the lock was lost; 124 the
/// lock was not obtained; 125 something else failed; 126 the command cannot be run; 127 there is no
/// such command.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The lock
    #[arg(required_unless_present = "dashed")]
    name: Option<String>,

    #[command(flatten)]
    hold: HoldArgs,

    /// Hold it together with everybody else who asks for it so
    #[arg(long, conflicts_with = "permits")]
    shared: bool,

    /// Hold one of N permits; everybody must ask for the same number
    #[arg(long, value_name = "N")]
    permits: Option<u32>,

    /// The command; without one, the lock is held until Ctrl-C, and its key and token are printed
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What `lock` and `elect` have in common.
#[derive(clap::Args)]
pub(crate) struct HoldArgs {
    /// How long the lock outlives a holder that has gone silent [default: 30s]
    #[arg(long, value_parser = parse_length, value_name = "TIME")]
    ttl: Option<Duration>,

    /// Wait at most so long [default: until it is granted]
    #[arg(long, value_parser = parse_length, value_name = "TIME")]
    wait: Option<Duration>,

    /// Do not wait at all
    #[arg(long = "try", conflicts_with = "wait")]
    try_once: bool,

    /// Text that others see beside the lock [default: user, host, process and program]
    #[arg(long, value_name = "TEXT")]
    meta: Option<String>,

    /// Show no text beside the lock
    #[arg(long, conflicts_with = "meta")]
    no_meta: bool,

    /// The name, if it begins with a dash: --name=-d
    #[arg(long = "name", id = "dashed", value_name = "NAME")]
    dashed: Option<String>,

    /// How long the command has between TERM and KILL if the lock is lost [default: a sixth of the
    /// TTL, at most 5s]
    #[arg(long, value_parser = parse_length, value_name = "TIME")]
    grace: Option<Duration>,

    /// The exit code if the lock is not obtained
    #[arg(short = 'E', long, default_value = NOT_OBTAINED, value_name = "CODE")]
    conflict_exit_code: u8,

    /// Do not say what is waited for
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    let (shared, permits) = (args.shared, args.permits);
    if args.name.is_some() && args.hold.dashed.is_some() {
        let why = "it stands by itself, and after --name";
        return Err(Failure::usage("the lock is named twice", why, "name it once").into());
    }
    let name = args.name.or(args.hold.dashed()).unwrap_or_default();
    args.hold.run(common, "lock", name, args.command, |lock| match permits {
        Some(permits) => lock.permits(permits),
        None if shared => lock.shared(),
        None => lock,
    })
}

impl HoldArgs {
    /// Acquires what `describe` makes of the lock, and runs the command or holds it. What fails
    /// after the arguments were understood has an exit code of its own, because the command's may be
    /// any other.
    pub(crate) fn run(
        self,
        common: &Common,
        verb: &str,
        name: String,
        command: Vec<OsString>,
        describe: impl FnOnce(LockBuilder) -> LockBuilder,
    ) -> anyhow::Result<ExitCode> {
        if command.is_empty() && std::env::args_os().next_back().is_some_and(|last| last == "--") {
            return Err(nothing_to_run().into());
        }
        let timeline = Timeline::plan(self.ttl.unwrap_or(TTL_DEFAULT), self.grace)?;
        let meta = self.text(&command);
        let wish = Wish {
            name: name.clone(),
            timeline,
            quiet: self.quiet,
            conflict: self.conflict_exit_code,
            command,
            output: common.output(),
        };
        let work = async {
            logs::open_for_messages()?;
            if !wish.command.is_empty() {
                ProcFs::open().map_err(|why| cannot_watch(&why))?;
            }
            let client = common.connect(verb).await?;
            let lock = describe(self.patience(client.lock(name).signed_if_possible()));
            let lock = lock.metadata(meta);
            wish.fulfil(client, lock).await
        };
        Ok(ExitCode::from(block_on(work).unwrap_or_else(|error| {
            crate::tell(&error);
            OWN_FAILURE
        })))
    }

    fn patience(&self, lock: LockBuilder) -> LockBuilder {
        match (self.try_once, self.wait) {
            (true, _) => lock.try_once(),
            (false, Some(at_most)) => lock.wait(at_most),
            (false, None) => lock.wait_forever(),
        }
    }

    /// The name, if it was given as an option.
    pub(crate) fn dashed(&self) -> Option<String> {
        self.dashed.clone()
    }

    /// What others see beside the lock.
    fn text(&self, command: &[OsString]) -> String {
        match &self.meta {
            Some(meta) => meta.clone(),
            None if self.no_meta => String::new(),
            None => identity::own(command),
        }
    }
}

/// A variable that is empty must not hold a lock for ever.
fn nothing_to_run() -> Failure {
    Failure::usage(
        "there is no command after --",
        "it is empty: a variable without a value, perhaps",
        "name the command, or leave -- out to hold the lock until Ctrl-C",
    )
}

/// Without the list of processes it could not be told whether anything of the command is left.
fn cannot_watch(why: &io::Error) -> Failure {
    Failure::new(
        "cannot run a command under a lock",
        format!("/proc cannot be used: {why}"),
        "mount it where this runs: mount -t proc proc /proc",
    )
}

/// Says something to people, without waiting for them.
fn say(what: &str) {
    logs::message(&format!("fencepost: {}\n", what.replace('\n', "\n           ")));
}
