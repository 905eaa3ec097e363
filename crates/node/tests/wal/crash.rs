//! The machine dies, or the disk fails, at every operation of a run: what was synced is there,
//! what was never appended is not, and the log goes on.

use crate::support::{CONFIG, Model, Pair, Step, WORST, crashes};
use fencepost_node::disk::{Crash, Disk, Fault, MemoryDisk, NamesKept, WritesKept, is_full};
use fencepost_node::wal::{Batch, EntryRef, Fatal, Start, Wal, WalConfig};
use proptest::prelude::*;

fn append(count: u64, size: usize) -> Step {
    Step::Append { back: 0, count, size, hard_state: false }
}

/// Everything that a log can do, with some appends between syncs.
fn workload() -> Vec<Step> {
    let vote = || Step::Append { back: 0, count: 0, size: 0, hard_state: true };
    vec![
        vote(),
        append(1, 20),
        Step::Sync,
        append(3, 100),
        Step::Spare,
        append(1, 300),
        Step::Spare,
        Step::Append { back: 2, count: 3, size: 40, hard_state: true },
        Step::Sync,
        // Longer than a segment.
        append(2, 800),
        append(1, 30),
        Step::Sync,
        Step::Purge { keep: 3 },
        append(4, 150),
        Step::Spare,
        // One is needed before it is made.
        append(4, 150),
        Step::Sync,
        Step::Spare,
        Step::Purge { keep: 2 },
        // Into a recycled segment.
        append(5, 120),
        Step::Append { back: 4, count: 1, size: 10, hard_state: true },
        append(2, 200),
        Step::Sync,
        Step::Reopen,
        append(1, 10),
        Step::Sync,
        Step::Replace { ahead: 50 },
        vote(),
        Step::Sync,
        Step::Purge { keep: 1 },
        append(6, 130),
        Step::Spare,
        Step::Sync,
        Step::Spare,
        append(1, 7),
        Step::Close,
        append(3, 250),
        Step::Purge { keep: 0 },
        append(1, 1),
    ]
}

/// What is done after each crash, to see that the log still works.
fn afterwards() -> [Step; 4] {
    [append(2, 90), Step::Sync, Step::Purge { keep: 1 }, Step::Reopen]
}

fn operations_of_the_workload() -> u64 {
    let disk = MemoryDisk::new();
    Pair::new(disk.clone()).run(&workload()).expect("the disk has no faults");
    disk.operations()
}

/// Runs until the fault, and returns what the log may be by then.
fn run_into(fault: Fault, operation: u64) -> (MemoryDisk, Vec<Model>) {
    let disk = MemoryDisk::new();
    disk.fail_at(operation, fault);
    let mut pair = Pair::new(disk.clone());
    let outcome = pair.run(&workload());
    // A spare that cannot be made is no failure of the log.
    assert!(outcome.is_err() || fault != Fault::Die, "operation {operation} did not fail");
    (disk, pair.states)
}

/// Opens a disk, and again after losing whatever the opening did not sync, and once more after
/// losing whatever the next sync did not reach.
fn open_twice(disk: &MemoryDisk, states: &[Model]) -> Vec<Model> {
    let mut pair = Pair::with_states(disk.clone(), states.to_vec());
    pair.open().expect("the disk has no faults any more");
    let found = pair.states.clone();
    let mut again = Pair::with_states(disk.crash(WORST), found.clone());
    again.open().expect("the disk has no faults any more");
    pair.run(&[append(1, 33), Step::Sync]).expect("the disk has no faults any more");
    let mut again = Pair::with_states(disk.crash(WORST), pair.states);
    again.open().expect("the disk has no faults any more");
    found
}

#[test]
fn a_death_at_any_operation_loses_nothing_that_was_synced() {
    let operations = operations_of_the_workload();
    assert!(operations > 100, "the workload does too little: {operations} operations");
    let mut endings = 0;
    for operation in 1..=operations {
        let (disk, states) = run_into(Fault::Die, operation);
        open_twice(&disk.kill(), &states);
        for crash in crashes(&disk) {
            endings += 1;
            let left = disk.crash(crash);
            let states = open_twice(&left.fork(), &states);
            let mut pair = Pair::with_states(left, states);
            pair.run(&afterwards()).expect("the disk has no faults any more");
        }
    }
    assert!(endings > 1_000, "too few endings: {endings}");
}

#[test]
fn a_death_during_recovery_loses_nothing_either() {
    let operations = operations_of_the_workload();
    for operation in (1..=operations).step_by(3) {
        let (disk, states) = run_into(Fault::Die, operation);
        let endings = crashes(&disk);
        for crash in endings.into_iter().step_by(5) {
            die_in_recovery(&disk.crash(crash), &states);
        }
    }
}

