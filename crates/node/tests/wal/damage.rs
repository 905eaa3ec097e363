//! Damage is refused. Only what was never promised may be missing, and nothing wrong is ever read.

use std::collections::BTreeSet;

use fencepost_node::disk::{Disk, MemoryDisk};
use fencepost_node::wal::{Batch, Damaged, EntryRef, OpenError, Wal, WalConfig};

use crate::support::{CONFIG, Model, Pair, Step};

fn append(count: u64, size: usize) -> Step {
    Step::Append { back: 0, count, size, hard_state: true }
}

/// How the last process that used the log came to its end.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    /// It was killed, and so was the next one, before it appended anything.
    Reopened,
    Closed,
}

/// A log of several segments, and what it was after each step.
fn log(end: End) -> (MemoryDisk, Vec<Model>) {
    let disk = MemoryDisk::new();
    let mut pair = Pair::new(disk.clone());
    let mut states = Vec::new();
    let steps = [
        append(3, 100),
        append(4, 150),
        append(2, 150),
        Step::Purge { keep: 8 },
        append(2, 200),
        append(1, 50),
        append(2, 30),
        append(1, 20),
    ];
    for step in steps {
        pair.run(&[step, Step::Sync]).expect("the disk has no faults");
        states.push(pair.now().clone());
    }
    match end {
        End::Killed => {}
        End::Reopened => pair.open().expect("the disk has no faults"),
        End::Closed => pair.close(),
    }
    (disk, states)
}

fn segments(disk: &MemoryDisk) -> Vec<String> {
    let mut names = disk.list().expect("the disk has no faults");
    names.retain(|name| name.ends_with(".wal"));
    names
}

fn open(disk: &MemoryDisk) -> Result<Model, OpenError> {
    Wal::open(disk.clone(), CONFIG).map(|(_, recovered)| Model::from(recovered))
}

fn flipped(disk: &MemoryDisk) -> impl Iterator<Item = (String, u64, MemoryDisk)> {
    let names = disk.list().expect("the disk has no faults");
    names.into_iter().flat_map(move |name| {
        let len = disk.contents(&name).map_or(0, |bytes| bytes.len());
        (0..len * 8).map(move |bit| {
            let copy = disk.fork();
            let offset = u64::try_from(bit / 8).expect("small");
            assert!(copy.flip(&name, offset, u32::try_from(bit % 8).expect("small")));
            (name.clone(), offset, copy)
        })
    })
}

#[test]
fn a_flipped_bit_anywhere_in_a_closed_log_is_refused_or_changes_nothing() {
    refused_or_unchanged(End::Closed);
}

#[test]
fn a_flipped_bit_anywhere_in_a_reopened_log_is_refused_or_changes_nothing() {
    refused_or_unchanged(End::Reopened);
}

