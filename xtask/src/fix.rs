//! `cargo xtask fix`: repairs what a machine can repair.

use std::path::Path;

use crate::command::cargo;
use crate::steps::Steps;

/// The tree may be dirty: a person runs this in the middle of a change.
const CLIPPY: [&str; 8] = [
    "clippy",
    "--fix",
    "--allow-dirty",
    "--allow-staged",
    "--workspace",
    "--all-targets",
    "--all-features",
    "--locked",
];

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    steps.run("clippy", || cargo(root, &CLIPPY))?;
    // Last, because a repaired lint may leave a line too long.
    steps.run("format", || cargo(root, &["fmt", "--all"]))?;
    eprintln!("xtask fix: {}", steps.summary());
    Ok(())
}
