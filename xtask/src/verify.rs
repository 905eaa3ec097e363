//! `cargo xtask verify`: everything that can be said about the sources without running them.
//!
//! Guarantees: it never writes to the work tree. Repairs are `cargo xtask fix`.

use std::path::Path;

use crate::command::{cargo, has_cargo};
use crate::steps::{Outcome, Steps};
use crate::tidy;

const CLIPPY: [&str; 8] = [
    "clippy",
    "--workspace",
    "--all-targets",
    "--all-features",
    "--locked",
    "--",
    "-D",
    "warnings",
];

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut all = Steps::default();
    steps(root, &mut all)?;
    eprintln!("xtask verify: {}", all.summary());
    Ok(())
}

/// The same steps as a part of a longer run.
pub(crate) fn steps(root: &Path, steps: &mut Steps) -> anyhow::Result<()> {
    steps.run("format", || cargo(root, &["fmt", "--all", "--check"]))?;
    steps.run("clippy", || cargo(root, &CLIPPY))?;
    steps.run("tidy", || tidy::run(root))?;
    steps.run("dependencies", || dependencies(root))
}

fn dependencies(root: &Path) -> anyhow::Result<Outcome> {
    if !has_cargo(root, "deny") {
        let why = "cargo-deny is missing: cargo install cargo-deny";
        return Ok(Outcome::Skipped(why.to_owned()));
    }
    cargo(root, &["deny", "check", "licenses", "bans", "sources"])?;
    Ok(Outcome::Passed)
}
