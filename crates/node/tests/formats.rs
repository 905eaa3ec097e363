//! The bytes on disk do not change by accident, and no bytes whatever do harm.
//!
//! `UPDATE_EXPECT=1` writes the golden files and the seeds of the corpus anew. A changed golden
//! file means that the files of earlier builds are read differently.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fencepost_node::data_dir::Identity;
use fencepost_node::disk::{Disk, MemoryDisk};
use fencepost_node::fuzz::{fuzz_identity, fuzz_snapshot_file, fuzz_wal};
use fencepost_node::log_end::LogEnd;
use fencepost_node::snapshot_store::{SnapshotId, SnapshotStore};
use fencepost_node::wal::{Batch, EntryRef, HardState, Start, Wal, WalConfig, Witness};
use fencepost_testkit::update_expect;
use proptest::prelude::*;

/// A segment with every sort of item in it.
fn segment() -> Vec<u8> {
    let disk = MemoryDisk::new();
    let config = WalConfig { segment_bytes: 512, salt: 0 };
    let (mut wal, _) = Wal::open(disk.clone(), config).expect("it is a new log");
    let entry = |index| EntryRef { index, term: 3, kind: 1, data: b"entry" };
    let start = Some(Start { index: 9, term: 2 });
    let hard_state = Some(HardState { term: 3, vote: 1, commit: 9 });
    let batch =
        Batch { start, hard_state, entries: vec![entry(10), entry(11)], ..Batch::default() };
    wal.append(&batch).expect("there is room");
    wal.sync().expect("the disk has no faults");
    wal.purge(Start { index: 10, term: 3 }).expect("the disk has no faults");
    wal.close().expect("the disk has no faults");
    contents(&disk, ".wal")
}

/// A segment of format 2: the table of witnesses at its beginning, and single ones after that.
fn segment_with_witnesses() -> Vec<u8> {
    let disk = MemoryDisk::new();
    let config = WalConfig { segment_bytes: 512, salt: 0 };
    let (mut wal, _) = Wal::open(disk.clone(), config).expect("it is a new log");
    let witness = |member| Witness { member, index: 7, boot: 4, boot_nonce: 0xb007 };
    let entry = EntryRef { index: 1, term: 3, kind: 1, data: b"entry" };
    let first = Batch { witnesses: vec![witness(2), witness(3)], ..Batch::default() };
    let second = Batch { entries: vec![entry], witnesses: vec![witness(3)], ..Batch::default() };
    for batch in [first, second] {
        wal.append(&batch).expect("there is room");
        wal.sync().expect("the disk has no faults");
    }
    wal.close().expect("the disk has no faults");
    let names = disk.list().expect("the disk has no faults");
    let last = names.iter().filter(|name| name.ends_with(".wal")).max().expect("it was written");
    disk.contents(last).expect("it was written")
}

fn log_end() -> Vec<u8> {
    let disk = MemoryDisk::new();
    let end = LogEnd { boot: 4, last: Start { index: 9, term: 2 }, commit: 7 };
    end.store(&disk).expect("the disk has no faults");
    contents(&disk, "log-end")
}

fn snapshot() -> Vec<u8> {
    let disk = MemoryDisk::new();
    let store = SnapshotStore::open(disk.clone()).expect("the disk has no faults");
    let mut writer = store.write(SnapshotId { index: 7, term: 2 }).expect("the disk has no faults");
    writer.push(b"the state of ").expect("the disk has no faults");
    writer.push(b"a machine").expect("the disk has no faults");
    writer.finish().expect("the disk has no faults");
    contents(&disk, ".snapshot")
}

fn identity() -> Vec<u8> {
    let disk = MemoryDisk::new();
    let name = String::from("north-1");
    let identity = Identity { cluster_id: 0xc1, node_id: 3, name, incarnation: 2, boot: 5 };
    identity.store(&disk).expect("the disk has no faults");
    contents(&disk, "identity")
}

fn contents(disk: &MemoryDisk, suffix: &str) -> Vec<u8> {
    let names = disk.list().expect("the disk has no faults");
    let name = names.iter().find(|name| name.ends_with(suffix)).expect("it was written");
    disk.contents(name).expect("it was written")
}

fn corpus(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(path)
}

fn write(path: &Path, bytes: &[u8]) {
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).expect("the corpus can be written");
    fs::write(path, bytes).expect("the corpus can be written");
}

