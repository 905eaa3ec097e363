//! Which member the session talks to, and what it costs to change.

use std::sync::Arc;
use std::time::Duration;

use fencepost_client::core::{Input, LockSpec, OpId, WatchId, WatchSpec};
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use crate::support::store::Store;
use crate::town::{State, Town};

const TTL: Duration = Duration::from_secs(1);

fn put(key: &str) -> Request {
    Request::Put(pb::PutRequest { key: key.to_owned(), ..Default::default() })
}

fn is_renewal(request: &Request) -> bool {
    matches!(request, Request::Renew(_))
}

#[test]
fn a_leader_out_of_reach_costs_nothing() {
    let mut town = Town::new(&["a"]);
    town.member("a", 1);
    town.member("b", 2);
    town.set("b", State::Swallowed);
    town.lead("b", 2);
    town.hold(1, "job", TTL);
    town.run_until(300_000);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
    let tries = town.dialed.iter().filter(|one| *one == "b").count();
    assert!((2..=12).contains(&tries), "the leader was tried {tries} times");
    assert_eq!(town.dialed.iter().filter(|one| *one == "a").count(), 1, "one connection is enough");
}

// Requirements: S1-067.
#[test]
fn the_leader_is_found_over_several_hops() {
    let mut town = Town::new(&["a"]);
    // By the time that the session is there, another one leads, and that twice.
    for (address, id, next) in [("a", 1, "b"), ("b", 2, "c"), ("c", 3, "d"), ("d", 4, "d")] {
        town.member(address, id);
        town.lead_by_word_of(address, next, if next == "d" { 4 } else { id + 1 });
    }
    town.hold(1, "job", TTL);
    town.run_until(5_000);
    assert_eq!(town.dialed, ["a", "b", "c", "d"]);
    let renewals = ["a", "b", "c", "d"].map(|address| town.count(address, is_renewal));
    assert!(renewals[3] > 10, "it stays with the last one: {renewals:?}");
    assert!(town.lost.is_empty(), "{:?}", town.lost);
}

/// What could not be reached a moment ago is all that is left.
// Requirements: S1-070.
#[test]
fn a_member_that_is_back_is_found_when_the_others_are_gone() {
    let mut town = Town::new(&["a", "b", "c"]);
    town.member("a", 1);
    town.member("b", 2);
    town.set("b", State::Swallowed);
    town.lead("b", 2);
    town.hold(1, "job", 3 * TTL);
    town.run_until(2_000);
    assert_eq!(town.count("b", is_renewal), 0, "the leader was tried, and is left alone");
    town.set("b", State::Good);
    town.kill("a");
    town.run_until(20_000);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
    assert!(town.count("b", is_renewal) > 0);
}

// Requirements: S4-033.
#[test]
fn a_leader_that_has_fallen_silent_is_not_run_after() {
    let mut town = Town::new(&["a", "b", "c"]);
    for (address, id) in [("a", 1), ("b", 2), ("c", 3)] {
        town.member(address, id);
    }
    town.lead("b", 2);
    town.hold(1, "job", TTL);
    town.run_until(2_000);
    assert!(town.count("b", is_renewal) > 0, "it has gone to the leader");
    // The leader's machine is gone. Those who are left have not noticed, and still name it.
    town.set("b", State::Swallowed);
    let before = town.dialed.len();
    town.run_until(4_500);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
    assert_eq!(town.dialed[before..], ["c"], "one of the others was enough");
    town.lead("a", 1);
    town.run_until(10_000);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
    assert!(town.count("a", is_renewal) > 0, "it has gone to the new leader");
}

