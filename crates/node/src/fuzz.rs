//! What must hold for any bytes at all. Fuzzers and tests call these.

use crate::data_dir::Identity;
use crate::disk::{Disk, MemoryDisk};
use crate::peer::{
    Ask, FrameBuffer, HEADER_BYTES, Hello, Preamble, Refusal, Told, Welcome, decode_message,
    encode_message, kind,
};
use crate::snapshot_store::{SnapshotId, SnapshotStore};
use crate::wal::{Batch, EntryRef, Wal, WalConfig, segment_of};

/// Reads bytes as the only segment of a log, and then, cut into pieces, as the bodies of records
/// that pass their checksums.
pub fn fuzz_wal(bytes: &[u8]) {
    read_log(bytes);
    // The first byte of a piece says how long it is.
    let mut left = bytes;
    let bodies = std::iter::from_fn(|| {
        let (len, rest) = left.split_first()?;
        let (body, rest) = rest.split_at(rest.len().min((*len).into()));
        left = rest;
        Some(body)
    });
    read_log(&segment_of(bodies));
}

/// What can be read must have no gaps, be the same when it is read again, and take appends.
fn read_log(bytes: &[u8]) {
    let config = WalConfig { segment_bytes: 4096, salt: 0 };
    let disk = MemoryDisk::new();
    disk.put("0000000000000001.wal", bytes);
    let Ok((mut wal, found)) = Wal::open(disk.clone(), config) else {
        assert_eq!(disk.list().ok().map(|names| names.len()), Some(1), "a refusal left traces");
        return;
    };
    assert!(!found.is_new, "a log was overlooked");
    let mut last = found.start.index;
    for entry in &found.entries {
        assert_eq!(Some(entry.index), last.checked_add(1), "a log has a gap");
        last = entry.index;
    }
    assert_eq!(last, wal.last_index(), "a log ends elsewhere");
    let Some(index) = last.checked_add(1) else {
        return;
    };
    let next = EntryRef { index, term: 1, kind: 2, data: b"next" };
    let batch = Batch { entries: vec![next], ..Batch::default() };
    wal.append(&batch).expect("the disk has no faults");
    wal.close().expect("the disk has no faults");
    let (_, mut again) = Wal::open(disk, config).expect("what was opened can be opened again");
    assert_eq!(again.entries.pop(), Some(next.into()), "an appended entry is lost");
    assert_eq!(found, again, "a log changed by being opened");
}

/// Reads bytes as a snapshot file.
pub fn fuzz_snapshot_file(bytes: &[u8]) {
    let disk = MemoryDisk::new();
    // The name of the file must agree with its header, so take the name from there.
    let number = |at: usize| {
        let number = bytes.get(at..).and_then(|rest| rest.first_chunk());
        number.map_or(0, |number| u64::from_le_bytes(*number))
    };
    let id = SnapshotId { index: number(12), term: number(20) };
    disk.put(&format!("{:016x}-{:016x}.snapshot", id.index, id.term), bytes);
    let store = SnapshotStore::open(disk).expect("the disk has no faults");
    let Ok(latest) = store.latest() else {
        return;
    };
    let Some(reader) = latest.snapshot else {
        assert_eq!(latest.skipped.len(), 1, "a snapshot was overlooked");
        return;
    };
    let size = reader.size();
    let chunks: Result<Vec<Vec<u8>>, _> = reader.collect();
    let read: usize = chunks.expect("it was read before").iter().map(Vec::len).sum();
    assert_eq!(u64::try_from(read), Ok(size), "a snapshot does not add up");
}

/// Reads bytes as what another node says: as a stream of frames, and as the body of every kind of
/// frame. What can be read is the same when it was written again.
pub fn fuzz_peer(bytes: &[u8]) {
    let mut buffer = FrameBuffer::default();
    let mut stream = bytes;
    loop {
        while let Ok(Some((kind, body))) = buffer.next_frame() {
            peer_body(kind, body);
        }
        if buffer.fill(&mut stream).is_ok_and(|read| read == 0) {
            break;
        }
    }
    if let Some((preamble, _)) = bytes.split_first_chunk()
        && let Some(read) = Preamble::read(preamble)
    {
        let mut again = Vec::new();
        read.put(&mut again);
        assert_eq!(&again, preamble, "a preamble has two spellings");
    }
    if let Some((kind, body)) = bytes.split_first() {
        peer_body(*kind, body);
    }
}

fn peer_body(kind: u8, body: &[u8]) {
    let mut again = Vec::new();
    if let Some(message) = decode_message(kind, body) {
        // An answer that is too long is written as an unknown one; here nothing is that long.
        encode_message(&message, &mut again);
    } else if kind == kind::HELLO
        && let Some(hello) = Hello::read(body)
    {
        hello.put(&mut again);
    } else if kind == kind::WELCOME
        && let Some(welcome) = Welcome::read(body)
    {
        welcome.put(&mut again);
    } else if kind == kind::REFUSED
        && let Some(refusal) = Refusal::read(body)
    {
        assert_eq!(refusal.to_string().lines().count(), 3, "three lines: what, why, what to do");
        refusal.put(&mut again);
    } else if kind == kind::ASK
        && let Some(ask) = Ask::read(body)
    {
        ask.put(&mut again);
    } else if kind == kind::TOLD
        && let Some(told) = Told::read(body)
    {
        told.put(&mut again);
        let reread = again.get(HEADER_BYTES..).and_then(Told::read);
        assert_eq!(reread, Some(told), "an answer changes when it is written again");
        return;
    }
    if !again.is_empty() {
        assert_eq!(again.get(HEADER_BYTES..), Some(body), "a frame has two spellings");
    }
}

/// Reads bytes as an identity, and whatever was read once more after writing it.
pub fn fuzz_identity(bytes: &[u8]) {
    let disk = MemoryDisk::new();
    disk.put("identity", bytes);
    let Ok(Some(identity)) = Identity::load(&disk) else {
        return;
    };
    identity.store(&disk).expect("the disk has no faults");
    assert_eq!(disk.contents("identity").as_deref(), Some(bytes), "an identity has two spellings");
}