fn golden(path: &str, bytes: &[u8]) {
    let lines: Vec<String> = bytes
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    let text = lines.join("\n") + "\n";
    let path = corpus(path);
    if update_expect() {
        write(&path, text.as_bytes());
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{} differs: the format has changed", path.display());
}

// Requirements: S0-124.
#[test]
fn the_format_of_the_log_is_as_it_was() {
    golden("golden/segment.hex", &segment());
}

#[test]
fn segment_with_witnesses_is_as_it_was() {
    golden("golden/segment-2.hex", &segment_with_witnesses());
}

#[test]
fn log_end_is_as_it_was() {
    golden("golden/log-end.hex", &log_end());
}

#[test]
fn the_format_of_snapshot_files_is_as_it_was() {
    golden("golden/snapshot.hex", &snapshot());
}

#[test]
fn the_format_of_the_identity_is_as_it_was() {
    golden("golden/identity.hex", &identity());
}

/// What the corpus is seeded with. Findings of a fuzzer are added by hand, beside these.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let segment = segment();
    let mut damaged = segment.clone();
    damaged[130] ^= 1;
    let entry = |index: u8| {
        [&[27, 2, index][..], &[0; 7], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0], b"entry"].concat()
    };
    vec![
        ("wal/torn", segment[..150].to_vec()),
        ("wal/damaged", damaged),
        ("wal/header-only", segment[..40].to_vec()),
        ("wal/whole", segment),
        ("wal/witnesses", segment_with_witnesses()),
        ("wal/entries", [entry(1), entry(2), entry(2), entry(3)].concat()),
        ("wal/gap", [entry(1), entry(3)].concat()),
        ("wal/length-beyond-the-end", [&entry(1)[..19], &[0xff; 4]].concat()),
        ("wal/last-index", [&[17, 4][..], &[0xff; 16]].concat()),
        ("wal/purge-beyond-the-end", [&[17, 5][..], &[9; 16]].concat()),
        ("wal/head-in-the-middle", [&[49, 1][..], &[0; 48]].concat()),
        ("snapshot/whole", snapshot()),
        ("snapshot/empty", Vec::new()),
        ("snapshot/cut", snapshot()[..50].to_vec()),
        ("identity/whole", identity()),
        ("identity/cut", identity()[..20].to_vec()),
    ]
}

#[test]
fn the_corpus_passes() {
    if update_expect() {
        for (path, bytes) in seeds() {
            write(&corpus(path), &bytes);
        }
    }
    let folders = ["wal", "snapshot", "identity"];
    let checks: [fn(&[u8]); 3] = [fuzz_wal, fuzz_snapshot_file, fuzz_identity];
    let mut seen = BTreeSet::new();
    for (folder, read) in folders.into_iter().zip(checks) {
        for file in fs::read_dir(corpus(folder)).expect("the corpus is there") {
            let path = file.expect("it can be listed").path();
            read(&fs::read(&path).expect("it can be read"));
            let name = path.file_name().expect("it has one").to_string_lossy().into_owned();
            seen.insert(format!("{folder}/{name}"));
        }
    }
    for (path, _) in seeds() {
        assert!(seen.contains(path), "{path} is missing");
    }
}

/// Bytes that are mostly a seed, with some of them changed.
fn nearly(seed: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (changes, 0..32_usize).prop_map(move |(changes, cut)| {
        let mut bytes = seed.clone();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut.saturating_sub(16)));
        bytes
    })
}

fn any_seed(folder: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let seeds =
        seeds().into_iter().filter(|(path, seed)| path.starts_with(folder) && !seed.is_empty());
    let seeds: Vec<Vec<u8>> = seeds.map(|(_, seed)| seed).collect();
    prop::sample::select(seeds).prop_flat_map(nearly)
}

fn many() -> ProptestConfig {
    ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(many())]

    #[test]
    fn bytes_like_a_log_do_no_harm(bytes in any_seed("wal")) {
        fuzz_wal(&bytes);
    }

    #[test]
    fn bytes_like_a_snapshot_do_no_harm(bytes in any_seed("snapshot")) {
        fuzz_snapshot_file(&bytes);
    }

    #[test]
    fn bytes_like_an_identity_do_no_harm(bytes in any_seed("identity")) {
        fuzz_identity(&bytes);
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz_wal(&bytes);
        fuzz_snapshot_file(&bytes);
        fuzz_identity(&bytes);
    }
}
