//! Entries without a majority have no effect, on whatever member they are.

use fencepost_core::command::{LeaseRef, Release};
use fencepost_core::{Action, LeaseId, LockName, Outcome, Token};
use fencepost_node::io::{Change, ChangeError, Input, ProposeError};
use fencepost_node::membership::Standing;
use raft::prelude::{Entry, MessageType};

use crate::messages::message;
use crate::replication::{all_agree, held_by};
use crate::support::{Cluster, MS, request};
use crate::{acquire, lease, put, renew};

/// Lease 1 holds the lock `a` and lease 2 waits for it. The token of the holder.
fn held_and_wanted(cluster: &mut Cluster, at: u64, ttl: u64) -> Token {
    cluster.done(at, lease(1, ttl));
    cluster.done(at, lease(2, 60_000));
    let Outcome::Acquired(grant) = cluster.done(at, acquire("a", 1)) else {
        panic!("the lock is free");
    };
    assert!(matches!(cluster.done(at, acquire("a", 2)), Outcome::Queued(_)));
    cluster.run(50 * MS);
    grant.token
}

fn release(token: Token) -> Action {
    let (name, lease) = (LockName::from("a"), LeaseRef::from(LeaseId(1)));
    Action::Release(Release { name, lease, token })
}

/// Five members, of which the leader and one other reach each other and none of the rest.
struct Parted {
    cluster: Cluster,
    token: Token,
    ours: [u64; 2],
    theirs: Vec<u64>,
}

fn parted() -> Parted {
    let mut cluster = Cluster::new(5, 7);
    let leader = cluster.elect();
    let token = held_and_wanted(&mut cluster, leader, 60_000);
    let mut theirs = cluster.others(leader);
    let ours = [leader, theirs.remove(0)];
    cluster.part(&ours, &theirs);
    Parted { cluster, token, ours, theirs }
}

impl Parted {
    /// Runs until both have an entry behind this index, and nothing of it is committed.
    fn until_both_have_more(&mut self, index: u64) {
        self.cluster.run(20 * MS);
        for id in self.ours {
            let node = self.cluster.node(id);
            assert!(node.last_index() > index && node.commit() <= index, "member {id}");
        }
    }

    /// Waits until the others have a leader that has done something, and heals the cluster. The
    /// leader.
    fn heal(&mut self) -> u64 {
        let elected = self.cluster.elect_among(&self.theirs);
        self.cluster.done(elected, put("after"));
        let (at, before) = (self.ours[1], self.cluster.node(elected).last_index());
        let term_at = |cluster: &Cluster, id| cluster.node(id).entry(before).map(|entry| entry.0);
        assert!(term_at(&self.cluster, at) < term_at(&self.cluster, elected));
        self.cluster.cut.clear();
        assert!(self.cluster.run_until(all_agree), "they stay apart");
        elected
    }
}

// Requirements: S1-046, S1-088, S1-089, S1-103.
#[test]
fn uncommitted_release_has_no_effect() {
    let mut parted = parted();
    let (token, [leader, follower]) = (parted.token, parted.ours);
    let last = parted.cluster.node(leader).last_index();
    let asked = parted.cluster.propose(leader, release(token));
    parted.until_both_have_more(last);
    for id in [leader, follower] {
        assert_eq!(held_by(&parted.cluster, id, "a"), [(LeaseId(1), token)], "member {id}");
    }
    let cluster = &mut parted.cluster;
    assert!(cluster.run_until(|cluster| cluster.answers.contains_key(&asked)), "no answer");
    assert_eq!(cluster.answers[&asked], Err(ProposeError::Indeterminate));
    let elected = parted.heal();
    for id in 1..=5 {
        assert_eq!(held_by(&parted.cluster, id, "a"), [(LeaseId(1), token)], "member {id}");
    }
    assert_eq!(parted.cluster.done(elected, release(token)), Outcome::Released);
    parted.cluster.run(50 * MS);
    for id in 1..=5 {
        let held = held_by(&parted.cluster, id, "a");
        assert!(matches!(held[..], [(LeaseId(2), _)]), "member {id}: {held:?}");
    }
}

// Requirements: S1-103, S1-112.
#[test]
fn uncommitted_removal_has_no_effect() {
    let mut parted = parted();
    let (victim, [leader, follower]) = (parted.theirs[0], parted.ours);
    let last = parted.cluster.node(leader).last_index();
    parted.cluster.input(leader, Input::Change(request(1), Change::Remove(victim)));
    parted.until_both_have_more(last);
    let is_voter = |cluster: &Cluster, id| {
        let members = cluster.node(id).membership();
        members.standing(victim) == Some(Standing::Voter) && members.is_settled
    };
    assert!(is_voter(&parted.cluster, leader) && is_voter(&parted.cluster, follower));
    let cluster = &mut parted.cluster;
    assert!(cluster.run_until(|cluster| cluster.changed.contains_key(&1)), "no answer");
    assert_eq!(cluster.changed[&1], Err(ChangeError::Indeterminate));
    parted.heal();
    assert!((1..=5).all(|id| is_voter(&parted.cluster, id)));
    assert!(parted.cluster.removed.is_empty(), "it has left");
    assert!(matches!(parted.cluster.done(victim, put("still here")), Outcome::Put(None)));
}

// Requirements: S1-103.
#[test]
fn diverged_members_agree_after_healing() {
    let mut parted = parted();
    let [leader, follower] = parted.ours;
    let last = parted.cluster.node(leader).last_index();
    for number in 0..5 {
        parted.cluster.propose(leader, put(&format!("lost{number}")));
        parted.cluster.run(MS);
    }
    parted.until_both_have_more(last + 4);
    let elected = parted.heal();
    for id in [leader, follower] {
        for index in last..=parted.cluster.node(elected).last_index() {
            let (ours, theirs) = (parted.cluster.node(id), parted.cluster.node(elected));
            assert_eq!(ours.entry(index), theirs.entry(index), "member {id} at {index}");
        }
    }
}

