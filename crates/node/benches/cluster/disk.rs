//! What the disk can do: a bare write and sync, and the log alone.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_node::disk::RealDisk;
use fencepost_node::wal::{Batch, EntryRef, HardState, Start, Wal, WalConfig};
use hdrhistogram::Histogram;

/// Microseconds of a write of `bytes` and an `fdatasync`, in a file that has its blocks.
pub(crate) fn bare(root: &Path, bytes: usize, length: Duration) -> Histogram<u64> {
    const FILE_BYTES: usize = 16 << 20;
    std::fs::create_dir_all(root).expect("there is room");
    let path = root.join("bare");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.expect("the folder is there");
    file.write_all_at(&vec![0; FILE_BYTES], 0).expect("there is room");
    file.sync_all().expect("the disk works");
    let data = vec![0xa5; bytes];
    let mut micros = Histogram::new(3).expect("three digits are possible");
    let until = Instant::now() + length;
    let mut at = 0;
    while Instant::now() < until {
        let start = Instant::now();
        file.write_all_at(&data, at as u64).expect("the disk works");
        file.sync_data().expect("the disk works");
        let passed = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        micros.record(passed).expect("it fits");
        at = (at + bytes) % (FILE_BYTES - bytes);
    }
    std::fs::remove_file(path).ok();
    micros
}

/// Commands a second that the log alone writes, so many of so many bytes in each entry, one entry
/// in each batch, one sync for each batch.
pub(crate) fn log(root: &Path, commands: usize, bytes: usize, length: Duration) -> f64 {
    let dir = root.join("raw-log");
    std::fs::remove_dir_all(&dir).ok();
    let disk = RealDisk::open(&dir).expect("there is room");
    let (mut wal, _) = Wal::open(disk, WalConfig::with_salt(7)).expect("the folder is new");
    let data = vec![0xa5; commands * bytes];
    let mut index = 0;
    let start = Instant::now();
    while start.elapsed() < length {
        index += 1;
        let entry = EntryRef { index, term: 1, kind: 0, data: &data };
        let hard_state = HardState { term: 1, vote: 1, commit: index - 1 };
        let batch = Batch {
            start: None,
            hard_state: Some(hard_state),
            entries: vec![entry],
            ..Batch::default()
        };
        wal.append(&batch).expect("the disk works");
        wal.sync().expect("the disk works");
        if index % 1_000 == 0 {
            wal.purge(Start { index: index - 500, term: 1 }).expect("the disk works");
        }
    }
    let rate = (index * commands as u64) as f64 / start.elapsed().as_secs_f64();
    std::fs::remove_dir_all(dir).ok();
    rate
}