fn die_in_recovery(disk: &MemoryDisk, states: &[Model]) {
    for operation in 1.. {
        let dying = disk.fork();
        dying.fail_at(operation, Fault::Die);
        let mut pair = Pair::with_states(dying.clone(), states.to_vec());
        if pair.open().is_ok() {
            return;
        }
        open_twice(&dying.kill(), states);
        for crash in crashes(&dying).into_iter().step_by(2) {
            open_twice(&dying.crash(crash), states);
        }
    }
}

#[test]
fn a_failure_at_any_operation_loses_nothing_that_was_synced() {
    for operation in 1..=operations_of_the_workload() {
        for fault in [Fault::Error, Fault::NoSpace] {
            let (disk, states) = run_into(fault, operation);
            // The process ends and starts again, without a power cut.
            open_twice(&disk.kill(), &states);
            for crash in crashes(&disk) {
                open_twice(&disk.crash(crash), &states);
            }
        }
    }
}

fn entry(index: u64, data: &[u8]) -> Batch<'_> {
    let entries = vec![EntryRef { index, term: 1, kind: 0, data }];
    Batch { entries, ..Batch::default() }
}

#[test]
fn after_a_failed_sync_nothing_is_tried_again() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
    wal.append(&entry(1, b"a")).expect("there is room");
    disk.fail_at(disk.operations() + 1, Fault::Error);
    assert!(matches!(wal.sync(), Err(Fatal::Io { doing: "syncing a segment", .. })));
    let operations = disk.operations();
    assert!(matches!(wal.sync(), Err(Fatal::Poisoned { .. })));
    assert!(matches!(wal.append(&entry(2, b"b")), Err(Fatal::Poisoned { .. })));
    assert!(matches!(wal.purge(Start { index: 1, term: 1 }), Err(Fatal::Poisoned { .. })));
    assert!(wal.order_spare().is_none());
    let last = wal.close();
    assert!(matches!(last, Err(Fatal::Poisoned { doing: "syncing a segment" })));
    assert_eq!(disk.operations(), operations, "a failed log touched the disk");
    let shown = last.expect_err("it failed").to_string();
    assert_eq!(shown.lines().count(), 3, "{shown}");
}

#[test]
fn what_only_the_page_cache_holds_is_written_again() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
    wal.append(&entry(1, b"a")).expect("there is room");
    wal.sync().expect("the disk has no faults");
    wal.append(&entry(2, b"b")).expect("there is room");
    disk.fail_at(disk.operations() + 1, Fault::Error);
    wal.sync().expect_err("the sync fails");
    // The system still shows entry 2, and will not write it by itself.
    let (_, shown) = Wal::open(disk.clone(), CONFIG).expect("the log is sound");
    assert_eq!(shown.entries.len(), 2);
    let (_, kept) = Wal::open(disk.crash(WORST), CONFIG).expect("the log is sound");
    assert_eq!(kept.entries, shown.entries);
}

#[test]
fn a_record_behind_a_torn_one_never_comes_back() {
    let config = WalConfig { segment_bytes: 4096, ..CONFIG };
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), config).expect("it is a new log");
    // Each record ends where a sector ends.
    wal.append(&entry(1, &[1; 362])).expect("there is room");
    wal.sync().expect("the disk has no faults");
    wal.append(&entry(2, &[2; 474])).expect("there is room");
    wal.append(&entry(3, &[3; 474])).expect("there is room");
    assert_eq!(disk.unsynced().iter().map(|write| write.offset).collect::<Vec<_>>(), [512, 1024]);
    // The disk has written the second of them only. It passes all checks, and is not to be used.
    let writes = WritesKept::Sectors(!2);
    let disk = disk.crash(Crash { writes, names: NamesKept::All });
    let (mut wal, found) = Wal::open(disk.clone(), config).expect("it is a torn tail");
    assert_eq!(found.entries.len(), 1);
    // Opening has left a mark of 16 bytes. This ends where the old record begins.
    wal.append(&entry(2, &[4; 474 - 16])).expect("there is room");
    wal.sync().expect("the disk has no faults");
    assert_eq!(wal.last_index(), 2);
    let (_, found) = Wal::open(disk, config).expect("the log is sound");
    assert_eq!(found.entries.len(), 2, "an entry came back that was cut off");
}