// Requirements: S1-011, S1-109.
#[test]
fn release_is_acknowledged_once_a_majority_has_it() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let token = held_and_wanted(&mut cluster, leader, 60_000);
    cluster.others(leader).iter().for_each(|&id| cluster.slow_disk(id, 300 * MS));
    let asked = cluster.propose(leader, release(token));
    cluster.run(295 * MS);
    assert!(!cluster.answers.contains_key(&asked), "one of three is no majority");
    assert_eq!(held_by(&cluster, leader, "a"), [(LeaseId(1), token)]);
    cluster.run(20 * MS);
    let answer = cluster.answers[&asked].clone().expect("two of three are one");
    assert_eq!(answer.outcome, Outcome::Released);
    let held = held_by(&cluster, leader, "a");
    assert!(matches!(held[..], [(LeaseId(2), _)]), "the next one has it now: {held:?}");
}

// Requirements: S4-004, S4-034.
#[test]
fn minority_neither_grants_nor_releases() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let token = held_and_wanted(&mut cluster, leader, 60_000);
    cluster.isolate(leader);
    let asked = [acquire("b", 2), release(token)].map(|action| cluster.propose(leader, action));
    cluster.run(5_000 * MS);
    for request in asked {
        assert_eq!(cluster.answers[&request], Err(ProposeError::Indeterminate));
    }
    let refused = [acquire("b", 2), release(token)].map(|action| cluster.propose(leader, action));
    for request in refused {
        assert_eq!(cluster.answers[&request], Err(ProposeError::NoLeader));
    }
    assert_eq!(held_by(&cluster, leader, "a"), [(LeaseId(1), token)]);
    assert_eq!(held_by(&cluster, leader, "b"), []);
}

/// The holder goes on with the leader that the majority has elected.
// Requirements: S4-034.
#[test]
fn holder_on_the_majority_side_keeps_its_lock() {
    const TTL: u64 = 5_000;
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let token = held_and_wanted(&mut cluster, leader, TTL);
    let others = cluster.others(leader);
    cluster.isolate(leader);
    let successor = cluster.elect_among(&others);
    let until = cluster.now + 3 * TTL * MS;
    while cluster.now < until {
        assert!(matches!(cluster.done(successor, renew(1)), Outcome::LeasesRenewed(_)));
        cluster.run(500 * MS);
        for &id in &others {
            assert_eq!(held_by(&cluster, id, "a"), [(LeaseId(1), token)], "member {id}");
        }
    }
    cluster.cut.clear();
    assert!(cluster.run_until(all_agree), "they stay apart");
    assert_eq!(held_by(&cluster, leader, "a"), [(LeaseId(1), token)]);
}

/// The holder keeps on sending renewals, to a leader that has lost its majority.
// Requirements: S0-079, S4-034, S4-039.
#[test]
fn holder_on_the_minority_side_loses_its_lock() {
    const TTL: u64 = 5_000;
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    held_and_wanted(&mut cluster, leader, TTL);
    assert!(matches!(cluster.done(leader, renew(1)), Outcome::LeasesRenewed(_)));
    let (renewed, others) = (cluster.now, cluster.others(leader));
    cluster.isolate(leader);
    let mut renewals = Vec::new();
    let next_has_it = |cluster: &Cluster| {
        others.iter().any(|&id| matches!(held_by(cluster, id, "a")[..], [(LeaseId(2), _)]))
    };
    while !next_has_it(&cluster) {
        renewals.push(cluster.propose(leader, renew(1)));
        assert!(cluster.now < renewed + 4 * TTL * MS, "it never loses it");
        for _ in 0..500 {
            cluster.run(MS);
            let granted_at = next_has_it(&cluster).then_some(cluster.now);
            assert!(granted_at.is_none_or(|at| at >= renewed + TTL * MS), "two would hold it");
        }
    }
    let is_done = |request: &u64| cluster.answers.get(request).is_some_and(Result::is_ok);
    assert!(!renewals.iter().any(is_done), "a minority has renewed a lease");
    cluster.cut.clear();
    assert!(cluster.run_until(all_agree), "they stay apart");
    let held = held_by(&cluster, leader, "a");
    assert!(matches!(held[..], [(LeaseId(2), _)]), "{held:?}");
}

// Requirements: S4-016.
#[test]
fn entry_that_cannot_be_read_halts_the_member() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.done(leader, put("k"));
    cluster.run(50 * MS);
    let follower = cluster.others(leader)[0];
    cluster.isolate(follower);
    let (node, term) = (cluster.node(follower), cluster.node(leader).role().term);
    let (index, hash) = (node.last_index(), node.machine().state().hash());
    let entry = Entry { index: index + 1, term, data: vec![0xff; 4], ..Entry::default() };
    let mut append = message(MessageType::MsgAppend, leader, follower, term);
    append.log_term = node.entry(index).expect("it is the last one").0;
    (append.index, append.commit, append.entries) = (index, index + 1, vec![entry]);
    cluster.may_halt = true;
    cluster.deliver(&append);
    cluster.run(20 * MS);
    let why = cluster.halted.get(&follower).expect("it cannot go on");
    assert!(why.contains(&format!("entry {}", index + 1)), "{why}");
    assert_eq!(why.lines().count(), 3, "{why}");
    let machine = cluster.node(follower).machine();
    assert_eq!((machine.applied(), machine.state().hash()), (index, hash), "nothing is done");
}
