//! Segments are used again, and what they held before never comes back.

use std::collections::BTreeMap;

use fencepost_node::disk::{Disk, MemoryDisk};
use fencepost_node::wal::{Batch, EntryRef, Start, Wal, WalConfig, Witness};

use crate::support::{CONFIG, WORST};

fn batch(first: u64, count: u64, data: &[u8]) -> Batch<'_> {
    let indexes = first..first + count;
    let entries = indexes.map(|index| EntryRef { index, term: 1, kind: 0, data }).collect();
    Batch { entries, ..Batch::default() }
}

#[test]
fn a_recycled_segment_never_shows_its_former_life() {
    // Records of the same lengths at the same offsets as before: only the checksums can tell.
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
    let mut recycled = 0;
    for index in 1..200 {
        wal.append(&batch(index, 1, &[b'a'; 70])).expect("there is room");
        wal.sync().expect("the disk has no faults");
        if wal.segments() > 2 {
            wal.purge(Start { index: index - 3, term: 1 }).expect("the disk has no faults");
            recycled += 1;
        }
        let (_, found) = Wal::open(disk.crash(WORST), CONFIG).expect("the log is sound");
        assert_eq!(found.entries.last().map(|entry| entry.index), Some(index));
    }
    assert!(recycled > 10, "too few segments were recycled: {recycled}");
    let names = disk.list().expect("the disk has no faults");
    assert!(names.len() <= 5, "recycling does not bound the directory: {names:?}");
}

#[test]
fn preallocated_segments_are_really_as_long_as_they_will_be() {
    let disk = MemoryDisk::new();
    let (mut wal, recovered) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
    assert!(recovered.is_new);
    wal.append(&batch(1, 5, &[1; 100])).expect("there is room");
    let order = wal.order_spare().expect("the segment is more than half full");
    wal.put_spare(order.make());
    let names = disk.list().expect("the disk has no faults");
    assert_eq!(names.len(), 2, "a segment and a spare: {names:?}");
    for name in names {
        assert_eq!(disk.contents(&name).map(|bytes| bytes.len()), Some(1024), "{name}");
    }
}

#[test]
fn a_spare_is_made_beside_the_log_and_used_for_the_next_segment() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
    assert!(wal.order_spare().is_none(), "there is room for a while");
    wal.append(&batch(1, 5, &[1; 100])).expect("there is room");
    let order = wal.order_spare().expect("the segment is more than half full");
    assert!(wal.order_spare().is_none(), "one is being made");
    // The next segment is needed before its spare is there. Another one is made in its place.
    wal.append(&batch(6, 5, &[1; 100])).expect("there is room");
    assert_eq!(wal.segments(), 2);
    wal.put_spare(order.make());
    assert!(wal.order_spare().is_none(), "there is one");
    let files = disk.list().expect("the disk has no faults").len();
    wal.append(&batch(11, 5, &[1; 100])).expect("there is room");
    assert_eq!(wal.segments(), 3);
    assert_eq!(disk.list().expect("the disk has no faults").len(), files, "it was used");
    assert!(wal.order_spare().is_some());
}

#[test]
fn one_append_is_one_write_and_one_sync_is_one_sync() {
    let disk = MemoryDisk::new();
    let config = WalConfig { segment_bytes: 1 << 20, ..CONFIG };
    let (mut wal, _) = Wal::open(disk.clone(), config).expect("it is a new log");
    let before = disk.operations();
    wal.append(&batch(1, 64, &[0; 100])).expect("there is room");
    wal.append(&batch(65, 64, &[0; 100])).expect("there is room");
    wal.sync().expect("the disk has no faults");
    assert_eq!(disk.operations() - before, 3);
    wal.sync().expect("there is nothing to sync");
    assert_eq!(disk.operations() - before, 3);
}

