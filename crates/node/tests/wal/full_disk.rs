//! A disk without room for more: the log goes on as long as it can and makes nothing worse.

use std::io;

use fencepost_node::data_dir::{Identity, count_boot};
use fencepost_node::disk::{Disk, Fault, MemoryDisk, is_full};
use fencepost_node::wal::{Batch, EntryRef, Fatal, Wal, WalConfig};
use rustix::io::Errno;

use crate::support::{CONFIG, WORST};

const SEGMENT: u64 = 16 << 10;

fn config() -> WalConfig {
    WalConfig { segment_bytes: SEGMENT, ..CONFIG }
}

fn append(wal: &mut Wal<MemoryDisk>, len: usize) -> Result<(), Fatal> {
    let data = vec![7; len];
    let index = wal.last_index() + 1;
    let entries = vec![EntryRef { index, term: 1, kind: 0, data: &data }];
    wal.append(&Batch { entries, ..Batch::default() })?;
    wal.sync()
}

fn spares(disk: &MemoryDisk) -> usize {
    let names = disk.list().expect("the disk has no faults");
    names.iter().filter(|name| name.ends_with(".spare")).count()
}

#[test]
fn nearly_full_disk_causes_no_extra_writes() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), config()).expect("it is a new log");
    disk.set_capacity(disk.used() + SEGMENT / 2);
    let before = disk.bytes_written();
    let mut orders = 0;
    while wal.segments() == 1 && orders < 100 && disk.bytes_written() < before + SEGMENT {
        append(&mut wal, 100).expect("there is room in the segment");
        if let Some(order) = wal.order_spare() {
            orders += 1;
            let written = disk.bytes_written();
            let made = order.make();
            assert!(made.failure().is_some_and(is_full));
            assert_eq!(disk.bytes_written(), written, "only to find that there is no room");
            wal.put_spare(made);
        }
    }
    assert!((1..=5).contains(&orders), "{orders} tries in one segment");
    assert_eq!(spares(&disk), 0);
}

#[test]
fn failed_preallocation_is_tried_again_after_a_pause() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), config()).expect("it is a new log");
    let (mut orders, mut appends) = (0, 0);
    while disk.operations() < 1_000 && wal.segments() == 1 {
        append(&mut wal, 100).expect("there is room in the segment");
        if let Some(order) = wal.order_spare() {
            // Making the file works, filling it does not: a quota of the user that the disk does not
            // tell of.
            disk.fail_at(disk.operations() + 2, Fault::NoSpace);
            wal.put_spare(order.make());
            assert_eq!(spares(&disk), 0, "half of one is left behind");
            orders += 1;
        }
        appends += 1;
    }
    assert!((2..=5).contains(&orders), "{orders} tries in {appends} appends");
}

#[test]
fn spare_takes_at_most_half_of_what_is_free() {
    for (free, is_made) in [(2 * SEGMENT, true), (2 * SEGMENT - 1, false)] {
        let disk = MemoryDisk::new();
        let (mut wal, _) = Wal::open(disk.clone(), config()).expect("it is a new log");
        let order = loop {
            append(&mut wal, 100).expect("there is room in the segment");
            if let Some(order) = wal.order_spare() {
                break order;
            }
        };
        disk.set_capacity(disk.used() + free);
        let made = order.make();
        assert_eq!(made.failure().is_none(), is_made, "{free} bytes are free");
        assert_eq!(spares(&disk), usize::from(is_made));
    }
}

#[test]
fn spare_that_could_not_be_removed_is_not_in_the_way() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), config()).expect("it is a new log");
    let order = loop {
        append(&mut wal, 100).expect("there is room in the segment");
        if let Some(order) = wal.order_spare() {
            break order;
        }
    };
    disk.fail_at(disk.operations() + 2, Fault::NoSpace);
    disk.fail_at(disk.operations() + 3, Fault::Error);
    let made = order.make();
    assert!(made.failure().is_some());
    assert_eq!(spares(&disk), 1, "half of it stays");
    wal.put_spare(made);
    while wal.segments() == 1 {
        append(&mut wal, 100).expect("there is room on the disk");
    }
}

#[test]
fn log_goes_on_in_small_segments_while_there_is_room() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), config()).expect("it is a new log");
    disk.set_capacity(disk.used() + SEGMENT / 2);
    let full = loop {
        if let Err(full) = append(&mut wal, 100) {
            break full;
        }
    };
    assert!(full.to_string().contains("make room"), "{full}");
    assert!(wal.segments() > 4, "it used what there was");
    let last = wal.last_index();
    drop(wal);
    // The next process finds the disk as full as it is.
    let again = disk.crash(WORST);
    let (mut wal, found) = Wal::open(again.clone(), config()).expect("there is nothing to write");
    assert_eq!(found.entries.last().map(|entry| entry.index), Some(last));
    drop(append(&mut wal, 1));
    drop(wal);
    again.set_capacity(u64::MAX);
    let (mut wal, _) = Wal::open(again, config()).expect("the log is sound");
    for _ in 0..1_000 {
        append(&mut wal, 100).expect("there is room again");
    }
}

#[test]
fn used_up_quota_of_a_user_counts_as_a_full_disk() {
    let full = |errno: Errno| is_full(&io::Error::from(errno));
    assert!(full(Errno::NOSPC), "the disk");
    assert!(full(Errno::DQUOT), "the quota");
    assert!(!full(Errno::IO), "a disk that fails is not full");
}

#[test]
fn leftovers_on_a_full_disk_do_not_keep_a_node_from_starting() {
    let whole = usize::try_from(WalConfig::SEGMENT_BYTES).expect("it is small");
    for (name, len) in [
        ("0000000000000009.spare", 100),
        ("0000000000000009.spare", whole),
        ("0000000000000009-0000000000000001.snapshot.tmp", 100),
    ] {
        let disk = MemoryDisk::new();
        let identity =
            Identity { cluster_id: 1, node_id: 2, name: "n1".to_owned(), incarnation: 0, boot: 4 };
        identity.store(&disk).expect("the disk has no faults");
        disk.put(name, &vec![0; len]);
        disk.set_capacity(disk.used());
        let booted = count_boot(&disk).expect("what nobody needs makes room");
        assert_eq!(booted.map(|identity| identity.boot), Some(5), "{name}, {len} bytes");
        assert_eq!(disk.contents(name), None);
    }
}
