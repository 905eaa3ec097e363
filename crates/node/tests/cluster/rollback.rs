//! A disk that was set back to an older copy: the member stops instead of diverging.

use fencepost_core::command::Put;
use fencepost_core::{Action, Key, Value};
use fencepost_node::disk::MemoryDisk;
use fencepost_node::io::{Change, Input, Introduction, PeerMessage};
use fencepost_node::node::LOG_CONTRADICTED;

use crate::support::{Cluster, MS};

fn put(cluster: &mut Cluster, id: u64, keys: std::ops::Range<u64>) {
    for number in keys {
        let key = Key::from(format!("k{number}").as_str());
        let put = Put { key, value: Value::from("v"), ..Put::default() };
        cluster.done(id, Action::Put(put));
    }
}

#[test]
fn member_with_an_older_disk_halts_while_the_leader_lives() {
    for seed in 1..=10 {
        let mut cluster = Cluster::new(3, seed);
        let leader = cluster.elect();
        let victim = leader % 3 + 1;
        put(&mut cluster, leader, 0..5);
        cluster.run(200 * MS);
        let older = cluster.copy_disk(victim);
        put(&mut cluster, leader, 5..25);
        cluster.run(200 * MS);
        cluster.kill(victim);
        cluster.set_disk(victim, older);
        cluster.may_halt = true;
        cluster.start(victim);
        cluster.run(2_000 * MS);
        let why = cluster.halted.get(&victim).expect("its disk is old");
        assert!(why.contains("has seen it confirm entry"), "seed {seed}: {why}");
        assert_eq!(why.lines().count(), 3);
        assert_eq!(cluster.halted.len(), 1, "seed {seed}: only the member with the older disk");
        assert_eq!(cluster.leader(), Some(leader), "seed {seed}");
        put(&mut cluster, leader, 25..26);
    }
}

/// The members that elect the new leader do not have what the third has applied. That one cannot
/// prevent it, but it does not follow them.
// Requirements: S1-048.
#[test]
fn member_whose_applied_entries_a_new_leader_lacks_halts() {
    for seed in 1..=10 {
        let mut cluster = Cluster::new(3, seed);
        let leader = cluster.elect();
        let (victim, away) = (leader % 3 + 1, (leader + 1) % 3 + 1);
        put(&mut cluster, leader, 0..5);
        cluster.run(200 * MS);
        let older = cluster.copy_disk(victim);
        cluster.isolate(away);
        put(&mut cluster, leader, 5..25);
        cluster.run(200 * MS);
        cluster.kill(leader);
        cluster.kill(victim);
        cluster.set_disk(victim, older);
        cluster.start(victim);
        cluster.cut.clear();
        let new = cluster.elect();
        // More entries than were lost in some runs, fewer in others.
        put(&mut cluster, new, 100..100 + 4 * seed);
        cluster.may_halt = true;
        cluster.start(leader);
        cluster.run(3_000 * MS);
        let why = cluster.halted.get(&leader).map(String::as_str);
        assert_eq!(why, Some(LOG_CONTRADICTED), "seed {seed}");
        assert_eq!(cluster.halted.len(), 1, "seed {seed}");
    }
}

#[test]
fn halt_message_has_three_lines() {
    assert_eq!(LOG_CONTRADICTED.lines().count(), 3);
    assert!(LOG_CONTRADICTED.contains("fencepost member rm"));
}

/// A cluster of level 2 with a leader, a lagging member, and a copy of the third one's disk from
/// before the last entries.
fn with_an_older_copy(seed: u64) -> (Cluster, [u64; 3], MemoryDisk) {
    let mut cluster = Cluster::with_levels(3, seed, &[2, 2, 2]);
    let leader = cluster.elect();
    let (victim, away) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let is_raised =
        |cluster: &Cluster| cluster.running().all(|(_, node)| node.feature_level() == 2);
    assert!(cluster.run_until(is_raised));
    put(&mut cluster, leader, 0..5);
    cluster.run(200 * MS);
    let older = cluster.copy_disk(victim);
    cluster.isolate(away);
    put(&mut cluster, leader, 5..25);
    // Witnesses are written down with later entries.
    cluster.run(50 * MS);
    put(&mut cluster, leader, 25..26);
    (cluster, [leader, victim, away], older)
}

