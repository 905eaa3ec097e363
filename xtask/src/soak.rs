//! `cargo xtask soak`: the long form of everything in the simulator, of real processes under a lock, of
//! the comparison with a real etcd, and of releases that a stopped member reads late.
//!
//! Planted bugs first: if the checkers have gone blind, the hours after that prove nothing.

mod resources;
mod slow_disk;

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};

use crate::command::cargo_with;
use crate::sim::simulate;
use crate::steps::Steps;
use crate::stores;
use crate::upgrade;

/// How many seeds are run twice, each of them.
const META_SEEDS: &str = "2000";

/// How many random requests a real etcd and we are asked, in how many runs.
const DIFFERENTIAL_REQUESTS: &str = "200000";
const DIFFERENTIAL_RUNS: u64 = 5;
const DIFFERENTIAL: [&str; 7] =
    ["test", "-p", "fencepost-server", "--locked", "--test", "etcd", "differential"];

/// Real processes under a lock, each schedule many times.
const PROCESSES: [&str; 6] =
    ["test", "-p", "fencepost-cli", "--locked", "--test", "lock_processes"];
/// How often a member is stopped that has a release to read.
const LATE_RELEASES: &str = "100";
const LATE_RELEASE: [&str; 7] =
    ["test", "-p", "fencepost-cli", "--locked", "--test", "cli", "late_release"];

/// How long to soak.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Hours of fresh seeds
    #[arg(long, default_value_t = 8)]
    hours: u64,

    /// Run this part alone
    #[arg(long, value_enum)]
    only: Option<Part>,

    /// Program that suffers faults of resources and of the disk [default: a release build]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// What can be run alone.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Floods, stalled readers and few descriptors, with real processes
    Resources,
    /// A member whose disk is slow, then fails, with real processes
    SlowDisk,
    /// Real processes under a lock, and releases that a stopped member reads late
    Processes,
}

pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let minutes = (60 * args.hours).to_string();
    let mut steps = Steps::default();
    if let Some(part) = args.only {
        match part {
            Part::Resources => resources(root, args, &mut steps)?,
            Part::SlowDisk => slow_disk(root, args, &mut steps)?,
            Part::Processes => processes(root, &mut steps)?,
        }
        eprintln!("xtask soak: {}", steps.summary());
        return Ok(());
    }
    steps.run("planted bugs", || simulate(root, &["--mutants", "--fresh"]))?;
    steps.run("every seed twice", || {
        simulate(root, &["--meta", "--fresh", "--seeds", META_SEEDS])
    })?;
    steps.run("rolling upgrade", || upgrade::run(root, &upgrade::Args::default()))?;
    processes(root, &mut steps)?;
    resources(root, args, &mut steps)?;
    slow_disk(root, args, &mut steps)?;
    steps.run("beside a real etcd", || differential(root))?;
    steps.run("fresh seeds", || simulate(root, &["--fresh", "--minutes", &minutes, "--kinds"]))?;
    eprintln!("xtask soak: {}", steps.summary());
    Ok(())
}

fn processes(root: &Path, steps: &mut Steps) -> anyhow::Result<()> {
    steps.run("processes under a lock", || {
        cargo_with(root, &PROCESSES, &[("FENCEPOST_LOCK_SOAK", "1")])
    })?;
    steps.run("late releases", || {
        cargo_with(root, &LATE_RELEASE, &[("FENCEPOST_LATE_RELEASES", LATE_RELEASES)])
    })
}

fn resources(root: &Path, args: &Args, steps: &mut Steps) -> anyhow::Result<()> {
    steps.run("resource faults", || resources::run(root, args.program.as_deref()))
}

fn slow_disk(root: &Path, args: &Args, steps: &mut Steps) -> anyhow::Result<()> {
    steps.run("a slow disk", || slow_disk::run(root, args.program.as_deref()))
}

fn differential(root: &Path) -> anyhow::Result<()> {
    stores::install();
    for _ in 0..DIFFERENTIAL_RUNS {
        // Seeds that nobody has seen. A failure names its own.
        let seed = RandomState::new().hash_one(()).to_string();
        let env = [
            ("FENCEPOST_DIFFERENTIAL_REQUESTS", DIFFERENTIAL_REQUESTS),
            ("FENCEPOST_DIFFERENTIAL_SEED", seed.as_str()),
        ];
        cargo_with(root, &DIFFERENTIAL, &env)?;
    }
    Ok(())
}
