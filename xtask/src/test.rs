//! `cargo xtask test`: everything a change must pass.
//!
//! The order is cheapest first. cargo-nextest is used where it is installed and never required.
//! Guarantees: what did not run is listed by name at the end, and is not counted as passed.
//! Refuses: a run in which tests rewrite what they compare with.

use std::env;
use std::path::Path;

use anyhow::{Context as _, bail};
use fencepost_testkit::{SKIPPED_FILE, UPDATE_EXPECT};

use crate::contract;
use crate::etcd3;
use crate::open_metrics;
use crate::pyjwt;
use crate::skips::{self, Skips};
use crate::steps::Steps;
use crate::stores;
use crate::test_runner::Runner;
use crate::verify;

const WORKSPACE: [&str; 2] = ["--workspace", "--locked"];
const DOC: [&str; 3] = ["--doc", "--workspace", "--locked"];

/// The planted bugs are behind features that no shipped build has, so they are a run of their own.
const PLANTED: [&str; 9] = [
    "-p",
    "fencepost-core",
    "-p",
    "fencepost-client",
    "--features",
    "fencepost-core/mutants,fencepost-client/mutants",
    "--test",
    "mutants",
    "--locked",
];

/// Variables with which a test writes the file that it compares with.
const REWRITES: [&str; 2] = [UPDATE_EXPECT, "SNAPSHOTS"];

/// Below the root: what a run writes.
const FOLDER: &str = "target/xtask-test";

/// How to run the tests.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What runs the tests [default: nextest where cargo-nextest is installed, else cargo]
    #[arg(long, value_enum)]
    runner: Option<Runner>,
}

pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    refuse_rewriting(|variable| env::var_os(variable).is_some())?;
    let mut steps = Steps::default();
    verify::steps(root, &mut steps)?;

    steps.run("tools for the tests", || {
        stores::install();
        Ok(())
    })?;
    let mut tests = Tests::begin(root, args.runner)?;
    steps.run("tests", || tests.run(tests.runner, &WORKSPACE))?;
    if tests.runner == Runner::Nextest {
        // Plain `cargo test` has run these already; nextest cannot.
        steps.run("doc tests", || tests.run(Runner::CargoTest, &DOC))?;
    }
    steps.run("contract of the HTTP door", || contract::run(root))?;
    steps.run("tests of etcd's Python client", || etcd3::run(root))?;
    steps.run("a signed token, verified by PyJWT", || pyjwt::run(root))?;
    steps.run("metrics, read by the reference parser", || open_metrics::run(root))?;
    steps.run("planted bugs", || tests.run(tests.runner, &PLANTED))?;

    eprintln!("xtask test: {}", steps.summary());
    eprintln!("xtask test: {}", skips::summary(tests.passed, &tests.skips.read()?));
    Ok(())
}

/// The runs of tests, and what they have shown so far.
struct Tests<'a> {
    root: &'a Path,
    runner: Runner,
    skips: Skips,
    /// By the count of the runner; none if one run did not say it.
    passed: Option<u64>,
}

impl<'a> Tests<'a> {
    fn begin(root: &'a Path, runner: Option<Runner>) -> anyhow::Result<Tests<'a>> {
        let skips = Skips::begin(&root.join(FOLDER))?;
        let runner = runner.unwrap_or_else(|| Runner::choose(root));
        Ok(Tests { root, runner, skips, passed: Some(0) })
    }

    fn run(&mut self, runner: Runner, selection: &[&str]) -> anyhow::Result<()> {
        let file = self.skips.file().to_str().context("the path of the project is not text")?;
        let passed = runner.run(self.root, selection, &[(SKIPPED_FILE, file)])?;
        self.passed = self.passed.zip(passed).map(|(before, more)| before + more);
        Ok(())
    }
}

/// A test that writes what it compares with cannot fail.
fn refuse_rewriting(is_set: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let Some(variable) = REWRITES.into_iter().find(|variable| is_set(variable)) else {
        return Ok(());
    };
    bail!(
        "{variable} is set\n\
         with it, tests write the files that they compare with, and cannot fail\n\
         run `env -u {variable} cargo xtask test`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_rewrites_expected_files_is_refused() {
        refuse_rewriting(|_| false).expect("nothing is set");
        for variable in REWRITES {
            let refused = refuse_rewriting(|name| name == variable).expect_err("it is set");
            let text = refused.to_string();
            assert_eq!(text.lines().count(), 3, "{text}");
            assert!(text.ends_with(&format!("run `env -u {variable} cargo xtask test`")), "{text}");
        }
    }
}
