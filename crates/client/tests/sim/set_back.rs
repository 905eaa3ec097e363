//! A cluster whose data was set back to an older copy: its revisions are lower than those that the
//! session has seen.

use std::time::Duration;

use fencepost_client::core::{LockSpec, Loss, OpId};
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use crate::town::{State, Town};

const TTL: Duration = Duration::from_secs(10);

fn put(key: &str) -> Request {
    Request::Put(pb::PutRequest { key: key.to_owned(), ..pb::PutRequest::default() })
}

/// A session that holds a lock and has seen revision 1,000.
fn town() -> Town {
    let mut town = Town::new(&["a"]);
    town.member("a", 1);
    town.stores[0].revision = 1_000;
    town
}

#[test]
fn renewal_by_a_cluster_that_was_set_back_ends_every_hold() {
    let mut town = town();
    let hold = town.hold(1, "job", TTL);
    town.run_until(1_000);
    town.stores[0].revision = 900;
    town.run_until(6_000);
    let Some((at, loss)) = town.lost.get(&hold) else { panic!("it is believed in") };
    assert_eq!(*loss, Loss::LeaseGone);
    assert!(*at < 5_000, "at the next renewal, not when it runs out");
}

#[test]
fn answer_of_a_cluster_that_was_set_back_is_not_believed() {
    let mut town = town();
    town.call(1, put("k"), false);
    assert!(town.answered.contains_key(&OpId(1)), "{:?}", town.failed);
    town.stores[0].revision = 900;
    town.call(2, put("k"), false);
    assert!(!town.answered.contains_key(&OpId(2)));
    let error = &town.failed[&OpId(2)];
    assert!(error.is_indeterminate() && error.to_string().contains("set back"), "{error}");
    // Nor is a lock that it grants.
    town.acquire(3, LockSpec { names: ["job".to_owned()].into(), ttl: TTL, ..LockSpec::default() });
    assert!(!town.held.contains_key(&OpId(3)), "{:?}", town.held);
}

#[test]
fn session_goes_on_once_the_cluster_is_as_far_as_it_was() {
    let mut town = town();
    town.call(1, put("k"), false);
    town.stores[0].revision = 900;
    town.call(2, put("k"), false);
    town.stores[0].revision = 2_000;
    town.run_until(20_000);
    town.hold(3, "job", TTL);
    town.run_until(40_000);
    assert!(town.held[&OpId(3)].token > 2_000);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
}

#[test]
fn answers_that_cross_are_believed() {
    let mut town = town();
    let hold = town.hold(1, "job", TTL);
    town.set("a", State::Slow);
    town.call(2, put("k"), false);
    // Its answer is on its way with the revision of its time, and is heard after later ones.
    town.stores[0].revision = 5_000;
    town.call(3, put("k"), false);
    town.hurry_backwards("a");
    assert!(town.answered.contains_key(&OpId(2)) && town.answered.contains_key(&OpId(3)));
    town.run_until(30_000);
    assert!(!town.lost.contains_key(&hold), "{:?}", town.lost);
}

#[test]
fn stale_read_may_be_of_an_older_revision() {
    let mut town = town();
    town.call(1, put("k"), false);
    town.stores[0].revision = 900;
    let read = pb::GetLockRequest { name: "x".to_owned(), stale: true, ..Default::default() };
    town.call(2, Request::GetLock(read), true);
    assert!(town.answered.contains_key(&OpId(2)), "{:?}", town.failed);
}
