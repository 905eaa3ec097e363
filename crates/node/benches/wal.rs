//! The log beside a bare loop of `write` and `fdatasync` over the same bytes, in one run.
//!
//! `cargo bench -p fencepost-node --bench wal` prints a table of medians. The two take turns after
//! each batch, so noise hits both. What counts is the ratio: the rest is the disk's.

#![expect(clippy::print_stdout, reason = "the report goes to standard output")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fencepost_node::disk::{Disk, DiskFile, RealDisk};
use fencepost_node::wal::{Batch, EntryRef, Start, Wal, WalConfig};

const ENTRIES: [u64; 3] = [1, 64, 256];
const DATA: [u8; 100] = [0xa5; 100];
const BATCHES: u64 = 2_000;
/// How many batches are appended between purges.
const ROUND: u64 = 250;
/// Around each entry, and around each batch: the lengths that `docs/format.md` gives.
const ENTRY_BYTES: usize = 22 + DATA.len();
const RECORD_BYTES: usize = 16;

fn main() {
    let root = folder();
    for (title, is_synced) in [
        ("append + sync beside a bare write + fdatasync", true),
        ("append beside a bare write, without a sync", false),
    ] {
        println!("{title}, medians of {BATCHES} batches");
        table(&root, is_synced);
    }
    fs::remove_dir_all(root).expect("it was made here");
}

fn table(root: &Path, is_synced: bool) {
    println!(
        "  {:>7}  {:>8}  {:>12}  {:>8}  {:>12}  {:>8}  {:>6}",
        "entries", "bytes", "log batch/s", "log us", "bare batch/s", "bare us", "ratio"
    );
    for entries in ENTRIES {
        let (log, bare) = compare(root, entries, is_synced);
        let bytes = bytes_of(entries);
        println!(
            "  {entries:>7}  {bytes:>8}  {:>12.0}  {log:>8.1}  {:>12.0}  {bare:>8.1}  {:>6.2}",
            1e6 / log,
            1e6 / bare,
            log / bare
        );
    }
}

/// A folder beside the build, because temporary folders are often in memory.
fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wal-bench");
    fs::remove_dir_all(&root).ok();
    root
}

fn bytes_of(entries: u64) -> usize {
    let body = usize::try_from(entries).expect("small") * ENTRY_BYTES;
    RECORD_BYTES + body.next_multiple_of(8)
}

/// Microseconds for a batch: of the log, and of the bare loop.
fn compare(root: &Path, entries: u64, is_synced: bool) -> (f64, f64) {
    let kind = if is_synced { "synced" } else { "written" };
    let disk =
        RealDisk::open(&root.join(format!("log-{kind}-{entries}"))).expect("a folder for the log");
    let (mut wal, _) = Wal::open(disk, WalConfig::with_salt(1)).expect("it is a new log");
    let disk =
        RealDisk::open(&root.join(format!("bare-{kind}-{entries}"))).expect("a folder beside it");
    let mut file = disk.create("file").expect("it is new");
    let bytes = vec![0xa5; bytes_of(entries)];
    let len = u64::try_from(bytes.len()).expect("small");
    file.write_zeros(0, len * ROUND).expect("there is room");
    file.sync_data().expect("the disk works");
    disk.sync_dir().expect("the disk works");

    let (mut of_log, mut of_bare) = (Vec::new(), Vec::new());
    for number in 0..BATCHES {
        of_log.push(time(|| append(&mut wal, entries, is_synced)));
        let offset = number % ROUND * len;
        of_bare.push(time(|| write(&mut file, offset, &bytes, is_synced)));
        if number % ROUND == ROUND - 1 {
            file.sync_data().expect("the disk works");
            // As after a snapshot: syncs, and leaves spare segments for the next round.
            let all = Start { index: wal.last_index(), term: 1 };
            wal.purge(all).expect("the disk works");
        }
    }
    (median(of_log), median(of_bare))
}

fn append(wal: &mut Wal<RealDisk>, count: u64, is_synced: bool) {
    let first = wal.last_index() + 1;
    let indexes = first..first + count;
    let entry = |index| EntryRef { index, term: 1, kind: 0, data: &DATA };
    let batch = Batch { entries: indexes.map(entry).collect(), ..Batch::default() };
    wal.append(&batch).expect("the disk works");
    if is_synced {
        wal.sync().expect("the disk works");
    }
}

fn write(file: &mut impl DiskFile, offset: u64, bytes: &[u8], is_synced: bool) {
    file.write_at(offset, bytes).expect("the disk works");
    if is_synced {
        file.sync_data().expect("the disk works");
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark needs a clock")]
fn time(work: impl FnOnce()) -> Duration {
    let from = Instant::now();
    work();
    from.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}
