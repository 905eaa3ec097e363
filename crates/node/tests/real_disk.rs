//! The same code on the disk of this machine.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use fencepost_node::data_dir::DataDir;
use fencepost_node::disk::RealDisk;
use fencepost_node::snapshot_store::{CHUNK_BYTES, SnapshotId, SnapshotStore};
use fencepost_node::wal::{
    Batch, EntryRef, HardState, OpenError, Recovered, Start, Wal, WalConfig,
};

const CONFIG: WalConfig = WalConfig { segment_bytes: 64 * 1024, salt: 11 };

fn batch(first: u64, count: u64, data: &[u8]) -> Batch<'_> {
    let indexes = first..first + count;
    let entries = indexes.map(|index| EntryRef { index, term: 1, kind: 0, data }).collect();
    let hard_state = Some(HardState { term: 1, vote: 2, commit: first - 1 });
    Batch { start: None, hard_state, entries, ..Batch::default() }
}

fn open(path: &Path) -> Result<(Wal<RealDisk>, Recovered), OpenError> {
    Wal::open(RealDisk::open(path).expect("the directory is ours"), CONFIG)
}

/// Appends batches of 64 entries until there are `last` entries.
fn fill(wal: &mut Wal<RealDisk>, last: u64) {
    while wal.last_index() < last {
        wal.append(&batch(wal.last_index() + 1, 64, &[5; 100])).expect("there is room");
        wal.sync().expect("the disk works");
    }
}

fn files(path: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("the directory is ours");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.to_string_lossy().ends_with(suffix)).collect();
    found.sort();
    found
}

#[test]
fn a_log_survives_reopening_and_recycles_its_segments() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (mut wal, found) = open(folder.path()).expect("it is a new log");
    assert!(found.is_new);
    for round in 1..=6 {
        fill(&mut wal, round * 1_280);
        wal.purge(Start { index: round * 1_280 - 100, term: 1 }).expect("the disk works");
        drop(wal);
        let found;
        (wal, found) = open(folder.path()).expect("the log is sound");
        assert_eq!(found.entries.len(), 100);
        assert_eq!(found.hard_state.commit, round * 1_280 - 64);
    }
    assert!(files(folder.path(), ".wal").len() <= 2, "{:?}", files(folder.path(), ".wal"));
    let spares = files(folder.path(), ".spare");
    assert!((1..=2).contains(&spares.len()), "recycled ones: {spares:?}");
    for file in files(folder.path(), "") {
        assert_eq!(fs::metadata(&file).expect("it is there").len(), 64 * 1024, "{file:?}");
    }
    wal.close().expect("the disk works");
}

#[test]
fn a_torn_tail_is_cut_and_a_damaged_middle_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (mut wal, _) = open(folder.path()).expect("it is a new log");
    fill(&mut wal, 128);
    drop(wal);
    let file = files(folder.path(), ".wal").remove(0);
    let bytes = fs::read(&file).expect("it is there");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("it is not empty");

    let truncated = OpenOptions::new().write(true).open(&file).expect("it is there");
    truncated.set_len(u64::try_from(end - 10).expect("small")).expect("it can be cut");
    let (mut wal, found) = open(folder.path()).expect("a torn tail is cut off");
    assert_eq!(found.entries.len(), 64);
    fill(&mut wal, 128);
    drop(wal);
    assert_eq!(open(folder.path()).expect("the log is sound").1.entries.len(), 128);

    let mut bytes = fs::read(&file).expect("it is there");
    bytes[1_000] ^= 4;
    fs::write(&file, bytes).expect("the directory is ours");
    assert!(matches!(open(folder.path()), Err(OpenError::Damaged(_))));
}

#[test]
fn a_data_directory_holds_a_log_and_snapshots() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let dir = DataDir::open(&folder.path().join("data")).expect("it is a new directory");
    let (mut wal, _) = Wal::open(dir.disk(), CONFIG).expect("it is a new log");
    fill(&mut wal, 640);
    let store = SnapshotStore::open(dir.disk()).expect("the disk works");
    for index in [100, 200, 300] {
        let mut writer = store.write(SnapshotId { index, term: 1 }).expect("the disk works");
        for _ in 0..5 {
            writer.push(&vec![7; CHUNK_BYTES / 2]).expect("the disk works");
        }
        writer.finish().expect("the disk works");
    }
    let kept = store.ids().expect("the disk works")[0];
    wal.purge(Start { index: kept.index, term: kept.term }).expect("the disk works");
    wal.close().expect("the disk works");
    drop(dir);

    let dir = DataDir::open(&folder.path().join("data")).expect("it is free again");
    let (_, found) = Wal::open(dir.disk(), CONFIG).expect("the log is sound");
    assert_eq!(found.start, Start { index: 200, term: 1 });
    assert_eq!(found.entries.len(), 440);
    let store = SnapshotStore::open(dir.disk()).expect("the disk works");
    let latest = store.latest().expect("it is sound").snapshot.expect("there are two");
    assert_eq!(latest.id(), SnapshotId { index: 300, term: 1 });
    let chunks: Vec<Vec<u8>> = latest.map(|chunk| chunk.expect("it is sound")).collect();
    assert_eq!(chunks.concat(), vec![7; CHUNK_BYTES / 2 * 5]);
}

/// Batches of all sizes around those of pages, each begun with before its sync.
#[test]
fn what_the_disk_was_let_begin_with_is_all_there() {
    let dir = tempfile::tempdir().expect("there is room for a directory");
    let (mut wal, _) = open(dir.path()).expect("it is new");
    let data: Vec<u8> = (0..=250).cycle().take(20_000).collect();
    for len in (0..20_000).step_by(997) {
        wal.append(&batch(wal.last_index() + 1, 1, &data[..len])).expect("there is room");
        wal.begin_sync();
        wal.sync().expect("the disk works");
    }
    drop(wal);
    let (_, found) = open(dir.path()).expect("it is whole");
    let lengths: Vec<usize> = found.entries.iter().map(|entry| entry.data.len()).collect();
    assert!(lengths.into_iter().eq((0..20_000).step_by(997)));
    assert!(found.entries.iter().all(|entry| data.starts_with(&entry.data)));
}
