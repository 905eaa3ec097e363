//! `cargo xtask soak`: the long form of everything in the simulator.
//!
//! Planted bugs first: if the checkers have gone blind, the hours after that prove nothing.

use std::path::Path;

use crate::sim::simulate;
use crate::steps::Steps;

/// How many seeds are run twice, each of them.
const META_SEEDS: &str = "2000";

/// How long to soak.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Hours of fresh seeds
    #[arg(long, default_value_t = 8)]
    hours: u64,
}

pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let minutes = (60 * args.hours).to_string();
    let mut steps = Steps::default();
    steps.run("planted bugs", || simulate(root, &["--mutants", "--fresh"]))?;
    steps.run("every seed twice", || {
        simulate(root, &["--meta", "--fresh", "--seeds", META_SEEDS])
    })?;
    steps.run("fresh seeds", || simulate(root, &["--fresh", "--minutes", &minutes, "--kinds"]))?;
    eprintln!("xtask soak: {}", steps.summary());
    Ok(())
}
