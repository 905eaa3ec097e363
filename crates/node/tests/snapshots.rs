//! Snapshot files: whole or not there, whatever happens while they are written or lie around.

use fencepost_node::disk::{Crash, Disk, Fault, MemoryDisk, NamesKept, WritesKept};
use fencepost_node::snapshot_store::{CHUNK_BYTES, Error, SnapshotId, SnapshotStore};

fn id(index: u64) -> SnapshotId {
    SnapshotId { index, term: index / 2 }
}

fn contents(index: u64, len: usize) -> Vec<u8> {
    let seed = usize::try_from(index).expect("small");
    (0..len).map(|at| u8::try_from((at * 7 + at / 251 + seed) % 256).expect("small")).collect()
}

fn write(disk: &MemoryDisk, index: u64, len: usize) -> Result<(), Error> {
    let store = SnapshotStore::open(disk.clone())?;
    let mut writer = store.write(id(index))?;
    for piece in contents(index, len).chunks(1_000) {
        writer.push(piece)?;
    }
    writer.finish()
}

type Found = (Option<(SnapshotId, Vec<u8>)>, usize);

/// The newest sound snapshot and what it holds, and how many newer ones were passed over.
fn latest(disk: &MemoryDisk) -> Result<Found, Error> {
    let latest = SnapshotStore::open(disk.clone())?.latest()?;
    let Some(reader) = latest.snapshot else {
        return Ok((None, latest.skipped.len()));
    };
    let (id, size) = (reader.id(), reader.size());
    let mut bytes = Vec::new();
    for chunk in reader {
        bytes.extend(chunk?);
    }
    assert_eq!(u64::try_from(bytes.len()), Ok(size));
    Ok((Some((id, bytes)), latest.skipped.len()))
}

fn file(disk: &MemoryDisk, index: u64) -> String {
    let names = disk.list().expect("the disk has no faults");
    let found = names.into_iter().find(|name| name.starts_with(&format!("{index:016x}-")));
    found.expect("it was written")
}

#[test]
fn what_was_written_comes_back_whatever_its_length() {
    for len in [0, 1, 999, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 5] {
        let disk = MemoryDisk::new();
        assert_eq!(latest(&disk).expect("there is none"), (None, 0));
        write(&disk, 5, len).expect("the disk has no faults");
        let (found, skipped) = latest(&disk).expect("it is sound");
        assert_eq!(found, Some((id(5), contents(5, len))), "{len} bytes");
        assert_eq!(skipped, 0);
    }
}

#[test]
fn the_last_two_are_kept() {
    let disk = MemoryDisk::new();
    for index in 1..6 {
        write(&disk, index, 100).expect("the disk has no faults");
    }
    let store = SnapshotStore::open(disk.clone()).expect("the disk has no faults");
    assert_eq!(store.ids().expect("the disk has no faults"), [id(4), id(5)]);
    assert_eq!(disk.list().expect("the disk has no faults").len(), 2);
    let old = store.read(id(4)).expect("it is sound");
    assert_eq!(old.size(), 100);
}

#[test]
fn a_damaged_one_is_passed_over_and_reported() {
    let disk = MemoryDisk::new();
    write(&disk, 1, 2_000).expect("the disk has no faults");
    write(&disk, 2, 2_000).expect("the disk has no faults");
    assert!(disk.flip(&file(&disk, 2), 1_000, 0));
    let store = SnapshotStore::open(disk.clone()).expect("the disk has no faults");
    let found = store.latest().expect("the older one is sound");
    assert_eq!(found.snapshot.map(|reader| reader.id()), Some(id(1)));
    let report = found.skipped[0].to_string();
    assert!(report.contains(&file(&disk, 2)), "{report}");
    assert_eq!(report.lines().count(), 3, "{report}");
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let disk = MemoryDisk::new();
    write(&disk, 3, 300).expect("the disk has no faults");
    let name = file(&disk, 3);
    let len = u64::try_from(disk.contents(&name).expect("it is there").len()).expect("small");
    for offset in 0..len {
        for bit in 0..8 {
            let disk = disk.fork();
            assert!(disk.flip(&name, offset, bit));
            match latest(&disk) {
                Ok((found, skipped)) => assert_eq!((found, skipped), (None, 1), "{offset}.{bit}"),
                Err(error) => assert!(matches!(error, Error::LaterVersion { .. }), "{error}"),
            }
        }
    }
}

