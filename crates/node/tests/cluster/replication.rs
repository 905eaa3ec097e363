//! How entries get from the leader to the others, and when they count as done.

use std::collections::BTreeSet;

use fencepost_core::command::{AcquireMany, LeaseRef, Mode, ReleaseMany};
use fencepost_core::{Action, LeaseId, LockName, Outcome, Token};
use fencepost_node::io::{Input, ProposeError};
use raft::prelude::MessageType;

use crate::messages::message;
use crate::support::{Cluster, MS};
use crate::{acquire, every_key, hashes_agree, lease, put};

/// The holders of a lock in the eyes of a member.
pub(crate) fn held_by(cluster: &Cluster, id: u64, name: &str) -> Vec<(LeaseId, Token)> {
    let view = cluster.node(id).machine().state().lock(&LockName::from(name), 0);
    view.holders.iter().map(|holder| (holder.lease, holder.token)).collect()
}

pub(crate) fn keys(cluster: &Cluster, id: u64) -> u64 {
    cluster.node(id).machine().state().range(&every_key()).count
}

/// Whether all members have the same log and have applied the same of it.
pub(crate) fn all_agree(cluster: &Cluster) -> bool {
    let ends: BTreeSet<u64> = cluster.running().map(|(_, node)| node.last_index()).collect();
    let applied: BTreeSet<u64> =
        cluster.running().map(|(_, node)| node.machine().applied()).collect();
    ends == applied && ends.len() == 1 && hashes_agree(cluster)
}

// Requirements: S1-004.
#[test]
fn two_of_three_members_serve_and_one_does_not() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let others = cluster.others(leader);
    cluster.kill(others[0]);
    for (id, number) in [(leader, 1), (others[1], 2)] {
        cluster.done(id, lease(number, 60_000));
        let granted = cluster.done(id, acquire(&format!("lock{number}"), number));
        assert!(matches!(granted, Outcome::Acquired(_)), "{granted:?}");
        let read = cluster.read(id);
        assert!(cluster.run_until(|cluster| cluster.reads.contains(&read)), "no read");
    }
    cluster.kill(others[1]);
    let (write, read) = (cluster.propose(leader, put("alone")), cluster.read(leader));
    cluster.run(5_000 * MS);
    assert_eq!(cluster.answers[&write], Err(ProposeError::Indeterminate));
    assert!(!cluster.reads.contains(&read), "one of three serves reads");
    // What a member without a leader refuses is not kept for later.
    let refused = cluster.propose(leader, put("refused"));
    assert_eq!(cluster.answers[&refused], Err(ProposeError::NoLeader));
    cluster.start(others[0]);
    let elected = cluster.elect();
    cluster.done(elected, put("after"));
    let found = cluster.node(elected).machine().state().range(&every_key());
    assert!(found.kvs.iter().all(|kv| kv.key.to_string() != "refused"));
}

// Requirements: S1-009, S1-081.
#[test]
fn locks_are_granted_and_replicated_by_every_member() {
    let mut cluster = Cluster::new(3, 7);
    cluster.elect();
    let mut granted = Vec::new();
    for id in 1..=3 {
        let number = u64::cast_signed(id);
        cluster.done(id, lease(number, 60_000));
        let outcome = cluster.done(id, acquire(&format!("lock{id}"), number));
        let Outcome::Acquired(grant) = outcome else { panic!("{outcome:?}") };
        granted.push((id, LeaseId(number), grant.token));
    }
    cluster.run(50 * MS);
    for at in 1..=3 {
        for &(id, lease, token) in &granted {
            assert_eq!(held_by(&cluster, at, &format!("lock{id}")), [(lease, token)]);
        }
    }
}

