//! Snapshots: made beside the log, sent in pieces, installed, and taken for backups.

use fencepost_core::command::{LeaseGrant, Put};
use fencepost_core::{Action, Key, Millis, Outcome, Restore, Value};
use fencepost_node::boot::begin_with;
use fencepost_node::disk::MemoryDisk;
use fencepost_node::io::Change;
use fencepost_node::membership::Membership;
use fencepost_node::snapshot_keeper::Source;
use fencepost_node::snapshot_store::SnapshotId;
use raft::prelude::MessageType;

use crate::support::{Cluster, MS, named};

fn put(number: u64) -> Action {
    let key = Key::from(format!("k{number:05}").as_str());
    Action::Put(Put { key, value: Value::from("value"), ..Put::default() })
}

fn fill(cluster: &mut Cluster, id: u64, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert!(matches!(cluster.done(id, put(number)), Outcome::Put(None)));
    }
}

fn same_state(cluster: &mut Cluster, one: u64, other: u64) -> bool {
    cluster.run_until(|cluster| {
        let (one, other) = (cluster.node(one).machine(), cluster.node(other).machine());
        one.applied() == other.applied() && one.state().hash() == other.state().hash()
    })
}

/// A cluster that makes a snapshot every twenty entries, from the log.
fn eager(size: u64) -> (Cluster, u64) {
    eager_with(size, 0)
}

/// The same, from a copy of the state if it is no larger than this.
fn eager_with(size: u64, snapshot_copy_max: usize) -> (Cluster, u64) {
    let mut cluster = Cluster::new(size, 5);
    cluster.snapshot_entries = 20;
    cluster.snapshot_copy_max = snapshot_copy_max;
    for id in 1..=size {
        cluster.kill(id);
        cluster.start(id);
    }
    let leader = cluster.elect();
    (cluster, leader)
}

#[test]
fn the_log_is_purged_up_to_the_snapshot_before_the_last() {
    let (mut cluster, leader) = eager(1);
    fill(&mut cluster, leader, 0..100);
    cluster.run(100 * MS);
    let newest = cluster.node(leader).snapshot_id().index;
    assert!(newest > 60, "{newest}");
    assert!(cluster.node(leader).entry(20).is_none(), "old entries are still in memory");
    let kept = (2..newest).find(|&index| cluster.node(leader).entry(index).is_some());
    assert!(
        kept.is_some_and(|first| first + 15 < newest),
        "nothing is left for the older snapshot"
    );
}

/// One key is overwritten again and again with a large value.
#[test]
fn log_of_a_small_state_stays_short() {
    const MIB: usize = 1 << 20;
    let mut cluster = Cluster::with_levels(1, 5, &[2]);
    let leader = cluster.elect();
    assert!(cluster.run_until(|cluster| cluster.node(leader).feature_level() == 2));
    let value = Value::from(vec![7; MIB].as_slice());
    let mut longest = 0;
    for _ in 0..80 {
        let put = Put { key: Key::from("k"), value: value.clone(), ..Put::default() };
        cluster.done(leader, Action::Put(put));
        let node = cluster.node(leader);
        let entries = (1..=node.last_index()).filter_map(|index| node.entry(index));
        longest = longest.max(entries.map(|(_, _, data)| data.len()).sum::<usize>());
    }
    // Up to the snapshot before the last, and what comes while one is made.
    assert!(longest < 3 * 18 * MIB, "{longest} bytes of log beside {MIB} bytes of state");
    assert!(longest > 16 * MIB, "snapshots are made too often: {longest} bytes");
}

#[test]
fn a_small_state_is_copied_and_a_large_one_made_from_the_log() {
    // Every put is a key more.
    let (mut cluster, leader) = eager_with(1, 30);
    let mut copied = Vec::new();
    for number in 0..100 {
        cluster.propose(leader, put(number));
        for _ in 0..10 {
            cluster.run(MS);
            copied.extend(cluster.making(leader).map(|source| matches!(source, Source::Copy(_))));
        }
    }
    assert!(copied.first() == Some(&true) && copied.last() == Some(&false), "{copied:?}");
    assert!(copied.is_sorted_by(|one, next| one >= next), "{copied:?}");
}

// Requirements: S1-013, S3-033.
#[test]
fn a_node_that_restarts_goes_on_from_its_snapshot() {
    for snapshot_copy_max in [0, usize::MAX] {
        goes_on_from_its_snapshot(snapshot_copy_max);
    }
}