#[test]
fn bytes_of_a_client_never_pass_as_a_record() {
    // A client stores a whole segment of a log that it runs itself, with every salt but ours
    // unknown to it. Where our log ends, those bytes follow.
    let theirs = MemoryDisk::new();
    let salt_free = WalConfig { salt: 0, ..CONFIG };
    let (mut wal, _) = Wal::open(theirs.clone(), salt_free).expect("it is a new log");
    wal.append(&batch(1, 5, b"forged")).expect("there is room");
    wal.close().expect("the disk has no faults");
    let name = "0000000000000001.wal";
    let forged = theirs.contents(name).expect("it is there");
    let ours = MemoryDisk::new();
    let (wal, _) = Wal::open(ours.clone(), CONFIG).expect("it is a new log");
    drop(wal);
    let mut bytes = ours.contents(name).expect("it is there");
    bytes[112..].copy_from_slice(&forged[112..]);
    ours.put(name, &bytes);
    let (_, found) = Wal::open(ours, CONFIG).expect("the log is sound");
    assert_eq!(found.entries, []);
}

#[test]
fn a_segment_size_may_change() {
    let disk = MemoryDisk::new();
    let mut last = 0;
    for segment_bytes in [512, 4096, 256, 0, 1000] {
        let config = WalConfig { segment_bytes, ..CONFIG };
        let (mut wal, found) = Wal::open(disk.clone(), config).expect("the log is sound");
        assert_eq!(found.entries.len(), usize::try_from(last).expect("small"));
        for _ in 0..20 {
            last += 1;
            wal.append(&batch(last, 1, &[1; 50])).expect("there is room");
        }
        wal.close().expect("the disk has no faults");
    }
}

#[test]
fn a_snapshot_from_elsewhere_frees_all_segments_before_it() {
    for is_reopened in [false, true] {
        let disk = MemoryDisk::new();
        let (mut wal, _) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
        for first in [1, 6, 11, 16, 21, 26] {
            wal.append(&batch(first, 5, &[1; 100])).expect("there is room");
        }
        assert!(wal.segments() > 3, "the test does too little");
        // The entries that it replaces have higher numbers than its own.
        let start = Start { index: 3, term: 2 };
        let replace = Batch { start: Some(start), ..Batch::default() };
        wal.append(&replace).expect("there is room");
        wal.sync().expect("the disk has no faults");
        if is_reopened {
            (wal, _) = Wal::open(disk.clone(), CONFIG).expect("the log is sound");
        }
        wal.purge(start).expect("the disk has no faults");
        assert_eq!(wal.segments(), 1, "reopened: {is_reopened}");
        let (_, found) = Wal::open(disk, CONFIG).expect("the log is sound");
        assert_eq!((found.start, found.entries), (start, Vec::new()));
    }
}

#[test]
fn a_spare_that_was_not_completed_is_cleared_away() {
    let disk = MemoryDisk::new();
    drop(Wal::open(disk.clone(), CONFIG).expect("it is a new log"));
    disk.put("00000000000000ff.spare", &[0; 100]);
    drop(Wal::open(disk.clone(), CONFIG).expect("the log is sound"));
    assert_eq!(disk.contents("00000000000000ff.spare"), None);
}

/// Older segments go away, so each one begins with all that was seen of other members.
#[test]
fn witness_survives_the_segment_that_it_was_written_in() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
    let witness = |member| Witness { member, index: 5, boot: 2, boot_nonce: 9 };
    let witnesses = vec![witness(7), witness(8)];
    wal.append(&Batch { witnesses, ..batch(1, 1, b"") }).expect("there is room");
    let gone = Witness { member: 8, ..Witness::default() };
    wal.append(&Batch { witnesses: vec![gone], ..batch(2, 1, b"") }).expect("there is room");
    for index in 3..60 {
        wal.append(&batch(index, 1, &[b'a'; 70])).expect("there is room");
        wal.purge(Start { index: index - 1, term: 1 }).expect("the disk has no faults");
        let (_, found) = Wal::open(disk.crash(WORST), CONFIG).expect("the log is sound");
        assert_eq!(found.witnesses, BTreeMap::from([(7, witness(7))]));
    }
}