/// Acquires a lock in a cluster of five in which two members have quick disks: the leader is one of
/// them, or is not.
fn acquire_on_two_quick_disks_of_five(leader_is_quick: bool) {
    let mut cluster = Cluster::new(5, 7);
    let leader = cluster.elect();
    cluster.done(leader, lease(1, 60_000));
    cluster.run(50 * MS);
    let mut slow = cluster.others(leader);
    slow.remove(0);
    if !leader_is_quick {
        slow[0] = leader;
    }
    slow.iter().for_each(|&id| cluster.slow_disk(id, 300 * MS));
    let request = cluster.propose(leader, acquire("a", 1));
    cluster.run(295 * MS);
    assert!(!cluster.answers.contains_key(&request), "two of five disks are no majority");
    assert_eq!(held_by(&cluster, leader, "a"), []);
    cluster.run(20 * MS);
    let answer = cluster.answers[&request].clone().expect("three of five are one");
    let Outcome::Acquired(grant) = answer.outcome else { panic!("{answer:?}") };
    // None of the five has more than its disk.
    (1..=5).for_each(|id| cluster.kill(id));
    (1..=5).for_each(|id| cluster.start(id));
    let elected = cluster.elect();
    let is_held = |cluster: &Cluster| held_by(cluster, elected, "a") == [(LeaseId(1), grant.token)];
    assert!(cluster.run_until(is_held), "it is lost");
}

// Requirements: S1-010, S1-011, S1-013, S1-060, S1-069, S1-080, S4-003.
#[test]
fn acquire_is_answered_once_a_majority_has_it_on_disk() {
    acquire_on_two_quick_disks_of_five(true);
    acquire_on_two_quick_disks_of_five(false);
}

// Requirements: S0-098, S1-011, S1-046, S1-050, S1-060.
#[test]
fn write_is_appended_replicated_committed_then_applied() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let others = cluster.others(leader);
    cluster.run(50 * MS);
    others.iter().for_each(|&id| cluster.slow_disk(id, 100 * MS));
    let index = cluster.node(leader).last_index() + 1;
    let request = cluster.propose(leader, put("k"));
    assert_eq!(cluster.node(leader).last_index(), index, "the leader appends it");
    assert!(others.iter().all(|&id| cluster.node(id).last_index() < index));
    cluster.run(20 * MS);
    for (id, node) in cluster.running() {
        assert_eq!(node.last_index(), index, "member {id}: it is replicated");
        assert!(node.commit() < index, "member {id}: it is committed too early");
        assert_eq!(keys(&cluster, id), 0, "member {id}: it is applied too early");
    }
    assert!(!cluster.answers.contains_key(&request));
    cluster.run(100 * MS);
    assert!(cluster.node(leader).commit() >= index && cluster.answers.contains_key(&request));
    cluster.run(20 * MS);
    assert!(others.iter().all(|&id| keys(&cluster, id) == 1), "all apply it");
}

// Requirements: S1-010.
#[test]
fn entries_carry_the_term_of_their_leader() {
    let mut cluster = Cluster::new(3, 7);
    let first = cluster.elect();
    cluster.done(first, put("a"));
    let (index, term) = (cluster.node(first).last_index(), cluster.node(first).role().term);
    let others = cluster.others(first);
    cluster.input(first, Input::TransferTo(others[0]));
    let second = cluster.elect_among(&others);
    cluster.done(second, put("b"));
    let (later, next) = (cluster.node(second).last_index(), cluster.node(second).role().term);
    assert!(next > term && later > index);
    assert!(cluster.run_until(all_agree));
    for (id, node) in cluster.running() {
        let term_of = |index| node.entry(index).expect("it is in the log").0;
        assert_eq!((term_of(index), term_of(later)), (term, next), "member {id}");
    }
}