fn goes_on_from_its_snapshot(snapshot_copy_max: usize) {
    let (mut cluster, leader) = eager_with(1, snapshot_copy_max);
    fill(&mut cluster, leader, 0..70);
    cluster.run(100 * MS);
    let hash = cluster.node(leader).machine().state().hash();
    cluster.kill(leader);
    cluster.start(leader);
    assert!(cluster.node(leader).machine().applied() > 40);
    assert_eq!(cluster.elect(), leader);
    assert_eq!(cluster.node(leader).machine().state().hash(), hash);
}

#[test]
fn a_member_that_was_away_for_too_long_is_sent_a_snapshot() {
    let (mut cluster, leader) = eager(3);
    let away = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.kill(away);
    fill(&mut cluster, leader, 0..100);
    cluster.start(away);
    let leader = cluster.elect();
    assert!(same_state(&mut cluster, leader, away));
    assert_eq!(cluster.installed, 1);
    assert!(cluster.pieces > 4, "it has {} pieces only", cluster.pieces);
    fill(&mut cluster, leader, 100..110);
    assert!(same_state(&mut cluster, leader, away));
}

#[test]
fn pieces_that_get_lost_are_asked_for_again() {
    let (mut cluster, leader) = eager(3);
    let away = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.kill(away);
    fill(&mut cluster, leader, 0..100);
    cluster.lose_piece = 7;
    cluster.start(away);
    let leader = cluster.elect();
    assert!(same_state(&mut cluster, leader, away));
    assert_eq!(cluster.installed, 1);
}

#[test]
fn a_transfer_goes_on_after_its_receiver_has_died_in_it() {
    let (mut cluster, leader) = eager(3);
    let away = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.kill(away);
    fill(&mut cluster, leader, 0..100);
    cluster.start(away);
    assert!(cluster.run_until(|cluster| cluster.pieces > 2));
    cluster.kill(away);
    cluster.start(away);
    let leader = cluster.elect();
    assert!(same_state(&mut cluster, leader, away));
}

#[test]
fn a_transfer_goes_on_with_another_leader() {
    let (mut cluster, leader) = eager(3);
    let away = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.kill(away);
    fill(&mut cluster, leader, 0..100);
    cluster.start(away);
    assert!(cluster.run_until(|cluster| cluster.pieces > 2));
    cluster.kill(leader);
    cluster.run(50 * MS);
    cluster.start(leader);
    let leader = cluster.elect();
    assert!(same_state(&mut cluster, leader, away));
}

#[test]
fn a_snapshot_that_is_durable_before_the_log_counts_after_a_crash() {
    let (mut cluster, leader) = eager(3);
    let away = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.kill(away);
    fill(&mut cluster, leader, 0..100);
    cluster.start(away);
    // The log's part of the installation takes long, and the machine dies in it.
    cluster.slow_disk(away, 2_000 * MS);
    assert!(cluster.run_until(|cluster| cluster.installed == 1));
    cluster.kill(away);
    cluster.slow_disk(away, MS);
    cluster.start(away);
    assert!(cluster.node(away).machine().applied() > 60);
    let leader = cluster.elect();
    assert!(same_state(&mut cluster, leader, away));
}

#[test]
fn a_backup_goes_on_in_a_new_cluster_with_greater_tokens() {
    let (mut cluster, leader) = eager(3);
    fill(&mut cluster, leader, 0..30);
    let ttl = Millis(90_000);
    let grant = || Action::LeaseGrant(LeaseGrant { ttl, ..LeaseGrant::default() });
    assert!(matches!(cluster.done(leader, grant()), Outcome::LeaseGranted(_)));
    let backup = cluster.save(leader);
    let revision = backup.machine.state().revision();
    let id = SnapshotId { index: backup.machine.applied(), term: 9 };
    let membership = Membership::founding(backup.membership.cluster_id, [named(9)]);
    // The longest lease that the lost cluster could have granted after the backup: a day.
    let (unix_ms, ttl_max) = (1_795_000_000_000, 24 * 60 * 60_000);
    let elapsed = Millis(ttl_max - 90_000);
    let inputs = Restore { unix_ms, incarnation: 7, elapsed, ..Restore::default() };
    let restored = backup.restored(membership, inputs).expect("it can be restored");
    let mut cluster = Cluster::new(0, 6);
    let disk = MemoryDisk::new();
    begin_with(&disk, id, &restored).expect("the disk is sound");
    cluster.add_disk(9, disk);
    cluster.start(9);
    assert_eq!(cluster.elect(), 9);
    let state = cluster.node(9).machine().state();
    assert!(state.revision() > revision);
    assert!(state.revision().0 > unix_ms << 10);
    assert_eq!(state.incarnation(), 7);
    assert!(matches!(cluster.done(9, grant()), Outcome::Rejected(_)), "nothing is granted yet");
    cluster.run(95_000 * MS);
    assert!(matches!(cluster.done(9, grant()), Outcome::LeaseGranted(_)));
}

