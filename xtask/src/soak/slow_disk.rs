//! A member whose disk is slow, and then fails, in a cluster of three processes under load.
//!
//! Guarantees: while each sync of a follower, and then of the leader, takes 60 ms longer, locks are
//! granted, holders keep theirs, and the threads, mappings, descriptors and memory of the slow member
//! stay flat. A follower whose sync fails ends and says so, the others go on, and it starts again.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::bench::build::{Build, FENCEPOST};
use crate::cluster::Cluster;
use crate::load::Load;
use crate::usage::Usage;

/// How long the follower is slow, and how long the leader.
const FOLLOWER_LASTS: Duration = Duration::from_secs(600);
const LEADER_LASTS: Duration = Duration::from_secs(60);
/// By then everything is allocated that a slow member needs; what comes on top is a leak.
const WARM_UP: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_secs(5);

const SYNC_CALLS: &str = "fsync,fdatasync";
const SLOW: &str = "delay_exit=60000";
const FAILING: &str = "error=EIO";

/// What a member may grow by after the warm-up.
const GROWTH_MAX: Usage = Usage { rss: 48 << 20, descriptors: 8, threads: 4, mappings: 48 };
/// Grants in each interval of `POLL`.
const CYCLES_MIN: usize = 3;

/// Runs the schedule; with a release build, if no program is given.
pub(super) fn run(root: &Path, program: Option<&Path>) -> anyhow::Result<()> {
    let build = Build::new(root, false);
    let program = match program {
        Some(program) => program.to_owned(),
        None => build.program_in(root, &FENCEPOST)?,
    };
    let data = build.common.join("soak-slow-disk");
    fs::remove_dir_all(&data).ok();
    fs::create_dir_all(&data)?;
    let mut cluster = Cluster::start(&data, &program)?;
    let mut load = Load::start(&data, &cluster.endpoints(), [&program, &program])?;
    load.wait_for_cycles(5)?;

    let leader = cluster.leader(&program)?;
    let follower = (leader + 1) % 3;
    slow(&cluster, &mut load, "follower", follower, FOLLOWER_LASTS)?;
    // It may have changed while one was slow.
    let leader = cluster.leader(&program)?;
    slow(&cluster, &mut load, "leader", leader, LEADER_LASTS)?;

    let leader = cluster.leader(&program)?;
    let follower = (leader + 1) % 3;
    let failing = Injection::start(cluster.process_id(follower)?, FAILING)?;
    let log = cluster.wait_for_failure(follower)?;
    drop(failing);
    ensure!(log.contains("sync"), "the log of the failed member does not say why:\n{log}");
    load.wait_for_cycles(5)?;
    cluster.replace(follower, &program)?;
    load.wait_for_cycles(5)?;
    let cycles = load.finish()?;
    eprintln!("     {cycles} grants; a follower whose sync failed has ended and started again");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "real processes have no clock but the real one")]
fn slow(
    cluster: &Cluster,
    load: &mut Load,
    role: &str,
    member: usize,
    lasts: Duration,
) -> anyhow::Result<()> {
    let process = cluster.process_id(member)?;
    let _slow = Injection::start(process, SLOW)?;
    let since = Instant::now();
    let mut base: Option<Usage> = None;
    let mut most = Usage::default();
    while since.elapsed() < lasts {
        thread::sleep(POLL);
        load.wait_for_cycles(CYCLES_MIN)?;
        let usage = Usage::of(process)?;
        let Some(base) = &base else {
            base = (since.elapsed() > WARM_UP).then_some(usage);
            continue;
        };
        most = most.max(&usage);
        if !usage.is_within(base, &GROWTH_MAX) {
            bail!("the slow {role} grows: {base} after the warm-up, {usage} now");
        }
    }
    let base = base.context("it lasts longer than the warm-up")?;
    eprintln!("     slow {role}, {} s: {base} after the warm-up, at most {most}", lasts.as_secs());
    Ok(())
}

/// A tracer that changes the system calls of a process. It lets go of it when this is dropped.
struct Injection(Child);

impl Injection {
    fn start(process: u32, what: &str) -> anyhow::Result<Injection> {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-p", &process.to_string()]);
        command.args(["-e", &format!("trace={SYNC_CALLS}")]);
        command.args(["-e", &format!("inject={SYNC_CALLS}:{what}")]);
        let tracer = command.stdin(Stdio::null()).spawn();
        let tracer = tracer.context("start strace; it is in the package of that name")?;
        let injection = Injection(tracer);
        // It is attached when the system names it.
        crate::cluster::until("strace attaches", || {
            let status = fs::read_to_string(format!("/proc/{process}/status"))?;
            let traced = format!("TracerPid:\t{}\n", injection.0.id());
            Ok(status.contains(&traced).then_some(()))
        })?;
        Ok(injection)
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        // Asked to end, it lets the process go on undisturbed.
        Command::new("kill").arg(self.0.id().to_string()).status().ok();
        self.0.wait().ok();
    }
}
