//! The data directory: one process at a time, and an identity that survives.

use std::fs;

use fencepost_node::data_dir::{DataDir, Error, Identity, NAME_BYTES_MAX};
use fencepost_node::disk::{Crash, Fault, MemoryDisk, NamesKept, WritesKept};

fn identity() -> Identity {
    let name = String::from("north-1");
    Identity { cluster_id: 0xc1, node_id: 3, name, incarnation: 2, boot: 1 }
}

fn three_lines(error: &Error) {
    assert_eq!(error.to_string().lines().count(), 3, "{error}");
}

#[test]
fn the_boot_counter_grows_at_each_opening() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("a/b");
    let mut dir = DataDir::open(&path).expect("it is a new directory");
    assert_eq!(dir.identity(), None);
    dir.adopt(Identity { boot: 99, ..identity() }).expect("it has no identity yet");
    assert_eq!(dir.identity(), Some(&identity()));
    drop(dir);
    for boot in 2..5 {
        let mut dir = DataDir::open(&path).expect("it is sound");
        assert_eq!(dir.identity(), Some(&Identity { boot, ..identity() }));
        dir.adopt(identity()).expect("it is the same node");
    }
}

#[test]
fn a_directory_stays_with_its_node() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut dir = DataDir::open(folder.path()).expect("it is a new directory");
    dir.adopt(identity()).expect("it has no identity yet");
    let error = dir.adopt(Identity { node_id: 4, ..identity() }).expect_err("it is another node");
    three_lines(&error);
    assert!(error.to_string().contains("node 3 (north-1)"), "{error}");
    dir.adopt(Identity { incarnation: 3, ..identity() }).expect("a restored cluster goes on");
    assert_eq!(dir.identity().map(|identity| identity.incarnation), Some(3));
}

#[test]
fn a_second_user_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let first = DataDir::open(folder.path()).expect("it is a new directory");
    let error = DataDir::open(folder.path()).expect_err("it is in use");
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    three_lines(&error);
    drop(first);
    DataDir::open(folder.path()).expect("it is free again");
}

#[test]
fn a_file_in_the_way_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("file");
    fs::write(&path, "something").expect("the directory is ours");
    for path in [path.clone(), path.join("below")] {
        let error = DataDir::open(&path).expect_err("it is a file");
        assert!(matches!(error, Error::NotADirectory { .. }), "{error}");
        three_lines(&error);
    }
}

#[test]
fn a_name_that_is_too_long_is_refused() {
    let disk = MemoryDisk::new();
    let longest = Identity { name: "n".repeat(NAME_BYTES_MAX), ..identity() };
    longest.store(&disk).expect("it fits");
    assert_eq!(Identity::load(&disk).expect("it is sound"), Some(longest));
    let longer = Identity { name: "n".repeat(NAME_BYTES_MAX + 1), ..identity() };
    three_lines(&longer.store(&disk).expect_err("it does not fit"));
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let disk = MemoryDisk::new();
    identity().store(&disk).expect("the disk has no faults");
    let len = u64::try_from(disk.contents("identity").expect("it is there").len()).expect("small");
    for offset in 0..len {
        for bit in 0..8 {
            let disk = disk.fork();
            assert!(disk.flip("identity", offset, bit));
            let error = Identity::load(&disk).expect_err("it is damaged");
            let is_known =
                matches!(error, Error::DamagedIdentity { .. } | Error::LaterVersion { .. });
            assert!(is_known, "{error}");
            three_lines(&error);
        }
    }
}

#[test]
fn a_file_of_any_other_length_is_noticed() {
    let disk = MemoryDisk::new();
    identity().store(&disk).expect("the disk has no faults");
    let bytes = disk.contents("identity").expect("it is there");
    for len in 0..bytes.len() {
        disk.put("identity", &bytes[..len]);
        let error = Identity::load(&disk).expect_err("it is cut short");
        assert!(matches!(error, Error::DamagedIdentity { .. }), "{error}");
    }
    disk.put("identity", &[&bytes[..], &[0]].concat());
    Identity::load(&disk).expect_err("there is something left over");
    disk.put("identity", &vec![0; 1 << 20]);
    Identity::load(&disk).expect_err("it is too long to be read at all");
}

#[test]
fn a_crash_at_any_operation_leaves_the_old_or_the_new_identity() {
    let before = MemoryDisk::new();
    identity().store(&before).expect("the disk has no faults");
    let next = Identity { boot: 2, ..identity() };
    for fault in [Fault::Die, Fault::Error, Fault::NoSpace] {
        let mut operation = before.operations();
        loop {
            operation += 1;
            let disk = before.fork();
            disk.fail_at(operation, fault);
            let is_stored = next.store(&disk).is_ok();
            for writes in
                [WritesKept::None, WritesKept::All, WritesKept::Torn { whole: 0, bytes: 20 }]
            {
                for names in [NamesKept::None, NamesKept::All, NamesKept::Chosen(2)] {
                    let left = disk.crash(Crash { writes, names });
                    let found = Identity::load(&left).expect("it is sound").expect("it is there");
                    assert!(found == next || (found == identity() && !is_stored), "{operation}");
                    next.store(&left).expect("the remains are not in the way");
                }
            }
            if disk.operations() < operation {
                break;
            }
        }
    }
}