fn refused_or_unchanged(end: End) {
    let (disk, states) = log(end);
    assert!(segments(&disk).len() >= 3, "too few segments: {:?}", segments(&disk));
    let whole = states.last().expect("there are some");
    let mut refused = 0;
    for (name, offset, disk) in flipped(&disk) {
        match open(&disk) {
            Ok(found) => assert_eq!(found, *whole, "{name} at {offset}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 8 * 1_000, "only {refused} were refused");
}

#[test]
fn a_flipped_bit_in_a_log_that_was_killed_costs_the_last_batch_at_most() {
    let (disk, states) = log(End::Killed);
    let [.., before, whole] = &states[..] else {
        panic!("too few states");
    };
    let last = segments(&disk).pop().expect("there are some");
    let mut shorter = 0;
    for (name, offset, disk) in flipped(&disk) {
        match open(&disk) {
            Ok(found) if found == *whole => {}
            Ok(found) => {
                assert_eq!(found, *before, "{name} at {offset}");
                assert_eq!(name, last, "a record was lost from the middle at {offset}");
                shorter += 1;
            }
            Err(_) => {}
        }
    }
    assert!(shorter > 0, "the test did not reach the last record");
}

#[test]
fn a_tail_cut_at_any_byte_leaves_a_prefix() {
    let (disk, states) = log(End::Killed);
    let last = segments(&disk).pop().expect("there are some");
    let bytes = disk.contents(&last).expect("it is there");
    let mut lengths = BTreeSet::new();
    for len in 0..bytes.len() {
        let disk = disk.fork();
        disk.put(&last, &bytes[..len]);
        match open(&disk) {
            Ok(found) => {
                assert!(states.contains(&found), "cut at {len}: {found:?}");
                lengths.insert(found.entries.len());
                assert_eq!(open(&disk).expect("it was opened before"), found, "cut at {len}");
            }
            // The header and the head were durable before the segment had its name.
            Err(OpenError::Damaged(damaged)) => assert!(len < 112, "{damaged} cut at {len}"),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(lengths.len() >= 4, "too few records were cut: {lengths:?}");
}

#[test]
fn a_torn_tail_takes_appends_again() {
    let (disk, states) = log(End::Killed);
    let last = segments(&disk).pop().expect("there are some");
    let bytes = disk.contents(&last).expect("it is there");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("it is not empty");
    for len in end - 40..end {
        let disk = disk.fork();
        disk.put(&last, &bytes[..len]);
        let mut pair = Pair::with_states(disk.clone(), states.clone());
        pair.run(&[append(1, 5), append(4, 200), Step::Sync, Step::Reopen])
            .expect("the disk has no faults");
    }
}

fn refusal(disk: &MemoryDisk) -> Damaged {
    match open(disk) {
        Err(OpenError::Damaged(damaged)) => damaged,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_missing_segment_is_noticed() {
    let (disk, _) = log(End::Killed);
    let names = segments(&disk);
    for name in &names[..names.len() - 1] {
        let disk = disk.fork();
        disk.remove(name).expect("it is there");
        assert_eq!(refusal(&disk).what, "a segment that is missing", "{name}");
    }
}

#[test]
fn segments_in_another_order_are_noticed() {
    let (disk, _) = log(End::Killed);
    let names = segments(&disk);
    let (one, two) = (&names[0], &names[1]);
    let (first, second) = (disk.contents(one), disk.contents(two));
    disk.put(one, &second.expect("it is there"));
    disk.put(two, &first.expect("it is there"));
    assert_eq!(refusal(&disk).what, "a segment under the name of another one");
}

#[test]
fn a_segment_of_another_log_is_noticed() {
    let logs = [CONFIG.salt, 7].map(|salt| {
        let disk = MemoryDisk::new();
        let config = WalConfig { salt, ..CONFIG };
        let (mut wal, _) = Wal::open(disk.clone(), config).expect("it is a new log");
        for index in 1..=2 {
            let entries = vec![EntryRef { index, term: 1, kind: 0, data: &[1; 600] }];
            wal.append(&Batch { entries, ..Batch::default() }).expect("there is room");
        }
        wal.close().expect("the disk has no faults");
        disk
    });
    let first = &segments(&logs[0])[0];
    let other = logs[1].contents(first).expect("both logs begin alike");
    logs[0].put(first, &other);
    assert_eq!(refusal(&logs[0]).what, "a segment of another log");
}

#[test]
fn a_record_that_was_written_to_the_wrong_place_is_not_read() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
    for index in 1..=3 {
        let entries = vec![EntryRef { index, term: 1, kind: 0, data: &[1; 42] }];
        wal.append(&Batch { entries, ..Batch::default() }).expect("there is room");
    }
    wal.sync().expect("the disk has no faults");
    let name = &segments(&disk)[0];
    let mut bytes = disk.contents(name).expect("it is there");
    // As the fourth record, the first one would take entries 2 and 3 away.
    bytes.copy_within(112..192, 352);
    disk.put(name, &bytes);
    assert_eq!(open(&disk).expect("it is a torn tail").entries.len(), 3);
}

#[test]
fn the_refusal_says_what_why_and_what_to_do() {
    let (disk, _) = log(End::Killed);
    let first = segments(&disk).remove(0);
    assert!(disk.flip(&first, 200, 3));
    let damaged = refusal(&disk);
    assert_eq!(damaged.file, first);
    let shown = damaged.to_string();
    assert_eq!(shown.lines().count(), 3, "{shown}");
    assert!(shown.contains(&first), "{shown}");
    assert!(shown.contains("under a new id"), "{shown}");
    assert!(shown.contains("backup"), "{shown}");
}

#[test]
fn something_else_and_a_later_format_have_errors_of_their_own() {
    let (disk, _) = log(End::Killed);
    let last = segments(&disk).pop().expect("there are some");
    let bytes = disk.contents(&last).expect("it is there");
    let mut other = bytes.clone();
    other[..8].copy_from_slice(b"#!/bin/s");
    disk.put(&last, &other);
    assert!(matches!(open(&disk), Err(OpenError::NotALog { .. })));
    let mut later = bytes;
    later[8] = 3;
    disk.put(&last, &later);
    assert!(matches!(open(&disk), Err(OpenError::Damaged(_))), "a damaged version");
    let sum = crc32c::crc32c(&later[..36]).to_le_bytes();
    later[36..40].copy_from_slice(&sum);
    disk.put(&last, &later);
    let error = open(&disk).expect_err("it is from the future");
    assert!(matches!(error, OpenError::LaterVersion { version: 3, known: 2, .. }));
    assert_eq!(error.to_string().lines().count(), 3, "{error}");
}

#[test]
fn a_refused_log_is_left_alone() {
    let (disk, _) = log(End::Killed);
    let first = segments(&disk).remove(0);
    assert!(disk.flip(&first, 200, 3));
    let all = |disk: &MemoryDisk| -> Vec<(String, Option<Vec<u8>>)> {
        let names = disk.list().expect("the disk has no faults");
        names.into_iter().map(|name| (name.clone(), disk.contents(&name))).collect()
    };
    let before = all(&disk);
    refusal(&disk);
    assert_eq!(all(&disk), before);
}