// Requirements: S1-040, S1-041, S1-045.
#[test]
fn idle_leader_sends_heartbeats_and_a_busy_one_entries() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.run(200 * MS);
    let mark = cluster.sent.len();
    cluster.run(1_000 * MS);
    let appends = cluster.sent_since(mark, MessageType::MsgAppend);
    assert!(appends.is_empty(), "there is nothing to send: {appends:?}");
    let heartbeats = cluster.sent_since(mark, MessageType::MsgHeartbeat);
    let (index, mark) = (cluster.node(leader).last_index() + 1, cluster.sent.len());
    for to in cluster.others(leader) {
        let count = heartbeats.iter().filter(|one| (one.from, one.to) == (leader, to)).count();
        assert!((9..=11).contains(&count), "{count} heartbeats in a second to member {to}");
    }
    cluster.propose(leader, put("k"));
    cluster.run(20 * MS);
    for to in cluster.others(leader) {
        let appends = cluster.sent_since(mark, MessageType::MsgAppend);
        let mut to_it = appends.iter().filter(|one| (one.from, one.to) == (leader, to));
        let has_it = to_it.any(|one| one.entries.iter().any(|entry| entry.index == index));
        assert!(has_it, "member {to} is sent nothing");
    }
}

/// A member that was cut off is back. What it refused, and from where it is sent what it lacks: only
/// one refusal is allowed.
fn refusal(cluster: &mut Cluster, leader: u64, away: u64) -> (raft::prelude::Message, u64) {
    let mark = cluster.sent.len();
    cluster.cut.clear();
    assert!(cluster.run_until(all_agree), "it never catches up");
    let answers = cluster.sent_since(mark, MessageType::MsgAppendResponse);
    let refused: Vec<_> =
        answers.into_iter().filter(|one| one.from == away && one.reject).cloned().collect();
    let [refusal] = &refused[..] else { panic!("not one refusal: {refused:?}") };
    let appends = cluster.sent_since(mark, MessageType::MsgAppend);
    let mut to_it = appends.iter().filter(|one| (one.from, one.to) == (leader, away));
    to_it.find(|one| one.index == refusal.index).expect("this was refused");
    let next = to_it.next().expect("it is sent something else");
    (refusal.clone(), next.index)
}

// Requirements: S1-042, S1-049, S1-065.
#[test]
fn follower_with_a_short_log_says_where_it_ends() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let away = cluster.others(leader)[0];
    cluster.done(leader, put("before"));
    cluster.run(50 * MS);
    cluster.isolate(away);
    for number in 0..20 {
        cluster.done(leader, put(&format!("k{number}")));
    }
    let end = cluster.node(away).last_index();
    assert!(cluster.node(leader).last_index() >= end + 20);
    let term = cluster.node(away).entry(end).expect("it is its last one").0;
    let (refusal, next) = refusal(&mut cluster, leader, away);
    assert_eq!((refusal.reject_hint, refusal.log_term), (end, term));
    assert_eq!(next, end, "all that it lacks follows");
}

/// A member with six entries that no other one has, the last entry before them, and a leader of a
/// later term which has so many others there, and does not know yet how far the two agree.
fn diverged(entries: u64) -> (Cluster, u64, u64, u64) {
    let mut cluster = Cluster::new(3, 7);
    let away = cluster.elect();
    let others = cluster.others(away);
    cluster.done(away, put("before"));
    cluster.run(50 * MS);
    let agreed = cluster.node(away).last_index();
    cluster.isolate(away);
    for number in 0..6 {
        cluster.propose(away, put(&format!("lost{number}")));
        cluster.run(MS);
    }
    assert_eq!(cluster.node(away).last_index(), agreed + 6);
    let first = cluster.elect_among(&others);
    for number in 0..entries {
        cluster.done(first, put(&format!("kept{number}")));
    }
    let heir = others.into_iter().find(|&id| id != first).expect("there are two");
    cluster.input(first, Input::TransferTo(heir));
    let leader = cluster.elect_among(&[heir]);
    cluster.done(leader, put("kept"));
    (cluster, leader, away, agreed)
}

