//! Resource faults against a real process.
//!
//! Guarantees: while a fault lasts, other clients are served within their deadline and a holder with
//! a TTL of 5 s keeps its lock; afterwards memory, descriptors and threads return to near where they
//! were, and a restart succeeds. Without free descriptors or disk space others are refused instead,
//! with the reason.

mod disk;
mod faults;
mod http2;
mod node;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::bench::build::{Build, FENCEPOST};
use crate::usage::Usage;
use disk::SmallDisk;
use faults::{FAULTS, Fault, Others};
use node::{Holder, Node};

/// How long a fault lasts: longer than the TTL of the holder, several times.
const FAULT_LASTS: Duration = Duration::from_secs(20);
/// How long a client that is served during a fault may wait.
const SERVED_WITHIN: &str = "5s";
/// How long everything else may take before the run fails.
const STATE_TIMEOUT: Duration = Duration::from_secs(90);
/// Time between two looks.
const POLL: Duration = Duration::from_millis(100);

/// By how much a node may have grown once a fault is over. Mappings come and go with memory.
const GROWTH_MAX: Usage = Usage { rss: 64 << 20, descriptors: 16, threads: 8, mappings: 256 };

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
    let disk = match fault.disk_mib {
        Some(mib) => Some(SmallDisk::mount(&data.join("disk"), mib)?),
        None => None,
    };
    let mut node = Node::start(program, data, fault, disk.as_ref())?;
    node.serve_one("warm-up", SERVED_WITHIN)?;
    node.fill()?;
    let before = node.usage()?;
    let mut holder = Holder::start(&node)?;
    let applied = (fault.apply)(&node)?;
    let (mut served, mut refused) = (0, 0);
    let since = now();
    while since.elapsed() < FAULT_LASTS {
        match (fault.others, node.serve_one(&format!("other-{served}"), SERVED_WITHIN)) {
            (_, Ok(())) => served += 1,
            (Others::Refused(code), Err(why)) if why.to_string().contains(code) => refused += 1,
            (_, Err(why)) => return Err(why),
        }
        ensure!(holder.holds()?, "the holder has lost its lock after {served} others were served");
    }
    let most = node.usage()?;
    if let Others::Refused(code) = fault.others {
        ensure!(refused > 0, "no other client was refused with {code}");
    }
    drop(applied);
    until("a client is served afterwards", || {
        Ok(node.serve_one("afterwards", SERVED_WITHIN).ok())
    })?;
    ensure!(holder.holds()?, "the holder has lost its lock when the fault ended");
    drop(holder);
    eprintln!("     {served} served, {refused} refused; before {before}, during {most}");
    let after = until("the node gives back what the fault took", || {
        let usage = node.usage()?;
        Ok(usage.is_within(&before, &GROWTH_MAX).then_some(usage))
    });
    let after = after.with_context(|| format!("before {before}, during {most}"))?;
    eprintln!("     after {after}");
    node.restart(program, data, fault, disk.as_ref())?;
    node.serve_one("restarted", SERVED_WITHIN)
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
