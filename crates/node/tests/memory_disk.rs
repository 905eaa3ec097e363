//! The simulated disk: it must lose what a real one may lose, or the other tests prove nothing.

use fencepost_node::disk::{
    Crash, Disk, DiskFile, Fault, MemoryDisk, NamesKept, UnsyncedWrite, WritesKept,
};

const ALL_NAMES: NamesKept = NamesKept::All;

fn after(disk: &MemoryDisk, writes: WritesKept) -> Option<Vec<u8>> {
    disk.crash(Crash { writes, names: ALL_NAMES }).contents("f")
}

#[test]
fn only_synced_bytes_are_sure_to_survive() {
    let disk = MemoryDisk::new();
    let mut file = disk.create("f").expect("it is new");
    file.write_at(0, b"one").expect("no faults");
    file.sync_data().expect("no faults");
    file.write_at(3, b"two").expect("no faults");
    file.write_at(0, b"O").expect("no faults");
    assert_eq!(disk.contents("f").as_deref(), Some(&b"Onetwo"[..]));
    let unsynced = [UnsyncedWrite { offset: 3, len: 3 }, UnsyncedWrite { offset: 0, len: 1 }];
    assert_eq!(disk.unsynced(), unsynced);
    assert_eq!(after(&disk, WritesKept::None).as_deref(), Some(&b"one"[..]));
    assert_eq!(after(&disk, WritesKept::First(1)).as_deref(), Some(&b"onetwo"[..]));
    let torn = WritesKept::Torn { whole: 0, bytes: 2 };
    assert_eq!(after(&disk, torn).as_deref(), Some(&b"onetw"[..]));
    assert_eq!(after(&disk, WritesKept::All).as_deref(), Some(&b"Onetwo"[..]));
}

#[test]
fn sectors_survive_in_any_choice() {
    let disk = MemoryDisk::new();
    let mut file = disk.create("f").expect("it is new");
    file.write_zeros(0, 2048).expect("no faults");
    file.sync_data().expect("no faults");
    file.write_at(100, &[1; 1500]).expect("no faults");
    let left = after(&disk, WritesKept::Sectors(0b1010)).expect("it is there");
    let expected: Vec<u8> = (0..2048)
        .map(|at| u8::from((512..1024).contains(&at) || (1536..1600).contains(&at)))
        .collect();
    assert_eq!(left, expected);
}

#[test]
fn names_need_a_sync_of_their_own() {
    let disk = MemoryDisk::new();
    disk.put("old", b"old");
    let mut file = disk.create("new").expect("it is new");
    file.write_at(0, b"new").expect("no faults");
    file.sync_data().expect("no faults");
    disk.rename("new", "old").expect("no faults");
    let names = |names| {
        let left = disk.crash(Crash { writes: WritesKept::None, names });
        (left.list().expect("no faults"), left.contents("old"))
    };
    let one = vec![String::from("old")];
    assert_eq!(names(NamesKept::None), (one.clone(), Some(b"old".to_vec())));
    assert_eq!(names(NamesKept::All), (one.clone(), Some(b"new".to_vec())));
    assert_eq!(names(NamesKept::Chosen(2)), (one, Some(b"new".to_vec())));
    let two = vec![String::from("new"), String::from("old")];
    assert_eq!(names(NamesKept::First(1)), (two, Some(b"old".to_vec())));
    disk.sync_dir().expect("no faults");
    assert_eq!(disk.unsynced_names(), 0);
    assert_eq!(names(NamesKept::None).1, Some(b"new".to_vec()));
}

#[test]
fn a_failed_sync_forgets_what_it_should_have_written() {
    let disk = MemoryDisk::new();
    let mut file = disk.create("f").expect("it is new");
    file.write_at(0, b"lost").expect("no faults");
    disk.fail_at(disk.operations() + 1, Fault::Error);
    file.sync_data().expect_err("it fails");
    file.sync_data().expect("the second one succeeds");
    assert_eq!(disk.contents("f").as_deref(), Some(&b"lost"[..]));
    assert_eq!(after(&disk, WritesKept::All).as_deref(), Some(&b""[..]));
}

#[test]
fn a_dead_machine_does_nothing_until_it_is_started_again() {
    let disk = MemoryDisk::new();
    let mut file = disk.create("f").expect("it is new");
    disk.fail_at(2, Fault::Die);
    file.write_at(0, b"a").expect_err("it dies");
    file.sync_data().expect_err("it is dead");
    disk.list().expect_err("it is dead");
    let fork = disk.fork();
    fork.list().expect_err("a copy of the dead is dead");
    let names = disk.crash(Crash { writes: WritesKept::None, names: ALL_NAMES }).list();
    assert_eq!(names.expect("it lives again"), ["f"]);
    let killed = disk.kill();
    assert_eq!(killed.contents("f").as_deref(), Some(&b"a"[..]));
    assert_eq!((killed.unsynced().len(), killed.unsynced_names()), (1, 1));
}

#[test]
fn a_full_disk_takes_half() {
    let disk = MemoryDisk::new();
    let mut file = disk.create("f").expect("it is new");
    disk.fail_at(2, Fault::NoSpace);
    let error = file.write_at(0, b"1234").expect_err("it is full");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(disk.contents("f").as_deref(), Some(&b"12"[..]));
}
