//! A leader whose disk has only its reserve left.

use fencepost_core::command::{DeleteRange, LeaseRef, Op, Put, Release, Txn};
use fencepost_core::range::KeyRange;
use fencepost_core::{Action, Key, LeaseId, LockName, Outcome, Value};
use fencepost_node::io::{Answer, Input, ProposeError};

use crate::support::{Cluster, MS};
use crate::{acquire, lease, put, renew};

fn answer(cluster: &mut Cluster, id: u64, action: Action) -> Answer {
    let request = cluster.propose(id, action);
    assert!(cluster.run_until(|cluster| cluster.answers.contains_key(&request)), "no answer");
    cluster.answers[&request].clone()
}

fn txn(op: Op) -> Action {
    Action::Txn(Box::new(Txn { success: vec![op], ..Txn::default() }))
}

/// A put that is written as a transaction.
fn put_in_txn(key: &str) -> Action {
    let Action::Put(put) = put(key) else { panic!("it is a put") };
    txn(Op::Txn(Box::new(Txn { failure: vec![Op::Put(put)], ..Txn::default() })))
}

fn delete(key: &str) -> DeleteRange {
    DeleteRange { range: KeyRange::One(Key::from(key)), prev: false }
}

#[test]
fn leader_with_a_full_disk_refuses_growth_and_nothing_else() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let follower = 1 + leader % 3;
    cluster.done(leader, lease(1, 60_000));
    let Outcome::Acquired(grant) = cluster.done(leader, acquire("a", 1)) else {
        panic!("it is free");
    };
    cluster.done(leader, put("k"));
    cluster.input(leader, Input::DiskIsLow(true));
    for id in [leader, follower] {
        for growth in [put("k2"), put_in_txn("k3"), lease(2, 60_000), acquire("b", 1)] {
            let refused = answer(&mut cluster, id, growth.clone());
            assert_eq!(refused, Err(ProposeError::DiskFull), "member {id}: {growth:?}");
        }
        let again = answer(&mut cluster, id, acquire("a", 1)).expect("it holds the lock already");
        assert!(!matches!(again.outcome, Outcome::Rejected(_)), "{again:?}");
        answer(&mut cluster, id, renew(1)).expect("renewals go on");
        answer(&mut cluster, id, txn(Op::DeleteRange(delete("k")))).expect("deletes go on");
        answer(&mut cluster, id, Action::DeleteRange(delete("k"))).expect("deletes go on");
        let read = cluster.read(id);
        assert!(cluster.run_until(|cluster| cluster.reads.contains(&read)), "reads go on");
    }
    let release = Action::Release(Release {
        name: LockName::from("a"),
        lease: LeaseRef::from(LeaseId(1)),
        token: grant.token,
    });
    let released = answer(&mut cluster, follower, release).expect("releases go on");
    assert!(!matches!(released.outcome, Outcome::Rejected(_)), "{released:?}");
    cluster.input(leader, Input::DiskIsLow(false));
    cluster.done(follower, put("k2"));
}

/// The log of a follower grows as much, but only the leader decides.
#[test]
fn full_disk_of_a_follower_refuses_nothing() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let follower = 1 + leader % 3;
    cluster.input(follower, Input::DiskIsLow(true));
    cluster.done(follower, put("k"));
    cluster.done(leader, lease(1, 60_000));
}

/// Two snapshots are kept, so a single one gives nothing back of what was deleted.
#[test]
fn deletes_on_a_full_disk_shorten_the_log_of_an_idle_leader() {
    const VALUES: usize = 40;
    let mut cluster = Cluster::with_levels(1, 5, &[2]);
    let leader = cluster.elect();
    assert!(cluster.run_until(|cluster| cluster.node(leader).feature_level() == 2));
    for number in 0..VALUES {
        let Action::Put(put) = put(&format!("k{number}")) else { panic!("it is a put") };
        cluster.done(
            leader,
            Action::Put(Put { value: Value::from(vec![7; 1 << 20].as_slice()), ..put }),
        );
    }
    cluster.input(leader, Input::DiskIsLow(true));
    for number in 0..VALUES {
        cluster.done(leader, Action::DeleteRange(delete(&format!("k{number}"))));
    }
    let log = |cluster: &Cluster| -> usize {
        let node = cluster.node(leader);
        let entries = (1..=node.last_index()).filter_map(|index| node.entry(index));
        entries.map(|(_, _, data)| data.len()).sum()
    };
    assert!(cluster.run_until(|cluster| log(cluster) < 1 << 20), "{} bytes of log", log(&cluster));
    // Nothing is left to be freed, so no more is written.
    let last = cluster.node(leader).last_index();
    cluster.run(10_000 * MS);
    assert_eq!(cluster.node(leader).last_index(), last);
}

/// A member of an earlier build would close the connection over an answer that it cannot read.
#[test]
fn member_of_an_earlier_build_is_told_overloaded() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let follower = 1 + leader % 3;
    cluster.input(leader, Input::DiskIsLow(true));
    cluster.input(leader, Input::Connected(follower, 1));
    let refused = answer(&mut cluster, follower, put("k"));
    assert_eq!(refused, Err(ProposeError::Overloaded));
}
