//! Resource faults against a real process.
//!
//! Guarantees: while a fault lasts, other clients are served within their deadline and a holder with
//! a TTL of 5 s keeps its lock; afterwards memory, descriptors and threads return to near where they
//! were, and a restart succeeds. Refuses: faults of the disk, which need a file system of their own.

mod faults;
mod http2;
mod node;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::bench::build::{Build, FENCEPOST};
use faults::{FAULTS, Fault};
use node::{Holder, Node, Usage};

/// How long a fault lasts: longer than the TTL of the holder, several times.
const FAULT_LASTS: Duration = Duration::from_secs(20);
/// How long a client that is served during a fault may wait.
const SERVED_WITHIN: &str = "5s";
/// How long everything else may take before the run fails.
const STATE_TIMEOUT: Duration = Duration::from_secs(90);
/// Time between two looks.
const POLL: Duration = Duration::from_millis(100);

/// By how much a node may have grown once a fault is over.
const RSS_GROWTH_MAX: u64 = 64 << 20;
const DESCRIPTORS_GROWTH_MAX: u64 = 16;
const THREADS_GROWTH_MAX: u64 = 8;

/// Lets a program suffer every fault; a release build, if none is given.
pub(super) fn run(root: &Path, program: Option<&Path>) -> anyhow::Result<()> {
    let build = Build::new(root, false);
    let program = match program {
        Some(program) => program.to_owned(),
        None => build.program_in(root, &FENCEPOST)?,
    };
    let folder = build.common.join("soak-resources");
    for fault in FAULTS {
        eprintln!("  -> {}", fault.name);
        let data = folder.join(fault.name.replace(' ', "-"));
        fs::remove_dir_all(&data).ok();
        fs::create_dir_all(&data)?;
        suffer(&program, &data, &fault).with_context(|| format!("fault `{}`", fault.name))?;
    }
    Ok(())
}

fn suffer(program: &Path, data: &Path, fault: &Fault) -> anyhow::Result<()> {
    let mut node = Node::start(program, data, fault)?;
    node.serve_one("warm-up", SERVED_WITHIN)?;
    node.fill()?;
    let before = node.usage()?;
    let mut holder = Holder::start(&node)?;
    let applied = (fault.apply)(&node)?;
    let mut served = 0;
    let since = now();
    while since.elapsed() < FAULT_LASTS {
        node.serve_one(&format!("other-{served}"), SERVED_WITHIN)?;
        served += 1;
        ensure!(holder.holds()?, "the holder has lost its lock after {served} others were served");
    }
    let most = node.usage()?;
    drop(applied);
    node.serve_one("afterwards", SERVED_WITHIN)?;
    ensure!(holder.holds()?, "the holder has lost its lock when the fault ended");
    drop(holder);
    eprintln!("     {served} clients were served; before {before}, during {most}");
    let after = until("the node gives back what the fault took", || {
        let usage = node.usage()?;
        Ok(has_returned(&before, &usage).then_some(usage))
    });
    let after = after.with_context(|| format!("before {before}, during {most}"))?;
    eprintln!("     after {after}");
    node.restart(program, data, fault)?;
    node.serve_one("restarted", SERVED_WITHIN)
}

fn has_returned(before: &Usage, after: &Usage) -> bool {
    after.rss <= before.rss + RSS_GROWTH_MAX
        && after.descriptors <= before.descriptors + DESCRIPTORS_GROWTH_MAX
        && after.threads <= before.threads + THREADS_GROWTH_MAX
}

#[expect(clippy::disallowed_methods, reason = "real processes have no clock but the real one")]
fn now() -> Instant {
    Instant::now()
}

/// Looks again until there is something.
#[expect(clippy::disallowed_methods, reason = "real processes have no clock but the real one")]
fn until<T>(what: &str, mut look: impl FnMut() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let since = now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if since.elapsed() > STATE_TIMEOUT {
            bail!("timed out: {what}");
        }
        thread::sleep(POLL);
    }
}