/// All restart orders, a little apart from each other: the witness is among those that start.
#[test]
fn older_disk_is_found_in_every_restart_order() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for (seed, order) in (1..).zip(orders.into_iter().cycle().take(18)) {
        let (mut cluster, ids, older) = with_an_older_copy(seed);
        let [leader, victim, _] = ids;
        let commit = cluster.node(leader).commit();
        ids.iter().for_each(|&id| cluster.kill(id));
        cluster.set_disk(victim, older);
        cluster.cut.clear();
        cluster.may_halt = true;
        for place in order {
            cluster.start(ids[place]);
            cluster.run(300 * MS);
        }
        let new = cluster.elect();
        assert!(cluster.node(new).commit() >= commit, "seed {seed}: entries were lost");
        assert_eq!(cluster.halted.keys().collect::<Vec<_>>(), [&victim], "seed {seed}");
        put(&mut cluster, new, 30..31);
    }
}

#[test]
fn witness_outlives_restarts_and_leader_changes() {
    let (mut cluster, [leader, victim, away], _) = with_an_older_copy(3);
    let before = cluster.node(leader).witness(victim);
    assert!(before > 20);
    cluster.cut.clear();
    cluster.input(leader, Input::TransferTo(away));
    assert!(cluster.run_until(|cluster| cluster.leader().is_some_and(|one| one != leader)));
    assert!(cluster.node(leader).witness(victim) >= before);
    cluster.kill(leader);
    cluster.isolate(leader);
    cluster.start(leader);
    assert!(cluster.node(leader).witness(victim) >= before);
}

/// Only what the last entry proves is missing, however fast entries follow each other.
#[test]
fn witness_is_written_with_the_next_entry() {
    for seed in 1..=10 {
        let (mut cluster, [leader, victim, _], _) = with_an_older_copy(seed);
        put(&mut cluster, leader, 40..60);
        let last = cluster.node(leader).last_index();
        cluster.kill(leader);
        cluster.isolate(leader);
        cluster.start(leader);
        let witness = cluster.node(leader).witness(victim);
        assert!(witness + 1 >= last, "seed {seed}: {witness} of {last}");
    }
}

#[test]
fn witness_of_level_1_is_not_written_down() {
    let mut cluster = Cluster::new(3, 5);
    let leader = cluster.elect();
    put(&mut cluster, leader, 0..20);
    let other = leader % 3 + 1;
    assert!(cluster.node(leader).witness(other) > 0);
    cluster.kill(leader);
    cluster.isolate(leader);
    cluster.start(leader);
    assert_eq!(cluster.node(leader).witness(other), 0);
}

#[test]
fn witness_of_a_removed_member_is_deleted() {
    let mut cluster = Cluster::with_levels(3, 5, &[2, 2, 2]);
    let leader = cluster.elect();
    put(&mut cluster, leader, 0..20);
    let gone = leader % 3 + 1;
    cluster.run(1_000 * MS);
    assert!(cluster.node(leader).witness(gone) > 0);
    assert_eq!(cluster.change(leader, Change::Remove(gone)), Ok(()));
    cluster.run(1_100 * MS);
    assert_eq!(cluster.node(leader).witness(gone), 0);
    put(&mut cluster, leader, 20..21);
    cluster.kill(leader);
    cluster.isolate(leader);
    cluster.start(leader);
    assert_eq!(cluster.node(leader).witness(gone), 0);
}

