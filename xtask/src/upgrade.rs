//! `cargo xtask upgrade`: a rolling upgrade between two builds, with real processes under load.
//!
//! Owns: the check that a lock survives an upgrade. Guarantees: a run fails if a holder loses its
//! lock, if two clients run their critical sections at once, if a token is not greater than the one
//! before it, or if the feature level does not rise when the last member is upgraded, or rises
//! before. Refuses: to guess the older build. It is built from a revision of this repository.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::bench::baseline::{self, Wanted};
use crate::bench::build::{Build, FENCEPOST};
use crate::cluster::Cluster;
use crate::load::Load;

/// The last revision of feature level 1.
const LEVEL_1: &str = "05ddd71a70bbe8d20a6b18b610e51653e17d74d8";

/// What to upgrade from.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Revision of the older build
    #[arg(long, default_value = LEVEL_1, value_name = "REVISION")]
    from: String,
}

impl Default for Args {
    fn default() -> Args {
        Args { from: LEVEL_1.to_owned() }
    }
}

pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let build = Build::new(root, false);
    let wanted = Wanted::Revision(args.from.clone());
    let old = baseline::build(root, &build, wanted)?.context("a revision was named")?.program;
    let new = build.program_in(root, &FENCEPOST)?;
    let data = build.common.join("upgrade");
    fs::remove_dir_all(&data).ok();
    fs::create_dir_all(&data)?;
    let mut cluster = Cluster::start(&data, &old)?;
    let mut load = Load::start(&data, &cluster.endpoints(), [&old, &new])?;
    load.wait_for_cycles(5)?;

    // Two of three run the new build, and go back: the level has not risen.
    for member in [0, 1] {
        cluster.replace(member, &new)?;
        load.wait_for_cycles(5)?;
    }
    ensure!(cluster.feature_level(&new)? == 1, "the level has risen with one old member left");
    for member in [1, 0] {
        cluster.replace(member, &old)?;
        load.wait_for_cycles(5)?;
    }
    for member in [2, 1, 0] {
        cluster.replace(member, &new)?;
        load.wait_for_cycles(5)?;
    }
    cluster.wait_for_feature_level(&new, 2)?;
    load.wait_for_cycles(5)?;

    // An older build refuses the directory from now on.
    cluster.refuses(1, &old)?;
    cluster.replace(1, &new)?;
    load.wait_for_cycles(5)?;
    let cycles = load.finish()?;
    eprintln!("xtask upgrade: {cycles} cycles, both holders kept their locks, feature level 2");
    Ok(())
}
