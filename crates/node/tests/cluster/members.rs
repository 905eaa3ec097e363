//! Changes of members.

use fencepost_core::command::Put;
use fencepost_core::{Action, Key, Outcome};
use fencepost_node::io::{Change, ChangeError, Input, PeerMessage};
use fencepost_node::membership::Standing;

use crate::support::{Cluster, MS, named, request};

fn put(key: &str) -> Action {
    Action::Put(Put { key: Key::from(key), ..Put::default() })
}

/// Asks whoever leads until the change is done.
pub(crate) fn insist(cluster: &mut Cluster, change: &Change) {
    let passing = |error: &ChangeError| {
        matches!(
            error,
            ChangeError::Pending
                | ChangeError::NotCaughtUp { .. }
                | ChangeError::HandingOver
                | ChangeError::NotLeader { .. }
                | ChangeError::Indeterminate
        )
    };
    for _ in 0..100 {
        let leader = cluster.elect();
        match cluster.change(leader, change.clone()) {
            Ok(()) => return,
            Err(error) => assert!(passing(&error), "{change:?}: {error}"),
        }
        cluster.run(100 * MS);
    }
    panic!("{change:?} never came to pass");
}

pub(crate) fn join(cluster: &mut Cluster, id: u64) {
    let member = cluster.newcomer(id);
    insist(cluster, &Change::Add(member));
    insist(cluster, &Change::Promote(id));
}

// Requirements: S1-011.
#[test]
fn one_node_grows_to_three_and_loses_its_founder() {
    let mut cluster = Cluster::new(1, 3);
    let founder = cluster.elect();
    assert!(matches!(cluster.done(founder, put("a")), Outcome::Put(None)));
    join(&mut cluster, 2);
    join(&mut cluster, 3);
    assert_eq!(cluster.node(founder).membership().voters(), [1, 2, 3].into());
    // The leader is asked to take itself out: it hands over, and its successor does it.
    insist(&mut cluster, &Change::Remove(founder));
    assert!(cluster.run_until(|cluster| cluster.removed.contains(&founder)));
    cluster.kill(founder);
    let leader = cluster.elect();
    assert_ne!(leader, founder);
    assert!(matches!(cluster.done(leader, put("b")), Outcome::Put(None)));
    assert_eq!(cluster.node(leader).membership().voters(), [2, 3].into());
}

/// The only voter is elected by itself. After a power cut it would be elected in the same term again,
/// and say something else in it to a member that cannot tell the difference.
#[test]
fn a_sole_voter_tells_nobody_of_a_term_that_its_disk_does_not_know() {
    let mut cluster = Cluster::new(1, 5);
    let founder = cluster.elect();
    let newcomer = cluster.newcomer(2);
    insist(&mut cluster, &Change::Add(newcomer));
    let is_even = |cluster: &Cluster| {
        let applied = |id| cluster.node(id).machine().applied();
        applied(founder) == applied(2)
    };
    assert!(cluster.run_until(is_even));
    cluster.kill(founder);
    cluster.start(founder);
    cluster.slow_disk(founder, 60_000 * MS);
    assert!(cluster.run_until(|cluster| cluster.node(founder).leads()));
    let term = cluster.node(founder).role().term;
    cluster.propose(founder, put("forgotten"));
    cluster.run(1_000 * MS);
    assert!(cluster.node(2).role().term < term, "it was told of a term that may never have been");
    cluster.kill(founder);
    cluster.slow_disk(founder, MS);
    cluster.start(founder);
    assert_eq!(cluster.elect(), founder);
    assert!(matches!(cluster.done(founder, put("a")), Outcome::Put(None)));
    assert!(cluster.run_until(is_even));
    let last = cluster.node(founder).last_index();
    assert_eq!(cluster.node(founder).entry(last), cluster.node(2).entry(last));
}

#[test]
fn a_lost_disk_is_replaced_under_a_new_number() {
    let mut cluster = Cluster::new(3, 4);
    let leader = cluster.elect();
    let lost = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.kill(lost);
    let member = cluster.newcomer(4);
    insist(&mut cluster, &Change::Add(member));
    insist(&mut cluster, &Change::Replace { old: lost, new: 4 });
    let leader = cluster.elect();
    assert!(!cluster.node(leader).membership().is_joint(), "it is between the old and the new");
    let members = cluster.node(leader).membership();
    assert_eq!(members.standing(4), Some(Standing::Voter));
    assert_eq!(members.standing(lost), None);
    assert!(members.removed.contains(&lost));
    // The old disk comes back after all. It is told that it is no member any more.
    cluster.start(lost);
    assert!(cluster.run_until(|cluster| cluster.removed.contains(&lost)));
}

