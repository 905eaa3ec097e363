//! `cargo xtask sim`: whole clusters in virtual time, with faults from a seed.
//!
//! The simulator knows its own options; here they are only handed on, so that `--help` after the
//! verb shows them.

use std::path::Path;

use crate::command::cargo;

/// What builds and starts the simulator.
const RUN: [&str; 6] = ["run", "--release", "--quiet", "--package", "fencepost-sim", "--"];

/// Everything after the verb.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Options of the simulator: --seeds N, --from SEED, --fresh, --seed S --trace, --minutes M,
    /// --mutants, --meta
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let options: Vec<&str> = args.options.iter().map(String::as_str).collect();
    simulate(root, &options)
}

/// Runs the simulator with these options.
pub(crate) fn simulate(root: &Path, options: &[&str]) -> anyhow::Result<()> {
    let args: Vec<&str> = RUN.iter().chain(options).copied().collect();
    cargo(root, &args)
}