// Requirements: S1-042, S1-044, S1-049, S1-065.
#[test]
fn conflicting_entries_are_replaced_after_one_refusal() {
    for entries in [1, 20] {
        let (mut cluster, leader, away, agreed) = diverged(entries);
        let term_of =
            |cluster: &Cluster, id, index| cluster.node(id).entry(index).map(|(term, ..)| term);
        let (old, new) =
            (term_of(&cluster, away, agreed + 1), term_of(&cluster, leader, agreed + 1));
        assert!(old < new, "they conflict right there: {old:?} and {new:?}");
        let (refusal, next) = refusal(&mut cluster, leader, away);
        assert_eq!(Some(refusal.log_term), old, "it names the term of what it has");
        assert!((agreed + 1..=agreed + 6).contains(&refusal.reject_hint), "{refusal:?}");
        assert_eq!(next, agreed, "the leader goes back to before that term in one step");
        for index in agreed..=cluster.node(leader).last_index() {
            assert_eq!(cluster.node(away).entry(index), cluster.node(leader).entry(index));
        }
        assert_eq!(keys(&cluster, away), entries + 2, "no entry of the earlier term is left");
    }
}

/// Makes a member the leader and cuts it off before another one has an entry of its term. The term.
fn leader_of_an_unknown_term(cluster: &mut Cluster, id: u64) -> u64 {
    let (old, mark) = (cluster.elect(), cluster.sent.len());
    let term = cluster.node(old).role().term;
    cluster.deliver(&message(MessageType::MsgTimeoutNow, old, id, term));
    while cluster.sent_since(mark, MessageType::MsgRequestVoteResponse).is_empty() {
        cluster.run(MS / 10);
    }
    cluster.cut.extend(cluster.others(id).iter().map(|&other| (id, other)));
    while !cluster.node(id).leads() {
        cluster.run(MS / 10);
    }
    cluster.isolate(id);
    cluster.node(id).role().term
}

// Requirements: S1-049, S1-065.
#[test]
fn conflict_in_a_term_that_the_leader_lacks_costs_one_refusal() {
    for entries in [1, 20] {
        let mut cluster = Cluster::new(3, 7);
        let first = cluster.elect();
        cluster.done(first, put("before"));
        cluster.run(200 * MS);
        let (away, agreed) = (cluster.others(first)[0], cluster.node(first).last_index());
        let term = leader_of_an_unknown_term(&mut cluster, away);
        for number in 0..5 {
            cluster.propose(away, put(&format!("lost{number}")));
            cluster.run(MS);
        }
        assert_eq!(cluster.node(away).last_index(), agreed + 6);
        let leader = cluster.elect_among(&cluster.others(away));
        for number in 0..entries {
            cluster.done(leader, put(&format!("kept{number}")));
        }
        let heir = cluster.others(leader).into_iter().find(|&id| id != away);
        cluster.input(leader, Input::TransferTo(heir.expect("there are three")));
        let leader = cluster.elect_among(heir.as_slice());
        cluster.done(leader, put("kept"));
        assert!(!has_term(&cluster, leader, term), "it has such an entry");
        let (refusal, next) = refusal(&mut cluster, leader, away);
        assert_eq!(refusal.log_term, term, "it names the term of what it has");
        assert!((agreed + 1..=agreed + 6).contains(&refusal.reject_hint), "{refusal:?}");
        assert_eq!(next, agreed, "the leader goes back to the last entry of an earlier term");
        assert_eq!(keys(&cluster, away), entries + 2);
    }
}

fn has_term(cluster: &Cluster, id: u64, term: u64) -> bool {
    let node = cluster.node(id);
    (1..=node.last_index()).filter_map(|index| node.entry(index)).any(|entry| entry.0 == term)
}

// Requirements: S1-059.
#[test]
fn reads_add_nothing_to_the_log() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.done(leader, put("k"));
    cluster.run(200 * MS);
    let (before, last) = (cluster.entries_persisted, cluster.node(leader).last_index());
    for id in 1..=3 {
        let reads: Vec<u64> = (0..10).map(|_| cluster.read(id)).collect();
        let served = |cluster: &Cluster| reads.iter().all(|read| cluster.reads.contains(read));
        assert!(cluster.run_until(served), "no read at member {id}");
    }
    assert_eq!(cluster.entries_persisted, before);
    assert!(cluster.running().all(|(_, node)| node.last_index() == last));
}

