//! The project's own chores, run as `cargo xtask <verb>`.
//!
//! Owns: what has to hold before a change is merged, and in which order it is looked at.
//! Refuses: being needed at run time. Nothing that ships depends on this crate.
//!
//! One file per verb. A new verb is a module with `run`, a variant of [`Verb`] and one arm of
//! [`dispatch`].

mod bench;
mod cluster;
mod command;
mod contract;
mod etcd3;
mod fix;
mod load;
mod open_metrics;
mod pyjwt;
mod python;
mod server;
mod sim;
mod skips;
mod soak;
mod steps;
mod stores;
mod test;
mod test_runner;
mod tidy;
mod upgrade;
mod usage;
mod verify;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use steps::{Outcome, Steps};

/// The project's own chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run everything: verify, all tests, and the planted bugs that the tests must catch
    Test(test::Args),
    /// Look for anything wrong with the sources; never writes
    Verify,
    /// Repair what a machine can repair: formatting and simple lints
    Fix,
    /// Check the house rules that no compiler knows
    Tidy,
    /// Verify a signed token of a real server with PyJWT
    Pyjwt,
    /// Read the metrics of a real server with the reference parser of OpenMetrics
    OpenMetrics,
    /// Run whole clusters in virtual time, with faults, and check them
    Sim(sim::Args),
    /// Run the simulator for hours: fresh seeds, planted bugs, and every seed twice
    Soak(soak::Args),
    /// Upgrade a cluster of real processes from an earlier revision, under load
    Upgrade(upgrade::Args),
    /// Measure Fencepost beside etcd, ZooKeeper and Redis, in one run
    Bench(bench::Args),
}

fn main() -> ExitCode {
    match dispatch(&Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, and the last one: a backtrace of this program would bury the step's own
            // message, which is what the reader needs.
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(verb: &Verb) -> anyhow::Result<()> {
    let root = root()?;
    match verb {
        Verb::Test(args) => test::run(&root, args),
        Verb::Verify => verify::run(&root),
        Verb::Fix => fix::run(&root),
        Verb::Tidy => tidy::run(&root),
        Verb::Pyjwt => alone("PyJWT", || pyjwt::run(&root)),
        Verb::OpenMetrics => alone("OpenMetrics", || open_metrics::run(&root)),
        Verb::Sim(args) => sim::run(&root, args),
        Verb::Upgrade(args) => upgrade::run(&root, args),
        Verb::Soak(args) => soak::run(&root, args),
        Verb::Bench(args) => bench::run(&root, args),
    }
}

/// A step that is a verb of its own.
fn alone(name: &'static str, step: impl FnOnce() -> anyhow::Result<Outcome>) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    steps.run(name, step)?;
    eprintln!("xtask: {}", steps.summary());
    Ok(())
}

/// The workspace's root: the parent of this crate's folder.
///
/// Cargo names that folder at run time. The path known at compile time is only the fallback,
/// because a target directory shared by two checkouts may hold the other one's binary.
fn root() -> anyhow::Result<PathBuf> {
    let here = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map(Path::to_path_buf).context("the xtask crate has no parent folder")
}