#[test]
fn a_file_of_any_other_length_is_noticed() {
    let disk = MemoryDisk::new();
    write(&disk, 3, 300).expect("the disk has no faults");
    let name = file(&disk, 3);
    let mut bytes = disk.contents(&name).expect("it is there");
    for len in 0..bytes.len() {
        let disk = MemoryDisk::new();
        disk.put(&name, &bytes[..len]);
        assert_eq!(latest(&disk).expect("it is passed over"), (None, 1), "cut at {len}");
    }
    bytes.push(0);
    disk.put(&name, &bytes);
    assert_eq!(latest(&disk).expect("it is passed over"), (None, 1));
}

#[test]
fn a_snapshot_under_another_name_is_noticed() {
    let disk = MemoryDisk::new();
    write(&disk, 3, 300).expect("the disk has no faults");
    let other = file(&disk, 3).replace("3-", "4-");
    disk.rename(&file(&disk, 3), &other).expect("it is there");
    assert_eq!(latest(&disk).expect("it is passed over"), (None, 1));
}

#[test]
fn a_later_format_is_not_passed_over() {
    let disk = MemoryDisk::new();
    write(&disk, 3, 300).expect("the disk has no faults");
    let mut bytes = disk.contents(&file(&disk, 3)).expect("it is there");
    bytes[8] = 2;
    disk.put(&file(&disk, 3), &bytes);
    assert_eq!(latest(&disk).expect("it is passed over"), (None, 1), "a damaged version");
    let sum = crc32c::crc32c(&bytes[..28]).to_le_bytes();
    bytes[28..32].copy_from_slice(&sum);
    disk.put(&file(&disk, 3), &bytes);
    assert!(matches!(latest(&disk), Err(Error::LaterVersion { version: 2, known: 1, .. })));
}

#[test]
fn an_unfinished_one_is_cleared_away() {
    let disk = MemoryDisk::new();
    write(&disk, 1, 100).expect("the disk has no faults");
    let store = SnapshotStore::open(disk.clone()).expect("the disk has no faults");
    let mut writer = store.write(id(2)).expect("the disk has no faults");
    writer.push(&[0; 2 * CHUNK_BYTES]).expect("the disk has no faults");
    drop(writer);
    assert_eq!(disk.list().expect("the disk has no faults").len(), 2);
    assert_eq!(store.latest().expect("one is sound").skipped.len(), 0);
    // Beginning the same one again does not trip over the remains, nor does opening.
    drop(store.write(id(2)).expect("the disk has no faults"));
    SnapshotStore::open(disk.clone()).expect("the disk has no faults");
    assert_eq!(disk.list().expect("the disk has no faults").len(), 1);
}

/// The machine dies or the disk fails at every operation of writing a third snapshot: the newest
/// is the second or the third, and whole.
#[test]
fn a_crash_at_any_operation_leaves_a_whole_snapshot() {
    let len = CHUNK_BYTES + 100;
    let before = MemoryDisk::new();
    write(&before, 1, len).expect("the disk has no faults");
    write(&before, 2, len).expect("the disk has no faults");
    for fault in [Fault::Die, Fault::Error, Fault::NoSpace] {
        let mut operation = before.operations();
        loop {
            operation += 1;
            let disk = before.fork();
            disk.fail_at(operation, fault);
            let is_finished = write(&disk, 3, len).is_ok();
            for writes in [
                WritesKept::None,
                WritesKept::All,
                WritesKept::First(1),
                WritesKept::Torn { whole: 1, bytes: 5_000 },
                WritesKept::Torn { whole: 2, bytes: 100 },
                WritesKept::Sectors(0x5a5a_5a5a_5a5a_5a5a),
            ] {
                for names in [NamesKept::None, NamesKept::All, NamesKept::Chosen(2)] {
                    let left = disk.crash(Crash { writes, names });
                    let (found, skipped) = latest(&left).expect("the disk has no faults any more");
                    let (found, bytes) = found.expect("two were there before");
                    assert_eq!(skipped, 0, "an unfinished snapshot can be found");
                    assert!(found == id(3) || (found == id(2) && !is_finished), "{operation}");
                    assert_eq!(bytes, contents(found.index, len));
                }
            }
            if disk.operations() < operation {
                break;
            }
        }
    }
}