// Requirements: S1-029.
#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let follower = (1..=3).find(|&id| id != leader).expect("there are three");
    let ask = |cluster: &mut Cluster, change| cluster.change(leader, change);
    let not_leader = ChangeError::NotLeader { leader: Some(leader) };
    assert_eq!(cluster.change(follower, Change::Promote(1)), Err(not_leader));
    assert_eq!(ask(&mut cluster, Change::Promote(9)), Err(ChangeError::UnknownMember(9)));
    assert_eq!(ask(&mut cluster, Change::Remove(9)), Err(ChangeError::UnknownMember(9)));
    let mut member = named(4);
    member.name = "n1".to_owned();
    let taken = ChangeError::NameTaken("n1".to_owned());
    assert_eq!(ask(&mut cluster, Change::Add(member.clone())), Err(taken));
    member.name = "x".repeat(256);
    assert_eq!(ask(&mut cluster, Change::Add(member)), Err(ChangeError::Malformed));
    // A member that never answers does not vote.
    assert_eq!(ask(&mut cluster, Change::Add(named(4))), Ok(()));
    let refused = ask(&mut cluster, Change::Promote(4));
    assert!(matches!(refused, Err(ChangeError::NotCaughtUp { .. })), "{refused:?}");
    assert_eq!(ask(&mut cluster, Change::Add(named(4))), Ok(()), "the same again changes nothing");
    assert_eq!(ask(&mut cluster, Change::Remove(4)), Ok(()));
    assert_eq!(ask(&mut cluster, Change::Remove(4)), Ok(()), "the same again changes nothing");
    assert_eq!(ask(&mut cluster, Change::Add(named(4))), Err(ChangeError::WasRemoved(4)));
    // With one of three gone, taking out one of the other two would leave one of two.
    cluster.kill(follower);
    cluster.run(2_000 * MS);
    let other = (1..=3).find(|&id| id != leader && id != follower).expect("there are three");
    assert_eq!(ask(&mut cluster, Change::Remove(other)), Err(ChangeError::QuorumAtRisk));
    assert_eq!(ask(&mut cluster, Change::Remove(follower)), Ok(()));
}

#[test]
fn the_last_voter_stays() {
    let mut cluster = Cluster::new(1, 8);
    let leader = cluster.elect();
    assert_eq!(cluster.change(leader, Change::Remove(leader)), Err(ChangeError::LastVoter));
}

#[test]
fn a_member_that_moved_keeps_its_standing() {
    let mut cluster = Cluster::new(3, 9);
    let leader = cluster.elect();
    let mut moved = named(2);
    moved.peer = "elsewhere:7421".to_owned();
    assert_eq!(cluster.change(leader, Change::Add(moved.clone())), Ok(()));
    let members = cluster.node(leader).membership();
    assert_eq!(members.standing(2), Some(Standing::Voter));
    assert_eq!(members.members.get(&2), Some(&moved));
}

// Requirements: S1-013.
#[test]
fn members_survive_restarts_with_and_without_a_snapshot() {
    let mut cluster = Cluster::new(1, 10);
    cluster.elect();
    join(&mut cluster, 2);
    join(&mut cluster, 3);
    for id in 1..=3 {
        cluster.kill(id);
        cluster.start(id);
    }
    let leader = cluster.elect();
    assert!(cluster.run_until(|cluster| cluster.node(leader).membership().voters().len() == 3));
    drop(cluster.save(leader));
    for id in 1..=3 {
        cluster.kill(id);
        cluster.start(id);
    }
    let leader = cluster.elect();
    assert_eq!(cluster.node(leader).membership().voters(), [1, 2, 3].into());
    assert_eq!(cluster.node(leader).membership().members.get(&3), Some(&named(3)));
}

#[test]
fn a_change_that_a_lost_leader_had_in_its_log_is_called_unknown() {
    let mut cluster = Cluster::new(3, 11);
    let leader = cluster.elect();
    cluster.isolate(leader);
    let answer = cluster.change(leader, Change::Add(named(4)));
    assert_eq!(answer, Err(ChangeError::Indeterminate));
    cluster.input(leader, Input::Tick);
}

#[test]
fn a_newcomer_that_is_told_to_campaign_does_not_elect_itself() {
    let mut cluster = Cluster::new(1, 12);
    let leader = cluster.elect();
    cluster.newcomer(2);
    cluster.input(2, Input::Campaign);
    cluster.run(3_000 * MS);
    assert!(!cluster.node(2).leads());
    assert_eq!(cluster.leader(), Some(leader));
}

