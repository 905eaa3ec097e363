//! What the operating system tells: processor time, memory, limits, the disk.

use std::fs;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::clock;
use crate::latency::Latency;

/// Ticks of processor time in a second, on every Linux that is in use.
const TICKS_PER_SECOND: f64 = 100.0;
/// Syncs of the bare disk in one measurement, and the bytes of each.
const SYNCS: u32 = 400;
const SYNC_BYTES: usize = 256;

/// The resident memory of a process, in bytes.
pub fn memory(pid: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("it has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")).context("no VmRSS")?;
    Ok(kib.trim().parse::<f64>()? * 1024.0)
}

/// Processor seconds that these processes have used so far.
pub fn cpu_of(pids: &[u32]) -> f64 {
    pids.iter().filter_map(|pid| ticks(&format!("/proc/{pid}/stat"))).sum::<f64>()
        / TICKS_PER_SECOND
}

/// Processor seconds that this process has used so far.
pub fn cpu_of_self() -> f64 {
    ticks("/proc/self/stat").unwrap_or_default() / TICKS_PER_SECOND
}

/// Processor seconds that were not idle so far, on all cores.
pub fn cpu_of_all() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    // user nice system idle iowait irq softirq steal
    let busy = numbers.take(8).enumerate().filter(|(at, _)| *at != 3 && *at != 4);
    busy.filter_map(|(_, word)| word.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}

/// How long the machine is looked at, and how many cores may be busy, for it to count as quiet.
const LOOK: Duration = Duration::from_millis(100);
const QUIET_CORES: f64 = 0.2;
/// Something may always be at work.
const LOOKS_MAX: usize = 10;

/// Waits until whoever was measured last has done what was left to do, so that nobody else pays for it.
pub async fn settle() {
    for _ in 0..LOOKS_MAX {
        let before = cpu_of_all();
        clock::pass(LOOK).await;
        if cpu_of_all() - before <= QUIET_CORES * LOOK.as_secs_f64() {
            return;
        }
    }
}

/// Whether this run goes before everything else on the machine.
pub fn is_realtime() -> bool {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(38));
    // FIFO and round robin.
    matches!(policy, Some("1" | "2"))
}

fn ticks(path: &str) -> Option<f64> {
    let stat = fs::read_to_string(path).ok()?;
    // The name of the program stands in brackets, and may have spaces.
    let rest = stat.rsplit_once(')')?.1;
    let words: Vec<&str> = rest.split_whitespace().collect();
    Some(words.get(11)?.parse::<f64>().ok()? + words.get(12)?.parse::<f64>().ok()?)
}

/// Lets this process open as many files as it may: ten thousand sessions are ten thousand sockets.
pub fn raise_limits() {
    let now = getrlimit(Resource::Nofile);
    // What cannot be raised shows when a socket cannot be opened.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
}

/// What a bare write of 256 bytes with `fdatasync` takes on the disk of `folder`, into a file that has
/// its blocks already: the least that anything durable can take.
pub fn bare_sync(folder: &Path) -> anyhow::Result<Latency> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(&vec![0; SYNC_BYTES * usize::try_from(SYNCS)?])?;
    file.sync_all()?;
    file.rewind()?;
    let mut latency = Latency::default();
    for _ in 0..SYNCS {
        let begun = clock::now();
        file.write_all(&[7; SYNC_BYTES])?;
        rustix::fs::fdatasync(&file)?;
        latency.add(begun.elapsed());
    }
    Ok(latency)
}

/// One line about the machine, for the page.
pub fn about() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores ({model}), Linux {}", kernel.trim())
}

/// The load of the machine over the last minute, five minutes, a quarter of an hour.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