// Requirements: S1-044.
#[test]
fn a_newcomer_gets_a_snapshot_that_knows_it() {
    let (mut cluster, leader) = eager(3);
    fill(&mut cluster, leader, 0..50);
    let member = cluster.newcomer(4);
    assert_eq!(cluster.change(leader, Change::Add(member)), Ok(()));
    assert!(same_state(&mut cluster, leader, 4));
    assert_eq!(cluster.installed, 1);
}

/// Also if the leader still has its whole log: that begins after the founding snapshot.
// Requirements: S1-044.
#[test]
fn newcomer_of_a_young_cluster_gets_a_snapshot_and_the_entries() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    fill(&mut cluster, leader, 0..20);
    assert_eq!(cluster.node(leader).snapshot_id().index, 1);
    let member = cluster.newcomer(4);
    let mark = cluster.sent.len();
    assert_eq!(cluster.change(leader, Change::Add(member)), Ok(()));
    fill(&mut cluster, leader, 20..40);
    assert!(cluster.run_until(|cluster| cluster.node(4).membership().contains(4)));
    fill(&mut cluster, leader, 40..60);
    assert!(same_state(&mut cluster, leader, 4));
    assert_eq!(cluster.installed, 1, "it begins with a snapshot, and needs no other");
    let (start, last) = (cluster.node(4).snapshot_id().index, cluster.node(4).last_index());
    assert!(start > 1 && start < last);
    for index in start + 1..=last {
        assert_eq!(cluster.node(4).entry(index), cluster.node(leader).entry(index));
    }
    let refusals = cluster.sent_since(mark, MessageType::MsgAppendResponse);
    let mut of_it = refusals.iter().filter(|one| one.from == 4 && one.reject);
    assert!(of_it.all(|one| one.reject_hint == 0), "its log ends before the first entry");
}

#[test]
fn a_backup_holds_all_that_was_answered_before_it_was_asked_for() {
    let (mut cluster, leader) = eager(1);
    cluster.snapshot_takes = 600 * MS;
    let mut number = 0;
    while !cluster.is_making(leader) {
        fill(&mut cluster, leader, number..number + 1);
        number += 1;
    }
    fill(&mut cluster, leader, number..number + 5);
    let backup = cluster.save(leader);
    assert!(backup.machine.state().revision().0 > number + 5, "an older snapshot was taken for it");
}

#[test]
fn a_transfer_ends_in_a_busy_cluster_far_away() {
    let (mut cluster, leader) = eager(3);
    fill(&mut cluster, leader, 0..200);
    let away = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.kill(away);
    fill(&mut cluster, leader, 200..260);
    cluster.latency = 110 * MS;
    cluster.start(away);
    let mut number = 260;
    let until = cluster.now + 60_000 * MS;
    while cluster.now < until && cluster.installed == 0 {
        if let Some(leader) = cluster.leader() {
            cluster.propose(leader, put(number));
            number += 1;
        }
        cluster.run(40 * MS);
    }
    assert!(cluster.installed > 0, "a minute, {} pieces, and nothing installed", cluster.pieces);
}

#[test]
fn a_member_is_not_left_alone_because_the_newest_snapshot_is_damaged() {
    let (mut cluster, leader) = eager(3);
    let away = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.kill(away);
    fill(&mut cluster, leader, 0..100);
    cluster.run(200 * MS);
    for id in (1..=3).filter(|&id| id != away) {
        cluster.damage_newest_snapshot(id);
    }
    cluster.start(away);
    let leader = cluster.elect();
    assert!(same_state(&mut cluster, leader, away), "it still waits");
}

#[test]
fn pieces_do_not_pile_up_before_a_slow_disk() {
    let (mut cluster, leader) = eager(3);
    fill(&mut cluster, leader, 0..200);
    let away = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.kill(away);
    fill(&mut cluster, leader, 200..300);
    cluster.start(away);
    cluster.elect();
    cluster.snapshot_takes = 300 * MS;
    let mut most = 0;
    for _ in 0..3_000 {
        cluster.run(MS);
        most = most.max(cluster.tasks_waiting(away));
    }
    assert!((2..=6).contains(&most), "{most} pieces wait");
}
