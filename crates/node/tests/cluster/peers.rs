//! What members learn about each other's processes.

use fencepost_core::command::{ChangeLimits, Put};
use fencepost_core::outcome::Outcome;
use fencepost_core::{Action, Key, Millis, Reason};
use fencepost_node::io::{Input, Introduction, PeerMessage};

use crate::support::{Cluster, MS};

fn put(key: &str) -> Action {
    Action::Put(Put { key: Key::from(key), ..Put::default() })
}

fn introduction(cluster: &Cluster, at: u64, of: u64) -> Option<Introduction> {
    cluster.node(at).peer_info(of).and_then(|info| info.introduction)
}

#[test]
fn members_introduce_themselves_after_a_start() {
    let mut cluster = Cluster::new(3, 5);
    let leader = cluster.elect();
    cluster.done(leader, put("a"));
    let follower = leader % 3 + 1;
    cluster.run(1_100 * MS);
    let known = introduction(&cluster, leader, follower).expect("it was introduced");
    assert_eq!((known.boot, known.boot_nonce), (1, follower << 32 | 1));
    let last = cluster.node(follower).last_index();
    assert!(last > 0 && known.last_index <= last && known.commit <= known.last_index);
    assert_eq!(cluster.node(leader).smallest_voter_memory(), Some(1 << 30));
    cluster.kill(follower);
    cluster.start(follower);
    cluster.run(20 * MS);
    let known = introduction(&cluster, leader, follower).expect("it was introduced again");
    assert_eq!((known.boot, known.last_index), (2, last));
    // The leader has seen the follower confirm everything.
    let there = introduction(&cluster, follower, leader).expect("both ways");
    assert_eq!(there.witnessed, last);
}

#[test]
fn lost_introduction_is_repeated() {
    let mut cluster = Cluster::new(3, 5);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    cluster.kill(follower);
    cluster.cut.insert((follower, leader));
    cluster.start(follower);
    cluster.run(50 * MS);
    assert_eq!(introduction(&cluster, leader, follower), None, "it was lost");
    assert_eq!(cluster.node(leader).smallest_voter_memory(), None, "one voter is unknown");
    cluster.cut.clear();
    cluster.run(1_100 * MS);
    assert_eq!(introduction(&cluster, leader, follower).map(|known| known.boot), Some(2));
}

#[test]
fn member_of_version_1_is_sent_no_introduction() {
    let mut cluster = Cluster::new(3, 5);
    let leader = cluster.elect();
    let old = leader % 3 + 1;
    cluster.kill(old);
    cluster.versions.insert(old, 1);
    let before = cluster.trace.len();
    cluster.start(old);
    cluster.run(3_000 * MS);
    let info = cluster.node(leader).peer_info(old).expect("it is connected");
    assert_eq!((info.version, info.introduction), (1, None));
    assert_eq!(info.feature_level(), Some(1));
    let to_old = format!("Send({old}, Introduction");
    assert!(!cluster.trace[before..].iter().any(|line| line.contains(&to_old)));
}

/// The end of a follower's log that no majority has may be replaced, so it is not witnessed.
#[test]
fn uncommitted_tail_is_not_witnessed() {
    let mut cluster = Cluster::new(3, 5);
    let old = cluster.elect();
    cluster.isolate(old);
    for number in 0..5 {
        cluster.propose(old, put(&format!("lost{number}")));
    }
    cluster.run(100 * MS);
    let tail = cluster.node(old).last_index();
    let elected = |cluster: &Cluster| cluster.leader().is_some_and(|leader| leader != old);
    assert!(cluster.run_until(elected), "the others elect a leader");
    let new = cluster.leader().expect("it was just elected");
    for number in 0..10 {
        cluster.done(new, put(&format!("k{number}")));
    }
    assert!(cluster.node(new).commit() >= tail);
    let before = cluster.node(new).witness(old);
    // Introductions get through, and nothing else does.
    let last_term = cluster.node(old).entry(tail).expect("it is in the log").0;
    let claim = Introduction { last_term, last_index: tail, commit: 1, ..Introduction::default() };
    let claim = PeerMessage::Introduction(Box::new(claim));
    cluster.input(new, Input::Peer(old, claim));
    assert_eq!(cluster.node(new).witness(old), before);
    assert!(before < tail);
}

/// The level of the cluster, if all members agree on it.
fn level(cluster: &Cluster) -> Option<u32> {
    let mut levels: Vec<u32> = cluster.running().map(|(_, node)| node.feature_level()).collect();
    levels.dedup();
    (levels.len() == 1).then(|| levels[0])
}

#[test]
fn level_rises_when_all_members_support_it() {
    let mut cluster = Cluster::with_levels(3, 5, &[2, 2, 2]);
    cluster.elect();
    assert!(cluster.run_until(|cluster| level(cluster) == Some(2)));
}

#[test]
fn sole_member_raises_the_level_at_once() {
    let mut cluster = Cluster::with_levels(1, 5, &[2]);
    cluster.elect();
    assert_eq!(level(&cluster), Some(2));
}

#[test]
fn level_stays_while_one_member_supports_less() {
    // One of an older build, and one of this build that is set to level 1.
    for old_version in [1, 2] {
        let mut cluster = Cluster::with_levels(3, 5, &[2, 2, 1]);
        let leader = cluster.elect();
        cluster.kill(3);
        cluster.versions.insert(3, old_version);
        cluster.start(3);
        cluster.run(3_000 * MS);
        assert_eq!(level(&cluster), Some(1));
        // A member that is away does not count as one that supports it.
        cluster.kill(3);
        cluster.run(3_000 * MS);
        assert_eq!(level(&cluster), Some(1));
        cluster.versions.clear();
        cluster.levels.insert(3, 2);
        cluster.start(3);
        assert!(cluster.run_until(|cluster| level(cluster) == Some(2)), "from {leader}");
    }
}

#[test]
fn member_of_an_older_build_halts_after_the_raise() {
    let mut cluster = Cluster::with_levels(3, 5, &[2, 2, 2]);
    let leader = cluster.elect();
    assert!(cluster.run_until(|cluster| level(cluster) == Some(2)));
    let old = leader % 3 + 1;
    cluster.kill(old);
    cluster.versions.insert(old, 1);
    cluster.levels.insert(old, 1);
    cluster.may_halt = true;
    cluster.start(old);
    cluster.run(3_000 * MS);
    let why = cluster.halted.get(&old).expect("it cannot apply the log");
    assert_eq!(why.lines().count(), 3);
    assert!(why.contains("the cluster has feature level 2, this build supports 1"), "{why}");
}

/// A member of level 1 cannot read the command, and would stop at it for good.
#[test]
fn limits_are_not_logged_before_all_members_can_read_them() {
    let mut cluster = Cluster::with_levels(3, 5, &[2, 1, 1]);
    cluster.elect();
    cluster.input(cluster.leader().expect("it was elected"), Input::TransferTo(1));
    assert!(cluster.run_until(|cluster| cluster.leader() == Some(1)));
    let before = cluster.node(1).last_index();
    let change = ChangeLimits { ttl_max: Some(Millis(1_800_000)), ..ChangeLimits::default() };
    let refused = cluster.done(1, Action::ChangeLimits(change));
    assert_eq!(refused, Outcome::Rejected(Reason::FeatureLevelInvalid(2, 1)));
    cluster.run(200 * MS);
    assert_eq!(cluster.running().count(), 3);
    assert_eq!(cluster.node(1).last_index(), before, "nothing was logged");
}
