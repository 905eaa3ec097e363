//! The metrics of a real server, read by the reference parser of OpenMetrics.
//!
//! The parser is that of the Python package `prometheus_client`. Where that cannot be had, it
//! is skipped.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::python::environment;
use crate::server::Server;
use crate::steps::Outcome;

const PACKAGE: &str = "prometheus_client==0.23.1";
const SCRIPT: &str = include_str!("open_metrics.py");

pub(crate) fn run(root: &Path) -> anyhow::Result<Outcome> {
    let home = root.join("target/open_metrics");
    let python = match environment(&home, &[PACKAGE]) {
        Ok(python) => python,
        Err(why) => return Ok(Outcome::Skipped(format!("{why:#}"))),
    };
    let server = Server::start(root, &home, "127.0.0.1:0")?;
    // So that there is something in the histograms.
    server.ask(&["lock", "demo", "--", "true"])?;
    let mut check = Command::new(python);
    check.args(["-c", SCRIPT, &format!("{}/metrics", server.url)]);
    ensure!(check.status().context("run the script")?.success(), "the parser does not agree");
    Ok(Outcome::Passed)
}
