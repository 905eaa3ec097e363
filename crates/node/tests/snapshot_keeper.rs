//! The snapshot keeper, alone: what it must not do whatever it is given.

use fencepost_node::boot;
use fencepost_node::disk::{Disk, Fault, MemoryDisk};
use fencepost_node::io::SnapshotPiece;
use fencepost_node::membership::{Member, Membership};
use fencepost_node::replica::Replica;
use fencepost_node::snapshot_keeper::{
    NotMade, SnapshotDone, SnapshotKeeper, SnapshotTask, Source,
};
use fencepost_node::snapshot_store::{SnapshotId, SnapshotStore};
use fencepost_node::wal::WalConfig;

const CLUSTER: u64 = 7;
const CONFIG: WalConfig = WalConfig { segment_bytes: 4_096, salt: 1 };

fn founding() -> (SnapshotId, Replica) {
    let member = Member { id: 1, name: "n1".to_owned(), ..Member::default() };
    Replica::founding(Membership::founding(CLUSTER, [member]))
}

fn founded() -> MemoryDisk {
    let disk = MemoryDisk::new();
    boot::found(&disk, founding().1.membership).expect("the disk is sound");
    drop(boot::open(disk.clone(), CONFIG, false).expect("the disk is sound"));
    disk
}

fn keeper(disk: &MemoryDisk) -> SnapshotKeeper<MemoryDisk> {
    SnapshotKeeper::new(SnapshotStore::open(disk.clone()).expect("the disk is sound"))
}

fn receive(keeper: &mut SnapshotKeeper<MemoryDisk>, id: SnapshotId, bytes: Vec<u8>) -> bool {
    let piece = SnapshotPiece { id, number: 0, is_last: true, bytes };
    keeper.perform(SnapshotTask::Keep(piece));
    match keeper.perform(SnapshotTask::Load { id, cluster_id: CLUSTER }) {
        SnapshotDone::Loaded(_, loaded) => loaded.is_ok(),
        done => panic!("{done:?}"),
    }
}

#[test]
fn a_received_snapshot_that_cannot_be_read_pushes_nothing_out() {
    let disk = founded();
    let mut keeper = keeper(&disk);
    for index in [1_000, 1_001, 1_002] {
        assert!(!receive(&mut keeper, SnapshotId { index, term: 9 }, vec![7; 100]));
    }
    let ids = SnapshotStore::open(disk.clone()).and_then(|store| store.ids());
    assert_eq!(ids.expect("the disk is sound"), [founding().0]);
    assert!(boot::open(disk, CONFIG, true).is_ok());
}

#[test]
fn a_received_snapshot_of_another_cluster_is_refused() {
    let disk = founded();
    let mut foreign = founding().1;
    foreign.membership.cluster_id = CLUSTER + 1;
    foreign.machine = fencepost_node::machine::Machine::at(50);
    let id = SnapshotId { index: 50, term: 2 };
    assert!(!receive(&mut keeper(&disk), id, foreign.encode()));
    assert!(boot::open(disk, CONFIG, true).is_ok());
}

#[test]
fn a_received_snapshot_stays_although_newer_ones_are_there() {
    let disk = founded();
    let mut keeper = keeper(&disk);
    let (mut replica, term) = (founding().1, 3);
    for index in [100, 101, 50] {
        replica.machine = fencepost_node::machine::Machine::at(index);
        assert!(receive(&mut keeper, SnapshotId { index, term }, replica.encode()), "{index}");
    }
}

#[test]
fn a_piece_far_behind_the_end_is_no_piece() {
    let disk = founded();
    let (to, id) = (2, founding().0);
    for number in [1, 2, u64::MAX - 4] {
        let done = keeper(&disk).perform(SnapshotTask::Read { to, id, number });
        assert!(matches!(done, SnapshotDone::Read(_, _, Ok(None))), "{done:?}");
    }
    let id = SnapshotId { index: 77, term: 1 };
    let done = keeper(&disk).perform(SnapshotTask::Read { to, id, number: 0 });
    assert!(matches!(done, SnapshotDone::Read(_, _, Err(_))), "{done:?}");
}

#[test]
fn a_snapshot_that_is_being_sent_can_be_read_to_its_end_although_it_was_removed() {
    let disk = founded();
    let store = SnapshotStore::open(disk.clone()).expect("the disk is sound");
    let mut keeper = SnapshotKeeper::new(store.with_chunk_bytes(64));
    let mut replica = founding().1;
    let make = |keeper: &mut SnapshotKeeper<MemoryDisk>, index| {
        let id = SnapshotId { index, term: 1 };
        replica.machine = fencepost_node::machine::Machine::at(index);
        let (membership, source) = (replica.membership.clone(), Box::new(replica.clone()));
        let source = Source::Copy(source);
        let done = keeper.perform(SnapshotTask::Make { id, membership, source });
        assert!(matches!(done, SnapshotDone::Made(_, Ok(()))), "{done:?}");
        id
    };
    let mut make = make;
    let first = make(&mut keeper, 10);
    let read = |keeper: &mut SnapshotKeeper<MemoryDisk>, number| match keeper
        .perform(SnapshotTask::Read { to: 2, id: first, number })
    {
        SnapshotDone::Read(_, _, piece) => piece,
        done => panic!("{done:?}"),
    };
    assert!(matches!(read(&mut keeper, 0), Ok(Some(_))));
    for index in 11..15 {
        make(&mut keeper, index);
    }
    assert!(matches!(read(&mut keeper, 1), Ok(Some(_))));
    assert!(matches!(read(&mut keeper, 0), Ok(Some(_))), "asked for again");
}

#[test]
fn what_was_not_finished_does_not_fill_the_disk() {
    let disk = founded();
    let mut keeper = keeper(&disk);
    let (_, replica) = founding();
    let before = disk.list().expect("the disk is sound");
    for step in 1..=8 {
        disk.fail_at(disk.operations() + step, Fault::NoSpace);
        let id = SnapshotId { index: 100 + step, term: 1 };
        let mut copy = replica.clone();
        copy.machine = fencepost_node::machine::Machine::at(id.index);
        let (membership, source) = (copy.membership.clone(), Source::Copy(Box::new(copy)));
        let done = keeper.perform(SnapshotTask::Make { id, membership, source });
        if let SnapshotDone::Made(_, Err(NotMade { base_is_lost, .. })) = done {
            assert!(!base_is_lost);
            let left = disk.list().expect("the disk is sound");
            assert!(left.iter().all(|name| !name.ends_with(".tmp")), "{left:?}");
        }
    }
    assert!(disk.list().expect("the disk is sound").len() >= before.len());
}
