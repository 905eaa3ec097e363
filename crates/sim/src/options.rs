//! What the command can be asked for.

use clap::Parser;

/// Runs whole clusters in virtual time, with faults, and checks them.
#[derive(Clone, Debug, Parser)]
#[command(name = "fencepost-sim", bin_name = "cargo xtask sim")]
pub struct Options {
    /// How many seeds to run
    #[arg(long, default_value_t = 500)]
    pub seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    pub from: u64,
    /// Begin with a seed that nobody has used before
    #[arg(long, conflicts_with = "from")]
    pub fresh: bool,
    /// Run one seed only
    #[arg(long)]
    pub seed: Option<u64>,
    /// Print everything that happens in that one seed
    #[arg(long, requires = "seed")]
    pub trace: bool,
    /// Plant this bug in that one seed, or hunt no other
    #[arg(long)]
    pub bug: Option<String>,
    /// Run for so many minutes, however many seeds that is
    #[arg(long)]
    pub minutes: Option<u64>,
    /// Hunt every planted bug instead
    #[arg(long)]
    pub mutants: bool,
    /// Run every seed twice, and compare
    #[arg(long)]
    pub meta: bool,
    /// Say how often each kind of fault was done
    #[arg(long)]
    pub kinds: bool,
}
