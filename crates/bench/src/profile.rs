//! Where servers and load generator spend their time, as `perf` sees it while the load runs: a flame
//! graph for each, and a list of functions.
//!
//! Refuses: being needed. Without `perf` a run ends before it begins, with a sentence that says so, and
//! only if somebody has asked for a profile.
//!
//! `perf` follows frame pointers, so the programs must have been built with them; `cargo xtask bench
//! --profile` does that.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use inferno::collapse::Collapse as _;
use inferno::{collapse, flamegraph};
use tokio::process::{Child, Command};

/// Samples a second. No multiple of anything that happens regularly.
const FREQUENCY: &str = "997";
/// Works also where the processor's own counters cannot be had, as in a virtual machine.
const EVENT: &str = "cpu-clock";

/// Whether `perf` can be had at all.
pub fn check() -> anyhow::Result<()> {
    let outcome = std::process::Command::new("perf").arg("--version").output();
    let is_there = outcome.is_ok_and(|output| output.status.success());
    ensure!(
        is_there,
        "--profile needs `perf`, which is not installed: `apt-get install linux-perf`"
    );
    Ok(())
}

/// A recording that goes on.
pub struct Recording {
    child: Child,
    /// What the results are called, without an ending.
    stem: PathBuf,
    cell: String,
    servers: Vec<u32>,
}

impl Recording {
    /// Records these processes and this one for so long.
    pub fn start(
        servers: Vec<u32>,
        length: Duration,
        folder: &Path,
        cell: &str,
    ) -> anyhow::Result<Recording> {
        fs::create_dir_all(folder).context("cannot make the folder for profiles")?;
        let stem = folder.join(format!("profile-{cell}"));
        let all = [&servers[..], &[std::process::id()]].concat();
        let mut command = Command::new("perf");
        command.args(["record", "-e", EVENT, "-F", FREQUENCY, "--call-graph", "fp"]);
        command.args(["-p", &list(&all)]).arg("-o").arg(stem.with_extension("data"));
        command.args(["--", "sleep", &length.as_secs_f64().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.kill_on_drop(true).spawn().context("cannot start `perf`")?;
        Ok(Recording { child, stem, cell: cell.to_owned(), servers })
    }

    /// Waits for its end, and writes what was seen. Where that is.
    pub async fn finish(self) -> anyhow::Result<Vec<PathBuf>> {
        let Recording { child, stem, cell, servers } = self;
        good("perf record", child.wait_with_output().await?)?;
        let data = stem.with_extension("data");
        let text = stem.with_extension("txt");
        let mut report = Command::new("perf");
        report.args(["report", "--stdio", "--no-children", "--no-inline", "-g", "none"]);
        let output = report.arg("-i").arg(&data).stdin(Stdio::null()).output().await?;
        fs::write(&text, good("perf report", output)?)?;
        let mut written = vec![text];
        for (who, pids) in [("servers", servers), ("generator", vec![std::process::id()])] {
            let mut script = Command::new("perf");
            script.args(["script", "--no-inline", "--pid", &list(&pids)]);
            let output = script.arg("-i").arg(&data).stdin(Stdio::null()).output().await?;
            let stacks = good("perf script", output)?;
            let picture = PathBuf::from(format!("{}-{who}.svg", stem.display()));
            draw(&stacks, &format!("{cell}: {who}"), &picture)
                .with_context(|| format!("cannot draw {}", picture.display()))?;
            written.push(picture);
        }
        Ok(written)
    }
}

/// A flame graph of stacks as `perf script` prints them.
fn draw(stacks: &[u8], title: &str, picture: &Path) -> anyhow::Result<()> {
    let mut folded = Vec::new();
    collapse::perf::Folder::default().collapse(stacks, &mut folded)?;
    ensure!(!folded.is_empty(), "`perf` has seen nothing of it");
    let mut options = flamegraph::Options::default();
    title.clone_into(&mut options.title);
    // What that event counts.
    "ns of CPU".clone_into(&mut options.count_name);
    let out = BufWriter::new(File::create(picture)?);
    Ok(flamegraph::from_reader(&mut options, &folded[..], out)?)
}

fn list(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// What a program printed, if it did what it was asked.
fn good(what: &str, output: Output) -> anyhow::Result<Vec<u8>> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("`{what}` failed with {}: {}", output.status, said.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACKS: &[u8] = b"\
fencepost 4711/4712 1.000000:    1003009 cpu-clock: 
\t    55d0c0a0 fencepost::inner+0x10 (/somewhere/fencepost)
\t    55d0c0b0 fencepost::outer+0x20 (/somewhere/fencepost)

fencepost 4711/4712 1.001003:    1003009 cpu-clock: 
\t    55d0c0c0 fencepost::other+0x10 (/somewhere/fencepost)
\t    55d0c0b0 fencepost::outer+0x20 (/somewhere/fencepost)

";

    #[test]
    fn stacks_become_a_picture() {
        let folder = tempfile::tempdir().unwrap();
        let picture = folder.path().join("a.svg");
        draw(STACKS, "w1-1n-64-fencepost: servers", &picture).unwrap();
        let text = fs::read_to_string(picture).unwrap();
        assert!(text.contains("<svg"), "{text}");
        for wanted in [
            "w1-1n-64-fencepost: servers",
            "inner (1,003,009 ns of CPU, 50.00%)",
            "outer (2,006,018 ns",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing: {text}");
        }
    }

    #[test]
    fn nothing_seen_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = draw(b"", "empty", &folder.path().join("a.svg")).unwrap_err();
        assert!(error.to_string().contains("has seen nothing"), "{error:#}");
    }
}
