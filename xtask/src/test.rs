//! `cargo xtask test`: everything a change must pass.
//!
//! The order is cheapest first. cargo-nextest is used where it is installed and never required.

use std::path::Path;

use crate::command::{cargo, has_cargo};
use crate::contract;
use crate::etcd3;
use crate::open_metrics;
use crate::pyjwt;
use crate::steps::Steps;
use crate::stores;
use crate::verify;

const WORKSPACE: [&str; 2] = ["--workspace", "--locked"];

/// The planted bugs are behind a feature that no shipped build has, so they are a run of their own.
const PLANTED: [&str; 7] =
    ["-p", "fencepost-core", "--features", "mutants", "--test", "mutants", "--locked"];

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut steps = Steps::default();
    verify::steps(root, &mut steps)?;

    steps.run("stores for the tests", || {
        stores::install();
        Ok(())
    })?;
    let runner = Runner::choose(root);
    steps.run("tests", || cargo(root, &runner.args(&WORKSPACE)))?;
    if runner == Runner::Nextest {
        // Plain `cargo test` has run these already; nextest cannot.
        steps.run("doc tests", || cargo(root, &["test", "--doc", "--workspace", "--locked"]))?;
    }
    steps.run("contract of the HTTP door", || contract::run(root))?;
    steps.run("tests of etcd's Python client", || etcd3::run(root))?;
    steps.run("a signed token, verified by PyJWT", || pyjwt::run(root))?;
    steps.run("metrics, read by the reference parser", || open_metrics::run(root))?;
    steps.run("planted bugs", || cargo(root, &runner.args(&PLANTED)))?;

    eprintln!("xtask test: {}", steps.summary());
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Nextest,
    CargoTest,
}

impl Runner {
    fn choose(root: &Path) -> Self {
        if has_cargo(root, "nextest") { Self::Nextest } else { Self::CargoTest }
    }

    fn args<'a>(self, selection: &[&'a str]) -> Vec<&'a str> {
        let verb: &[&str] = match self {
            Self::Nextest => &["nextest", "run"],
            Self::CargoTest => &["test"],
        };
        verb.iter().chain(selection).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_runners_get_the_same_selection() {
        let nextest = Runner::Nextest.args(&WORKSPACE).join(" ");
        let plain = Runner::CargoTest.args(&WORKSPACE).join(" ");
        assert_eq!(nextest, "nextest run --workspace --locked");
        assert_eq!(plain, "test --workspace --locked");
    }
}