#[test]
fn a_full_disk_in_a_batch_stops_the_log_and_keeps_the_rest() {
    let disk = MemoryDisk::new();
    let (mut wal, _) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
    wal.append(&entry(1, b"a")).expect("there is room");
    wal.sync().expect("the disk has no faults");
    disk.fail_at(disk.operations() + 1, Fault::NoSpace);
    let full = wal.append(&entry(2, &[7; 300])).expect_err("the disk is full");
    assert!(full.to_string().contains("make room"), "{full}");
    assert!(matches!(wal.sync(), Err(Fatal::Poisoned { .. })));
    let (mut wal, found) = Wal::open(disk.clone(), CONFIG).expect("half a record is a torn tail");
    assert_eq!(found.entries.len(), 1);
    wal.append(&entry(2, b"b")).expect("there is room again");
    wal.sync().expect("the disk has no faults");
    let (_, found) = Wal::open(disk, CONFIG).expect("the log is sound");
    assert_eq!(found.entries[1].data, b"b");
}

#[test]
fn a_disk_too_full_for_a_spare_is_noticed_only_when_one_is_needed() {
    let disk = MemoryDisk::new();
    let (_, _) = Wal::open(disk.clone(), CONFIG).expect("it is a new log");
    let (mut wal, _) = Wal::open(disk.clone(), CONFIG).expect("the log is sound");
    let mut last = 0;
    let order = loop {
        if let Some(order) = wal.order_spare() {
            break order;
        }
        last += 1;
        wal.append(&entry(last, &[1; 100])).expect("there is room");
    };
    wal.sync().expect("the disk has no faults");
    // Making a file works, filling it does not.
    disk.fail_at(disk.operations() + 2, Fault::NoSpace);
    let made = order.make();
    assert!(made.failure().is_some_and(is_full));
    wal.put_spare(made);
    let names = disk.list().expect("the disk has no faults any more");
    assert!(!names.iter().any(|name| name.ends_with(".spare")), "half a spare stayed: {names:?}");
    assert!(wal.order_spare().is_none(), "not before the log has grown");
    last += 1;
    wal.append(&entry(last, &[1; 100])).expect("there is room");
    assert!(wal.order_spare().is_some(), "it is tried again");
    while wal.segments() < 2 {
        last += 1;
        wal.append(&entry(last, &[1; 100])).expect("there is room again");
    }
    wal.sync().expect("the disk has no faults");
    drop(wal);
    let (mut wal, found) = Wal::open(disk.clone(), CONFIG).expect("the log is sound");
    assert_eq!(found.entries.len(), usize::try_from(last).expect("small"));
    wal.purge(Start { index: last, term: 1 }).expect("the disk has no faults");
    assert_eq!(wal.segments(), 1);
}

fn any_step() -> impl Strategy<Value = Step> {
    let append = (0..6_u64, 0..5_u64, 0..400_usize, any::<bool>());
    let append = append.prop_map(|(back, count, size, hard_state)| Step::Append {
        back: back.saturating_sub(2),
        count,
        size,
        hard_state,
    });
    prop_oneof![
        8 => append,
        4 => Just(Step::Sync),
        2 => (0..8_u64).prop_map(|keep| Step::Purge { keep }),
        2 => Just(Step::Spare),
        1 => (0..20_u64).prop_map(|ahead| Step::Replace { ahead }),
        1 => Just(Step::Reopen),
        1 => Just(Step::Close),
    ]
}

fn any_crash() -> impl Strategy<Value = Crash> {
    let writes = prop_oneof![
        Just(WritesKept::None),
        Just(WritesKept::All),
        (0..4_usize).prop_map(WritesKept::First),
        (0..3_usize, 0..900_usize).prop_map(|(whole, bytes)| WritesKept::Torn { whole, bytes }),
        any::<u64>().prop_map(WritesKept::Sectors),
    ];
    let names = prop_oneof![
        Just(NamesKept::None),
        Just(NamesKept::All),
        any::<u64>().prop_map(NamesKept::Chosen),
    ];
    (writes, names).prop_map(|(writes, names)| Crash { writes, names })
}

fn many() -> ProptestConfig {
    ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(many())]

    #[test]
    fn a_log_is_what_a_naive_one_is(steps in prop::collection::vec(any_step(), 1..60)) {
        let disk = MemoryDisk::new();
        let mut pair = Pair::new(disk.clone());
        pair.run(&steps).expect("the disk has no faults");
        // Without a crash everything that was written is there.
        let mut again = Pair::with_states(disk, vec![pair.now().clone()]);
        again.open().expect("the disk has no faults");
    }

    #[test]
    fn a_log_survives_many_crashes(
        lives in prop::collection::vec((
            prop::collection::vec(any_step(), 1..12),
            1..60_u64,
            any_crash(),
        ), 1..12),
    ) {
        let mut disk = MemoryDisk::new();
        let mut states = vec![Model::default()];
        for (steps, operation, crash) in lives {
            disk.fail_at(operation, Fault::Die);
            let mut pair = Pair::with_states(disk.clone(), states);
            pair.run(&steps).ok();
            states = pair.states;
            disk = disk.crash(crash);
        }
        open_twice(&disk, &states);
    }
}