/// The lagging member campaigns as soon as it can, and would win with the older disk's vote.
#[test]
fn restarted_member_does_not_vote_before_introductions() {
    for seed in 1..=10 {
        let (mut cluster, [leader, victim, away], older) = with_an_older_copy(seed);
        cluster.kill(leader);
        cluster.kill(victim);
        cluster.set_disk(victim, older);
        cluster.may_halt = true;
        cluster.cut.clear();
        cluster.start(victim);
        for _ in 0..3 {
            cluster.input(away, Input::Campaign);
            cluster.run(250 * MS);
            assert_eq!(cluster.leader(), None, "seed {seed}");
        }
        cluster.start(leader);
        cluster.run(100 * MS);
        assert!(cluster.halted.contains_key(&victim), "seed {seed}");
        assert_eq!(cluster.elect(), leader, "seed {seed}: only it has everything");
    }
}

/// The case that cannot be prevented: the only witness is away. It is reported when it returns.
#[test]
fn lost_entries_are_reported_when_the_witness_returns() {
    for seed in 1..=10 {
        let (mut cluster, [leader, victim, _], older) = with_an_older_copy(seed);
        cluster.kill(leader);
        cluster.kill(victim);
        cluster.set_disk(victim, older);
        cluster.cut.clear();
        cluster.start(victim);
        let new = cluster.elect();
        put(&mut cluster, new, 100..100 + 4 * seed);
        cluster.may_halt = true;
        cluster.start(leader);
        cluster.run(3_000 * MS);
        assert!(!cluster.halted.is_empty(), "seed {seed}");
    }
}

#[test]
fn process_from_a_copied_directory_halts() {
    let mut cluster = Cluster::new(3, 5);
    let leader = cluster.elect();
    let member = leader % 3 + 1;
    cluster.run(1_100 * MS);
    let info = cluster.node(leader).peer_info(member).and_then(|info| info.introduction);
    let real = info.expect("it was introduced");
    let copies = [
        Introduction { boot_nonce: 99, ..real },
        Introduction { boot: real.boot - 1, boot_nonce: 99, ..real },
    ];
    for copy in copies {
        let before = cluster.trace.len();
        let message = PeerMessage::Introduction(Box::new(copy));
        cluster.input(leader, Input::Peer(member, message));
        let Introduction { boot, boot_nonce, .. } = copy;
        let answer = format!("{:?}", PeerMessage::CopiedDirectory { boot, boot_nonce });
        assert!(cluster.trace[before..].iter().any(|line| line.contains(&answer)));
        // The answer concerns the copy, and not the process that the others know.
        cluster.run(100 * MS);
        assert!(cluster.halted.is_empty());
    }
    // A copy that was started later, and has less: the original goes on.
    let later = Introduction { boot: real.boot + 1, boot_nonce: 99, ..real };
    cluster.input(leader, Input::Peer(member, PeerMessage::Introduction(Box::new(later))));
    put(&mut cluster, leader, 0..5);
    cluster.run(100 * MS);
    let before = cluster.trace.len();
    cluster.run(1_000 * MS);
    let answer = format!("{:?}", PeerMessage::CopiedDirectory { boot: later.boot, boot_nonce: 99 });
    assert!(cluster.trace[before..].iter().any(|line| line.contains(&answer)));
    assert!(cluster.halted.is_empty());
    cluster.may_halt = true;
    let Introduction { boot, boot_nonce, .. } = real;
    let answer = PeerMessage::CopiedDirectory { boot, boot_nonce };
    cluster.input(member, Input::Peer(leader, answer));
    let why = &cluster.halted[&member];
    assert!(why.contains("its data directory is a copy"), "{why}");
    assert_eq!(why.lines().count(), 3);
}

/// Two disks may be old. What one of them has seen of the other is true all the same.
#[test]
fn witness_of_a_member_with_an_older_disk_counts() {
    let mut cluster = Cluster::new(3, 5);
    let leader = cluster.elect();
    put(&mut cluster, leader, 0..20);
    cluster.run(1_000 * MS);
    let other = leader % 3 + 1;
    assert!(cluster.node(leader).witness(other) > 0);
    let witnessed = cluster.node(leader).last_index() + 1;
    let claim = Introduction { boot: 1, witnessed, ..Introduction::default() };
    cluster.may_halt = true;
    cluster.input(leader, Input::Peer(other, PeerMessage::Introduction(Box::new(claim))));
    assert!(cluster.halted.contains_key(&leader));
}
