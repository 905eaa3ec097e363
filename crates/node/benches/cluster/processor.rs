//! What this process has used of the processor.

use std::fs;

/// The unit of `/proc`, on every Linux that this runs on.
const TICKS_A_SECOND: f64 = 100.0;

/// Seconds that the whole process has used.
pub(crate) fn process_seconds() -> f64 {
    seconds("/proc/self/stat")
}

/// Seconds that those threads have used whose names begin like this.
pub(crate) fn thread_seconds(prefix: &str) -> f64 {
    let tasks = fs::read_dir("/proc/self/task").expect("this is Linux");
    let mine = tasks.filter_map(|task| {
        let path = task.ok()?.path();
        let name = fs::read_to_string(path.join("comm")).ok()?;
        name.starts_with(prefix).then(|| path.join("stat"))
    });
    mine.map(|stat| seconds(&stat.to_string_lossy())).sum()
}

fn seconds(stat: &str) -> f64 {
    let stat = fs::read_to_string(stat).unwrap_or_default();
    // The name is in brackets and may hold anything; fields are counted behind it.
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|one| one.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_A_SECOND
}