#[test]
fn two_become_one_and_the_one_restarts() {
    let mut cluster = Cluster::new(2, 5);
    let leader = cluster.elect();
    let other = 3 - leader;
    insist(&mut cluster, &Change::Remove(other));
    assert!(cluster.run_until(|cluster| cluster.removed.contains(&other)));
    cluster.kill(other);
    cluster.kill(leader);
    cluster.start(leader);
    assert_eq!(cluster.elect(), leader, "it waits for a vote that never comes");
}

#[test]
fn a_leader_that_is_taken_out_tells_the_last_member_before_it_goes() {
    let mut shown = false;
    for seed in 1..40 {
        let mut cluster = Cluster::new(2, seed);
        let leader = cluster.elect();
        let heir = 3 - leader;
        // The heir gets the change that takes it out, but nobody hears that it has it.
        cluster.cut.insert((heir, leader));
        cluster.input(leader, Input::Change(request(1), Change::Remove(heir)));
        assert!(cluster.run_until(|cluster| !cluster.node(leader).leads()));
        cluster.kill(leader);
        cluster.cut.clear();
        cluster.start(leader);
        shown |= cluster.run_until(|cluster| cluster.leader() == Some(heir));
        assert!(cluster.run_until(|cluster| cluster.removed.contains(&heir)), "seed {seed}");
        cluster.kill(heir);
        assert_eq!(cluster.elect(), leader, "seed {seed}: it was never told");
    }
    assert!(shown, "the one that is taken out never led");
}

#[test]
fn replacing_a_member_by_itself_changes_nothing() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let others: Vec<u64> = (1..=3).filter(|&id| id != leader).collect();
    cluster.kill(others[0]);
    cluster.run(2_000 * MS);
    let itself = Change::Replace { old: others[1], new: others[1] };
    assert_eq!(cluster.change(leader, itself), Ok(()));
    assert_eq!(cluster.node(leader).membership().voters().len(), 3);
}

#[test]
fn nobody_is_sent_away_before_those_who_remain_cannot_forget_it() {
    let mut shown = false;
    for moment in 0..120 {
        let mut cluster = Cluster::new(2, 5);
        let leader = cluster.elect();
        let other = 3 - leader;
        cluster.copies = true;
        cluster.slow_disk(leader, 20 * MS);
        cluster.input(leader, Input::Change(request(1), Change::Remove(other)));
        cluster.run(moment * MS);
        cluster.kill(leader);
        shown |= cluster.removed.contains(&other);
        if cluster.removed.contains(&other) || cluster.changed.contains_key(&1) {
            cluster.kill(other);
        }
        cluster.start(leader);
        cluster.elect();
    }
    assert!(shown, "it was never sent away");
}

#[test]
fn a_learner_that_was_taken_out_while_it_was_away_is_told() {
    let mut cluster = Cluster::new(3, 14);
    cluster.elect();
    let member = cluster.newcomer(4);
    insist(&mut cluster, &Change::Add(member));
    assert!(cluster.run_until(|cluster| cluster.node(4).membership().contains(4)));
    cluster.kill(4);
    insist(&mut cluster, &Change::Remove(4));
    cluster.start(4);
    assert!(cluster.run_until(|cluster| cluster.removed.contains(&4)), "it was never told");
}

#[test]
fn a_learner_with_an_empty_log_has_not_caught_up() {
    let mut cluster = Cluster::new(3, 15);
    let leader = cluster.elect();
    assert_eq!(cluster.change(leader, Change::Add(named(4))), Ok(()));
    // It talks, but it has nothing.
    cluster.input(leader, Input::Peer(4, PeerMessage::AmIAMember));
    let refused = cluster.change(leader, Change::Promote(4));
    assert!(matches!(refused, Err(ChangeError::NotCaughtUp { .. })), "{refused:?}");
}

#[test]
fn a_replacement_that_is_asked_for_again_is_done() {
    let mut cluster = Cluster::new(3, 16);
    let leader = cluster.elect();
    let old = (1..=3).find(|&id| id != leader).expect("there are three");
    let member = cluster.newcomer(4);
    insist(&mut cluster, &Change::Add(member));
    insist(&mut cluster, &Change::Replace { old, new: 4 });
    let leader = cluster.elect();
    assert_eq!(cluster.change(leader, Change::Replace { old, new: 4 }), Ok(()));
}

#[test]
fn the_only_voter_can_be_replaced() {
    let mut cluster = Cluster::new(1, 17);
    cluster.elect();
    let member = cluster.newcomer(2);
    insist(&mut cluster, &Change::Add(member));
    insist(&mut cluster, &Change::Replace { old: 1, new: 2 });
    assert!(cluster.run_until(|cluster| cluster.removed.contains(&1)));
    cluster.kill(1);
    assert_eq!(cluster.elect(), 2);
    assert!(matches!(cluster.done(2, put("a")), Outcome::Put(None)));
}