// Requirements: S4-032.
#[test]
fn replicated_acquire_survives_a_leader_that_never_committed_it() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let others = cluster.others(leader);
    cluster.done(leader, lease(1, 60_000));
    cluster.run(50 * MS);
    // The others get everything, and their answers get lost.
    cluster.cut.extend(others.iter().map(|&id| (id, leader)));
    let index = cluster.node(leader).last_index() + 1;
    let request = cluster.propose(leader, acquire("a", 1));
    cluster.run(20 * MS);
    assert!(cluster.running().all(|(_, node)| node.last_index() == index && node.commit() < index));
    assert!(!cluster.answers.contains_key(&request));
    cluster.kill(leader);
    let elected = cluster.elect_among(&others);
    cluster.run(20 * MS);
    let held = held_by(&cluster, elected, "a");
    assert!(matches!(held[..], [(LeaseId(1), _)]), "{held:?}");
    // The client does not know. It asks the new leader once more, and gets the same grant.
    let again = cluster.done(elected, acquire("a", 1));
    let (Outcome::Acquired(grant) | Outcome::Renewed(grant)) = again else { panic!("{again:?}") };
    assert_eq!(held_by(&cluster, elected, "a"), [(LeaseId(1), grant.token)]);
    assert_eq!(held[0].1, grant.token);
}

// Requirements: S4-032.
#[test]
fn acquire_that_no_other_member_has_is_lost_and_repeated() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let others = cluster.others(leader);
    cluster.done(leader, lease(1, 60_000));
    cluster.run(50 * MS);
    cluster.isolate(leader);
    let request = cluster.propose(leader, acquire("a", 1));
    cluster.run(20 * MS);
    cluster.kill(leader);
    let elected = cluster.elect_among(&others);
    cluster.run(20 * MS);
    assert!(!cluster.answers.contains_key(&request));
    assert_eq!(held_by(&cluster, elected, "a"), []);
    let again = cluster.done(elected, acquire("a", 1));
    let Outcome::Acquired(grant) = again else { panic!("{again:?}") };
    cluster.cut.clear();
    cluster.start(leader);
    assert!(cluster.run_until(all_agree), "the old leader differs");
    assert_eq!(held_by(&cluster, leader, "a"), [(LeaseId(1), grant.token)]);
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How many of the locks a member takes for held, at each moment of the next ten milliseconds.
fn watch_names(cluster: &mut Cluster) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        cluster.run(MS / 10);
        for id in 1..=3 {
            seen.insert(NAMES.iter().filter(|name| !held_by(cluster, id, name).is_empty()).count());
        }
    }
    seen
}

// Requirements: S0-098.
#[test]
fn operations_are_applied_whole_on_every_member() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.done(leader, lease(1, 60_000));
    let asked = cluster.others(leader)[0];
    let lease = LeaseRef::from(LeaseId(1));
    for _ in 0..5 {
        let locks = NAMES.map(|name| (LockName::from(name), Mode::Exclusive)).to_vec();
        let all = AcquireMany { locks, lease, ..AcquireMany::default() };
        let request = cluster.propose(asked, Action::AcquireMany(all));
        assert_eq!(watch_names(&mut cluster), [0, NAMES.len()].into(), "half of it was seen");
        let answer = cluster.answers[&request].clone().expect("it is done");
        let Outcome::AcquiredMany(grant) = answer.outcome else { panic!("{answer:?}") };
        assert!(cluster.run_until(all_agree), "the replicas differ");
        let names = NAMES.map(LockName::from).to_vec();
        let release = ReleaseMany { names, lease, token: grant.token };
        cluster.propose(asked, Action::ReleaseMany(release));
        assert_eq!(watch_names(&mut cluster), [0, NAMES.len()].into(), "half of it was seen");
        assert!(cluster.run_until(all_agree), "the replicas differ");
    }
}
