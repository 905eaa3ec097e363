//! `cargo xtask bench`: Fencepost beside the systems people use today, in one run; beside an earlier
//! build of itself; and the core's instructions beside a snapshot of them.
//!
//! Builds the program that is measured and the load generator, both for release, and hands on all
//! other options; `--help` after the verb shows them. `docs/benchmarking.md` is the manual.
//! Guarantees: nothing is measured that was not built from this tree, or from the named revision.

pub(crate) mod baseline;
pub(crate) mod build;
mod instructions;
mod options;

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::stores;
use baseline::Wanted;
use build::{Build, FENCEPOST, GENERATOR};
use options::{take_flag, take_value, value};

/// The options that the load generator does not know.
const HELP: &str = "\
Options of `cargo xtask bench` itself:
  --baseline REV   also build this revision, and compare with it; `none` for none
                   [default with --quick: the tag of the last release, if there is one]
  --realtime       let load and servers go before everything else, on a busy machine
  --instructions   count the instructions of the core's hot commands, and nothing else
  --bless          with --instructions: write the snapshot that is compared with

Options of the load generator (--fencepost, --data, --out and --baseline* are set for you):
";

/// Everything after the verb.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `cargo xtask bench --help` shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let mut options = args.options.clone();
    let is_blessed = take_flag(&mut options, "--bless");
    if take_flag(&mut options, "--instructions") {
        ensure!(options.is_empty(), "--instructions goes with --bless, and with nothing else");
        return instructions::run(root, is_blessed);
    }
    ensure!(!is_blessed, "--bless goes with --instructions only");
    let has = |name: &str, options: &[String]| options.iter().any(|option| option == name);
    if has("--help", &options) || has("-h", &options) {
        eprint!("{HELP}");
        return start(
            root,
            Command::new(Build::new(root, false).program_in(root, &GENERATOR)?),
            &options,
        );
    }
    let wanted = Wanted::of(take_value(&mut options, "--baseline")?, has("--quick", &options));
    let is_realtime = take_flag(&mut options, "--realtime");
    let is_profiled = has("--profile", &options);
    if is_profiled {
        stores::need_perf()?;
    }
    stores::install_peers(value(&options, "--peers")?.as_deref());
    measure(root, &Build::new(root, is_profiled), wanted, is_realtime, &options)
}

fn measure(
    root: &Path,
    build: &Build,
    wanted: Wanted,
    is_realtime: bool,
    options: &[String],
) -> anyhow::Result<()> {
    let baseline = baseline::build(root, build, wanted)?;
    let fencepost = build.program_in(root, &FENCEPOST)?;
    let generator = build.program_in(root, &GENERATOR)?;
    let mut command = if is_realtime {
        // Whoever sleeps until its disk has synced is otherwise woken a tick late while somebody
        // compiles, and whoever is busy all the time is not: ratios would be those of the machine.
        let mut first = Command::new("chrt");
        first.args(["--rr", "1"]).arg(generator);
        first
    } else {
        Command::new(generator)
    };
    command.arg("--fencepost").arg(fencepost);
    command.arg("--data").arg(build.common.join("bench-data"));
    command.arg("--out").arg(build.common.join("bench"));
    if let Some(baseline) = baseline {
        command.arg("--baseline").arg(baseline.program);
        command.arg("--baseline-revision").arg(baseline.revision);
    }
    start(root, command, options)
}

fn start(root: &Path, mut command: Command, options: &[String]) -> anyhow::Result<()> {
    command.current_dir(root).args(options);
    let status = command.status().context("cannot start the benchmark")?;
    ensure!(status.success(), "a bar was missed, or something could not be measured");
    Ok(())
}
