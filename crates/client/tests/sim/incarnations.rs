//! A cluster that was restored from a backup, and what a session keeps of the one before.

use std::time::Duration;

use fencepost_client::core::{Input, LinkId, Loss, OpId};
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use crate::support::store::Store;
use crate::town::{State, Town};

const TTL: Duration = Duration::from_secs(10);

/// The same cluster, restored.
fn restored() -> Store {
    let mut store = Store::new();
    store.incarnation = 5;
    store.revision = 1_000;
    store
}

fn is_strayed(request: &Request) -> bool {
    !matches!(request, Request::Hello(_))
}

#[test]
fn restored_cluster_ends_every_hold() {
    let mut town = Town::new(&["a", "b"]);
    town.stores.push(restored());
    town.member("a", 1);
    town.member_of(1, "b", 2);
    let hold = town.hold(1, "job", TTL);
    town.run_until(1_000);
    town.set("a", State::Swallowed);
    town.run_until(6_000);
    // Long before the lease would have expired, and without a renewal that could be refused.
    assert_eq!(town.lost.get(&hold).map(|(_, loss)| loss), Some(&Loss::LeaseGone));
    let is_renewal = |request: &Request| matches!(request, Request::Renew(_));
    assert_eq!(town.count("b", is_renewal), 0, "the lease is not of this incarnation");
    let before = town.held[&OpId(1)].token;
    town.hold(2, "job", TTL);
    assert!(town.held[&OpId(2)].token > before, "the session goes on");
    town.run_until(30_000);
    assert_eq!(town.lost.len(), 1, "{:?}", town.lost);
}

#[test]
fn call_in_flight_is_not_sent_to_two_incarnations() {
    let mut town = Town::new(&["a"]);
    town.stores.push(restored());
    town.member("a", 1);
    town.member_of(1, "b", 2);
    let hold = town.hold(1, "job", TTL);
    town.set("a", State::Slow);
    let put = pb::PutRequest { key: "k".to_owned(), ..Default::default() };
    town.call(4, Request::Put(put), false);
    town.lead("b", 2);
    town.stores[1].leader = Some((2, "b".to_owned()));
    let told = pb::SessionResponse { header: Some(town.stores[0].header()), ..Default::default() };
    town.input(Input::Frame(LinkId(1), Box::new(told)));
    town.run_until(50);
    assert_eq!(town.dialed, ["a", "b"]);
    assert!(town.failed[&OpId(4)].is_indeterminate(), "{:?}", town.failed);
    let is_put = |request: &Request| matches!(request, Request::Put(_));
    assert_eq!(town.count("b", is_put), 0);
    assert!(town.lost.contains_key(&hold), "{:?}", town.lost);
    assert!(town.stores[0].streams.is_empty(), "the old member is left at once");
}

#[test]
fn member_from_before_the_restore_is_refused() {
    let mut town = Town::new(&["a", "b"]);
    town.stores.push(restored());
    town.member_of(1, "a", 1);
    town.member("b", 2);
    town.stores[1].leader = Some((2, "b".to_owned()));
    town.hold(1, "job", TTL);
    town.run_until(60_000);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
    assert_eq!(town.count("b", is_strayed), 0, "nothing is asked of the lost cluster");
    assert!(town.dialed.contains(&"b".to_owned()), "it was tried");
}
