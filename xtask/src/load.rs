//! Clients that hold a lock throughout, and clients that compete for one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail, ensure};

use crate::cluster::until;

/// Threads that compete for one lock, for each build.
const COMPETITORS: usize = 2;

/// What a competitor does while it holds the lock. A second one that is inside finds the folder.
const CRITICAL_SECTION: &str = r#"
mkdir "$RUN/inside" || { echo "two inside with token $FENCEPOST_TOKEN" >> "$RUN/violations"; exit 0; }
echo "$FENCEPOST_TOKEN" >> "$RUN/tokens"
rmdir "$RUN/inside""#;

/// The clients.
pub(crate) struct Load {
    folder: PathBuf,
    holders: Vec<Child>,
    is_over: Arc<AtomicBool>,
    competitors: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts a holder and competitors of each build.
    pub(crate) fn start(
        folder: &Path,
        endpoints: &str,
        builds: [&Path; 2],
    ) -> anyhow::Result<Load> {
        let folder = folder.to_path_buf();
        fs::write(folder.join("tokens"), "")?;
        fs::write(folder.join("violations"), "")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut load =
            Load { folder: folder.clone(), holders: Vec::new(), is_over, competitors: Vec::new() };
        for (number, build) in builds.into_iter().enumerate() {
            let mut command = lock(build, endpoints, &format!("held-{number}"), "6s");
            command.args(["sleep", "100000"]).stderr(File::create(load.log_of(number))?);
            load.holders.push(command.spawn().context("start a holder")?);
            for _ in 0..COMPETITORS {
                let mut command = lock(build, endpoints, "contended", "4s");
                command.args(["sh", "-c", CRITICAL_SECTION]).env("RUN", &folder);
                let is_over = Arc::clone(&load.is_over);
                load.competitors.push(thread::spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        // A cycle may fail while a leader is replaced; what counts is checked by
                        // the critical section.
                        command.status().ok();
                    }
                }));
            }
        }
        Ok(load)
    }

    /// Waits until the competitors have had the lock so many times more, and checks that the holders
    /// have theirs.
    pub(crate) fn wait_for_cycles(&mut self, more: usize) -> anyhow::Result<()> {
        let goal = self.tokens()?.len() + more;
        until(
            "the competitors take the lock",
            || Ok((self.tokens()?.len() >= goal).then_some(())),
        )?;
        self.check_holders()
    }

    fn check_holders(&mut self) -> anyhow::Result<()> {
        for number in 0..self.holders.len() {
            if let Some(status) = self.holders[number].try_wait()? {
                let log = fs::read_to_string(self.log_of(number))?;
                bail!("holder {number} lost its lock ({status}):\n{log}");
            }
        }
        Ok(())
    }

    /// Where a holder logs to.
    fn log_of(&self, number: usize) -> PathBuf {
        self.folder.join(format!("holder-{number}.log"))
    }

    /// Checks what the clients saw, and says how often the lock changed hands.
    pub(crate) fn finish(mut self) -> anyhow::Result<usize> {
        self.end_competitors();
        self.check_holders()?;
        let violations = fs::read_to_string(self.folder.join("violations"))?;
        ensure!(violations.is_empty(), "two holders at once:\n{violations}");
        let tokens = self.tokens()?;
        let back = tokens.windows(2).find(|pair| pair[0] >= pair[1]);
        ensure!(back.is_none(), "a token did not grow: {back:?}");
        Ok(tokens.len())
    }

    /// The tokens of the contended lock, in the order of the grants.
    fn tokens(&self) -> anyhow::Result<Vec<u64>> {
        let text = fs::read_to_string(self.folder.join("tokens"))?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| line.parse().context("a token is a number")).collect()
    }

    fn end_competitors(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for competitor in self.competitors.drain(..) {
            competitor.join().ok();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end_competitors();
        for holder in &mut self.holders {
            holder.kill().ok();
            holder.wait().ok();
        }
    }
}

fn lock(build: &Path, endpoints: &str, name: &str, ttl: &str) -> Command {
    let mut command = Command::new(build);
    command.args(["--endpoints", endpoints, "lock", name, "--ttl", ttl, "--wait", "20s", "--"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}