#[test]
fn moving_to_the_leader_loses_nothing_that_is_under_way() {
    let mut town = Town::new(&["a"]);
    town.member("a", 1);
    town.member("b", 2);
    town.lead("a", 1);
    town.hold(1, "job", Duration::from_secs(60));
    let names: Arc<[String]> = ["other".to_owned()].into();
    town.acquire(2, LockSpec { names: Arc::clone(&names), ttl: TTL, ..LockSpec::default() });
    town.acquire(3, LockSpec { names, ttl: TTL, ..LockSpec::default() });
    town.input(Input::Watch(WatchId(9), WatchSpec { key: "k".to_owned(), ..Default::default() }));
    // From here on answers of the old member are late, and the new one leads.
    town.set("a", State::Slow);
    town.call(4, put("k"), false);
    town.lead("b", 2);
    let told = pb::SessionResponse { header: Some(town.stores[0].header()), ..Default::default() };
    town.input(Input::Frame(fencepost_client::core::LinkId(1), Box::new(told)));
    town.run_until(50);
    assert_eq!(town.dialed, ["a", "b"]);
    town.call(5, put("l"), false);
    assert!(town.answered.contains_key(&OpId(5)), "the new member has answered");
    assert!(town.failed.is_empty(), "{:?}", town.failed);
    town.hurry("a");
    assert!(town.answered.contains_key(&OpId(4)), "the old one was left to answer");
    town.run_until(3_000);
    let hold = town.held[&OpId(2)].hold;
    town.input(Input::Release(hold, None));
    assert!(town.held.contains_key(&OpId(3)), "it has kept its place");
    assert!(town.lost.is_empty() && town.failed.is_empty());
    let events = town.watched.iter().filter(|(_, news)| {
        matches!(news, fencepost_client::core::WatchNews::Events(events) if events.len() == 1)
    });
    assert_eq!(events.count(), 1, "the watch has told what happened once");
    assert_eq!(town.stores[0].streams.len(), 1, "the old connection is not kept");
}

#[test]
fn an_old_member_that_never_answers_is_not_waited_for_for_ever() {
    let mut town = Town::new(&["a"]);
    town.member("a", 1);
    town.member("b", 2);
    town.lead("a", 1);
    town.hold(1, "job", Duration::from_secs(60));
    town.set("a", State::Slow);
    town.call(4, put("k"), false);
    town.lead("b", 2);
    let told = pb::SessionResponse { header: Some(town.stores[0].header()), ..Default::default() };
    town.input(Input::Frame(fencepost_client::core::LinkId(1), Box::new(told)));
    town.run_until(20_000);
    assert!(town.failed[&OpId(4)].is_indeterminate(), "{:?}", town.failed);
    assert_eq!(town.stores[0].streams.len(), 1, "the old connection is not kept");
}

#[test]
fn another_cluster_behind_a_hint_is_left_alone() {
    let mut town = Town::new(&["a"]);
    town.stores.push(Store::of_cluster(8));
    town.member("a", 1);
    town.member_of(1, "b", 2);
    town.lead("b", 2);
    town.hold(1, "job", TTL);
    town.run_until(100_000);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
    let strayed = |request: &Request| !matches!(request, Request::Hello(_));
    assert_eq!(town.count("b", strayed), 0, "nothing is asked of another cluster");
    assert!(town.dialed.iter().filter(|one| *one == "b").count() < 5);
}

#[test]
fn a_cluster_that_was_replaced_by_another_is_said() {
    let mut town = Town::new(&["a", "b"]);
    town.stores.push(Store::of_cluster(8));
    town.member("a", 1);
    town.member("b", 2);
    town.hold(1, "job", TTL);
    town.run_until(2_000);
    // Both members are gone, and others answer at their addresses.
    for address in ["a", "b"] {
        town.set(address, State::Swallowed);
    }
    town.run_until(6_000);
    assert_eq!(town.lost.len(), 1);
    for (address, id) in [("a", 1), ("b", 2)] {
        town.member_of(1, address, id);
    }
    town.acquire(2, LockSpec { names: ["x".to_owned()].into(), ttl: TTL, ..LockSpec::default() });
    town.call(3, put("k"), false);
    town.run_until(12_000);
    for op in [2, 3] {
        let error = town.failed.get(&OpId(op)).expect("it cannot be done any more");
        let text = error.to_string();
        assert!(text.contains("0000000000000007") && text.contains("0000000000000008"), "{text}");
    }
    assert!(town.stores[1].leases.is_empty(), "nothing was asked of the other cluster");
}

#[test]
fn an_address_that_leads_nowhere_is_not_followed() {
    for address in ["0.0.0.0:7420", "[::]:7420", "http://0.0.0.0:7420", "[::ffff:0.0.0.0]:1", ":1"]
    {
        let mut town = Town::new(&["a"]);
        town.member("a", 1);
        town.lead(address, 2);
        town.hold(1, "job", TTL);
        town.run_until(20_000);
        assert_eq!(town.dialed, ["a"], "{address}");
    }
}

