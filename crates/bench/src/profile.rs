//! Where a server spends its time, as `perf` sees it while the load runs.
//!
//! Refuses: being needed. Without `perf` the run fails with a sentence that says so, and only if
//! somebody has asked for a profile.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::process::{Child, Command};

/// Samples a second. No multiple of anything that happens regularly.
const FREQUENCY: &str = "997";
/// Works also where the processor's own counters cannot be had, as in a virtual machine.
const EVENT: &str = "cpu-clock";

/// A recording that goes on.
pub struct Recording {
    child: Child,
    data: PathBuf,
}

impl Recording {
    /// Records these processes for so long.
    pub fn start(pids: &[u32], length: Duration, data: &Path) -> anyhow::Result<Recording> {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let mut command = Command::new("perf");
        command.args(["record", "-e", EVENT, "-F", FREQUENCY, "-g", "-p", &pids.join(",")]);
        command.arg("-o").arg(data).args(["--", "sleep", &length.as_secs_f64().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().context("cannot profile: `perf` is not installed")?;
        Ok(Recording { child, data: data.to_owned() })
    }

    /// Waits for its end, and writes beside it which functions took how much. Where that is.
    pub async fn finish(mut self) -> anyhow::Result<PathBuf> {
        let status = self.child.wait().await?;
        ensure!(status.success(), "`perf record` failed with {status}");
        let mut command = Command::new("perf");
        command.args(["report", "--stdio", "--no-children", "-g", "none", "-i"]).arg(&self.data);
        let output = command.stdin(Stdio::null()).output().await?;
        ensure!(output.status.success(), "`perf report` failed with {}", output.status);
        let text = self.data.with_extension("txt");
        std::fs::write(&text, output.stdout)?;
        Ok(text)
    }
}
