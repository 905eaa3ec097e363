//! Answers that are longer than what members send each other.

use fencepost_core::command::{Op, Put, Txn};
use fencepost_core::outcome::Outcome;
use fencepost_core::range::{KeyRange, RangeQuery};
use fencepost_core::{Action, Key, Reason, Value};
use fencepost_node::io::ProposeError;

use crate::support::Cluster;

/// Frames between members are shorter than an answer may be.
#[test]
fn long_answer_through_a_follower_is_refused_or_unknown() {
    let mut cluster = Cluster::with_levels(3, 5, &[2, 2, 2]);
    let leader = cluster.elect();
    assert!(cluster.run_until(|cluster| cluster.node(leader).feature_level() == 2));
    let value = Value::from("v".repeat(1 << 20).as_str());
    for number in 0..5 {
        let key = Key::from(format!("k{number}").as_str());
        let put = Put { key, value: value.clone(), ..Put::default() };
        cluster.done(leader, Action::Put(put));
    }
    let all = || Op::Range(RangeQuery::from(KeyRange::prefix(b"k")));
    let txn = |ops| Action::Txn(Box::new(Txn { success: ops, ..Txn::default() }));
    let follower = leader % 3 + 1;
    assert!(matches!(cluster.done(leader, txn(vec![all()])), Outcome::Txn(_)));
    let refused = cluster.done(follower, txn(vec![all()]));
    assert!(matches!(refused, Outcome::Rejected(Reason::TooManyBytes(_))), "{refused:?}");
    let put = Op::Put(Put { key: Key::from("new"), ..Put::default() });
    let request = cluster.propose(follower, txn(vec![put, all()]));
    assert!(cluster.run_until(|cluster| cluster.answers.contains_key(&request)));
    assert_eq!(cluster.answers[&request], Err(ProposeError::Indeterminate));
    assert_eq!(cluster.node(leader).machine().state().count(&KeyRange::prefix(b"new")), 1);
}