// Requirements: S4-034.
#[test]
fn a_member_that_has_lost_the_others_is_left_in_time() {
    let mut town = Town::new(&["a", "b", "c"]);
    for (address, id) in [("a", 1), ("b", 2), ("c", 3)] {
        town.member(address, id);
    }
    town.hold(1, "job", TTL);
    town.run_until(2_000);
    town.set("a", State::Isolated);
    town.lead("b", 2);
    town.run_until(10_000);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
}

#[test]
fn without_a_leader_anywhere_the_session_stays_where_it_is() {
    let mut town = Town::new(&["a", "b"]);
    town.member("a", 1);
    town.member("b", 2);
    town.hold(1, "job", Duration::from_secs(30));
    town.run_until(1_000);
    for address in ["a", "b"] {
        town.set(address, State::Isolated);
    }
    town.run_until(30_000);
    let renewals = |address: &str| town.count(address, is_renewal);
    assert!(renewals("a") > 0 && renewals("b") == 0, "nothing is better elsewhere");
}

#[test]
fn a_connection_that_ends_again_and_again_is_made_with_pauses() {
    let mut town = Town::new(&["a"]);
    town.member("a", 1);
    town.set("a", State::Ending);
    town.acquire(1, LockSpec { names: ["x".to_owned()].into(), ttl: TTL, ..LockSpec::default() });
    town.run_until(10_000);
    let dialed = town.dialed.len();
    assert!((20..=100).contains(&dialed), "{dialed} connections in ten seconds");
}

#[test]
fn a_member_that_answers_nothing_is_left_however_much_it_tells() {
    let mut town = Town::new(&["a", "b"]);
    town.member("a", 1);
    town.member("b", 2);
    town.hold(1, "job", TTL);
    town.input(Input::Watch(WatchId(9), WatchSpec { key: "k".to_owned(), ..Default::default() }));
    town.set("a", State::Deaf);
    for now in 1..=500 {
        town.run_until(now * 10);
        town.stores[0].revision += 1;
        town.stores[0].write_key("k", "x".into(), 0);
    }
    assert!(town.lost.is_empty(), "{:?}", town.lost);
    assert!(town.count("b", is_renewal) > 0, "it has gone to the other one");
}

/// The others answer, however long one is flooded: it takes connections, and answers nothing.
#[test]
fn endpoints_that_answer_nothing_do_not_hide_the_others() {
    for state in [State::Swallowed, State::Deaf] {
        let mut town = Town::new(&["a", "b", "c", "d"]);
        for (address, id) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
            town.member(address, id);
        }
        for address in ["a", "b", "c"] {
            town.set(address, state);
        }
        town.call(1, put("k"), true);
        town.run_until(4_000);
        assert!(town.answered.contains_key(&OpId(1)), "{state:?}: {:?}", town.failed);
    }
}

#[test]
fn a_held_lock_outlives_its_member_beside_one_that_is_flooded() {
    for state in [State::Swallowed, State::Deaf] {
        let mut town = Town::new(&["a", "b", "c"]);
        for (address, id) in [("a", 1), ("b", 2), ("c", 3)] {
            town.member(address, id);
        }
        town.hold(1, "job", 30 * TTL);
        town.run_until(2_000);
        town.set("a", state);
        town.set("b", state);
        town.run_until(60_000);
        assert!(town.lost.is_empty(), "{state:?}: {:?}", town.lost);
    }
}

#[test]
fn slow_networks_get_more_time_in_later_rounds() {
    let mut town = Town::new(&["a", "b"]);
    for (address, id) in [("a", 1), ("b", 2)] {
        town.member(address, id);
        town.set(address, State::Deaf);
    }
    let mut begun = Vec::new();
    for now in 0..20_000 {
        town.run_until(now);
        if town.dialed.len() > begun.len() {
            begun.push(now);
        }
    }
    let pauses: Vec<u64> = begun.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses[0] <= 600, "the second one has its turn soon: {pauses:?}");
    assert!(pauses.iter().any(|&pause| pause >= 2_000), "a greeting may take time: {pauses:?}");
}

#[test]
fn a_request_is_answered_elsewhere_if_its_member_falls_silent() {
    let mut town = Town::new(&["a", "b"]);
    town.member("a", 1);
    town.member("b", 2);
    town.call(1, put("k"), true);
    town.set("a", State::Swallowed);
    town.call(2, put("k"), true);
    town.run_until(4_000);
    assert!(town.answered.contains_key(&OpId(2)), "{:?}", town.failed);
}
