//! Who gets into the cluster and out of it, and at which moment.

use fencepost_node::io::{Change, ChangeError, Input};
use fencepost_node::membership::Member;

use crate::members::{insist, join};
use crate::put;
use crate::replication::all_agree;
use crate::support::{Cluster, MS, named, request};

// Requirements: S1-029.
#[test]
fn cut_off_leader_admits_no_server() {
    let mut cluster = Cluster::new(3, 7);
    let old = cluster.elect();
    let others = cluster.others(old);
    cluster.isolate(old);
    cluster.input(old, Input::Change(request(1), Change::Add(named(4))));
    cluster.run(50 * MS);
    assert!(cluster.node(old).leads(), "it does not know yet that it is outdated");
    assert!(!cluster.node(old).membership().contains(4), "it has admitted it alone");
    let elected = cluster.elect_among(&others);
    assert!(cluster.run_until(|cluster| cluster.changed.contains_key(&1)), "no answer");
    assert_eq!(cluster.changed[&1], Err(ChangeError::Indeterminate));
    assert_eq!(cluster.change(elected, Change::Add(named(5))), Ok(()));
    let refused = cluster.change(old, Change::Add(named(6)));
    assert_eq!(refused, Err(ChangeError::NotLeader { leader: None }));
    cluster.cut.clear();
    assert!(cluster.run_until(all_agree), "they stay apart");
    for (id, node) in cluster.running() {
        let members: Vec<u64> = node.membership().members.keys().copied().collect();
        assert_eq!(members, [1, 2, 3, 5], "member {id}");
    }
}

/// Three members, of which the two that follow take so long for a sync.
fn slow_followers(sync: u64) -> (Cluster, u64) {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.done(leader, put("k"));
    cluster.run(50 * MS);
    cluster.others(leader).iter().for_each(|&id| cluster.slow_disk(id, sync));
    (cluster, leader)
}

fn know(cluster: &Cluster, id: u64) -> Vec<u64> {
    let knowing = cluster.running().filter(|(_, node)| node.membership().contains(id));
    knowing.map(|(id, _)| id).collect()
}

// Requirements: S1-029, S1-061.
#[test]
fn member_is_added_once_the_change_is_committed() {
    let (mut cluster, leader) = slow_followers(300 * MS);
    let member = cluster.newcomer(4);
    let (index, mark) = (cluster.node(leader).last_index() + 1, cluster.sent.len());
    cluster.input(leader, Input::Change(request(1), Change::Add(member)));
    assert_eq!(cluster.node(leader).last_index(), index, "the leader appends it");
    cluster.run(20 * MS);
    let has_it = |id| cluster.node(id).last_index() == index;
    assert!((1..=3).all(has_it), "it is replicated");
    cluster.run(270 * MS);
    assert!(cluster.node(leader).commit() < index && know(&cluster, 4).is_empty());
    let sent_to_it = |cluster: &Cluster| cluster.sent[mark..].iter().any(|one| one.message.to == 4);
    assert!(!sent_to_it(&cluster), "it gets entries before it is a member");
    cluster.run(30 * MS);
    assert!(cluster.node(leader).commit() >= index, "a majority has it");
    assert!(know(&cluster, 4).contains(&leader) && sent_to_it(&cluster));
    assert!(!cluster.changed.contains_key(&1), "a majority may still forget it");
    assert!(cluster.run_until(|cluster| cluster.changed.get(&1) == Some(&Ok(()))), "no answer");
    assert!(cluster.run_until(all_agree), "they differ");
    assert_eq!(know(&cluster, 4), [1, 2, 3, 4]);
}

// Requirements: S1-062.
#[test]
fn member_is_removed_once_the_change_is_committed() {
    let (mut cluster, leader) = slow_followers(300 * MS);
    let victim = cluster.others(leader)[0];
    let index = cluster.node(leader).last_index() + 1;
    cluster.input(leader, Input::Change(request(1), Change::Remove(victim)));
    assert_eq!(cluster.node(leader).last_index(), index, "the leader appends it");
    cluster.run(20 * MS);
    let has_it = |id| cluster.node(id).last_index() == index;
    assert!((1..=3).all(has_it), "it is replicated");
    cluster.run(270 * MS);
    assert!(cluster.node(leader).commit() < index, "one of three is no majority");
    assert_eq!(know(&cluster, victim), [1, 2, 3]);
    cluster.run(30 * MS);
    assert!(cluster.node(leader).commit() >= index && !know(&cluster, victim).contains(&leader));
    assert!(cluster.removed.is_empty(), "those who remain may still need it");
    assert!(cluster.run_until(|cluster| cluster.changed.get(&1) == Some(&Ok(()))), "no answer");
    assert!(cluster.run_until(|cluster| cluster.removed.contains(&victim)), "it does not leave");
    cluster.run(50 * MS);
    let mark = cluster.sent.len();
    cluster.done(leader, put("after"));
    cluster.run(5_000 * MS);
    let mut later = cluster.sent[mark..].iter().map(|one| &one.message);
    assert!(later.len() > 50 && later.all(|one| one.to != victim), "it is still sent something");
}

/// What was taken out by mistake comes back with an empty disk, under its name and address.
// Requirements: S1-112.
#[test]
fn removed_member_returns_under_a_new_number() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let removed = cluster.others(leader)[0];
    insist(&mut cluster, &Change::Remove(removed));
    assert!(cluster.run_until(|cluster| cluster.removed.contains(&removed)));
    cluster.kill(removed);
    let leader = cluster.elect();
    let refused = cluster.change(leader, Change::Add(named(removed)));
    assert_eq!(refused, Err(ChangeError::WasRemoved(removed)));
    cluster.newcomer(4);
    let member = Member { id: 4, ..named(removed) };
    insist(&mut cluster, &Change::Add(member.clone()));
    insist(&mut cluster, &Change::Promote(4));
    assert!(cluster.run_until(all_agree), "they differ");
    for (id, node) in cluster.running() {
        assert_eq!(node.membership().members.get(&4), Some(&member), "member {id}");
        assert_eq!(node.membership().voters().len(), 3, "member {id}");
    }
    // It counts: without the other follower, nothing could be done otherwise.
    let leader = cluster.elect();
    let other = cluster.others(leader).into_iter().find(|&id| id != 4);
    if let Some(other) = other {
        cluster.kill(other);
    }
    let leader = cluster.elect();
    cluster.done(leader, put("with it"));
}

// Requirements: S1-005.
#[test]
fn number_of_a_member_is_given_to_no_other() {
    let mut cluster = Cluster::new(3, 7);
    cluster.elect();
    join(&mut cluster, 4);
    let leader = cluster.elect();
    let members = &cluster.node(leader).membership().members;
    assert!(members.iter().all(|(&id, member)| member.id == id && *member == named(id)));
    assert_eq!(members.len(), 4);
    insist(&mut cluster, &Change::Remove(4));
    let leader = cluster.elect();
    let taken = Change::Add(Member { name: "another".to_owned(), ..named(4) });
    assert_eq!(cluster.change(leader, taken), Err(ChangeError::WasRemoved(4)));
}
