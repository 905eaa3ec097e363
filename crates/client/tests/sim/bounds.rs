//! What is bounded: sizes, what is open at once, how often something is tried.

use std::time::Duration;

use fencepost_client::Error;
use fencepost_client::core::{Input, LockSpec, OpId, Wait, WatchId, WatchNews, WatchSpec};
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use crate::town::Town;

const TTL: Duration = Duration::from_secs(3);

fn town() -> Town {
    let mut town = Town::new(&["a"]);
    town.member("a", 1);
    town.input(Input::Tick);
    town
}

fn key(key: impl Into<String>) -> WatchSpec {
    WatchSpec { key: key.into(), ..WatchSpec::default() }
}

fn named(name: &str) -> LockSpec {
    LockSpec { names: [name.to_owned()].into(), ttl: TTL, ..LockSpec::default() }
}

#[test]
fn what_the_service_cannot_take_is_refused_before_it_is_sent() {
    let mut town = town();
    let hold = town.hold(1, "job", TTL);
    let before = town.sent.len();
    let (metadata, value) = (vec![0; 1 << 20].into(), vec![0; 600 << 10].into());
    town.acquire(2, LockSpec { metadata, value, ..named("large") });
    let value = vec![0; 1_700_000].into();
    town.call(
        3,
        Request::Put(pb::PutRequest { key: "k".to_owned(), value, ..Default::default() }),
        false,
    );
    town.input(Input::Watch(WatchId(4), key("k".repeat(1_700_000))));
    for op in [2, 3] {
        let error = &town.failed[&OpId(op)];
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        assert!(error.to_string().contains("1572864"), "{error}");
    }
    assert!(matches!(&town.watched[..], [(WatchId(4), WatchNews::Ended(Error::Invalid { .. }))]));
    assert_eq!(town.sent.len(), before, "nothing was sent");
    // What just fits is the service's to judge.
    let value = vec![0; 1_572_000].into();
    town.call(
        5,
        Request::Put(pb::PutRequest { key: "k".to_owned(), value, ..Default::default() }),
        false,
    );
    assert!(town.answered.contains_key(&OpId(5)));
    town.run_until(10_000);
    assert!(!town.lost.contains_key(&hold));
}

#[test]
fn watches_that_have_ended_take_no_room() {
    let mut town = town();
    for id in 1..=20_000 {
        town.input(Input::Watch(WatchId(id), key("k")));
        town.input(Input::Unwatch(WatchId(id)));
    }
    town.hold(1, "job", TTL);
}

#[test]
fn room_is_kept_for_what_keeps_and_gives_back_locks() {
    let mut town = town();
    town.stores[0].requests_max = 80;
    town.input(Input::LinkDown(fencepost_client::core::LinkId(1), "again".to_owned()));
    town.run_until(100);
    let hold = town.hold(1, "job", TTL);
    let other = town.stores[0].grant_lease(0, 600_000, "other");
    assert!(other.is_ok());
    let lease_id = *town.stores[0].leases.keys().max().expect("it was just granted");
    for number in 0..120 {
        let wanted = pb::LockWanted { name: format!("n{number}"), ..Default::default() };
        let locks = vec![wanted];
        let ask = pb::SessionAcquire { locks, lease_id, timeout_ms: -1, ..Default::default() };
        town.stores[0].acquire(&ask, number + 1, (999, 1)).expect("the lock is free");
    }
    for number in 0..120 {
        town.acquire(100 + number, named(&format!("n{number}")));
    }
    town.run_until(1_000);
    let open = town.count("a", |request| matches!(request, Request::Acquire(_))) - 1;
    assert!((40..=60).contains(&open), "{open} of 80 are open");
    town.input(Input::Release(hold, None));
    town.run_until(8_000);
    assert_eq!(town.stores[0].queues.get("job"), None, "it was given back");
    assert!(town.failed.is_empty());
}

#[test]
fn a_refusal_that_passes_does_not_end_a_watch() {
    let mut town = town();
    town.stores[0].refuses_watches = 3;
    town.input(Input::Watch(WatchId(1), key("k")));
    town.run_until(10);
    let asked = town.count("a", |request| matches!(request, Request::Watch(_)));
    assert_eq!(asked, 1, "it is not asked for at once again");
    town.run_until(2_000);
    assert!(
        matches!(&town.watched[..], [(WatchId(1), WatchNews::Started(_))]),
        "{:?}",
        town.watched
    );
    town.stores[0].revision += 1;
    town.stores[0].write_key("k", "v".into(), 0);
    town.run_until(2_010);
    assert!(matches!(&town.watched[1..], [(WatchId(1), WatchNews::Events(_))]));
}

#[test]
fn a_wait_is_told_to_the_service_as_the_user_means_it() {
    let mut town = town();
    let first = town.hold(1, "job", TTL);
    town.input(Input::Release(first, None));
    for lease in town.stores[0].leases.keys().copied().collect::<Vec<_>>() {
        town.stores[0].end_lease(lease, "revoked");
    }
    // The idle lease is gone, and the service says so: the acquire begins anew with another one.
    let holder = town.stores[0].grant_lease(0, 600_000, "other");
    assert!(holder.is_ok());
    let lease_id = *town.stores[0].leases.keys().max().expect("it was just granted");
    let wanted = pb::LockWanted { name: "job".to_owned(), ..Default::default() };
    let ask =
        pb::SessionAcquire { locks: vec![wanted], lease_id, timeout_ms: -1, ..Default::default() };
    town.stores[0].acquire(&ask, 1, (999, 1)).expect("the lock is free");
    let wait = Wait::AtMost(Duration::from_millis(700));
    town.acquire(2, LockSpec { wait, ..named("job") });
    let waits: Vec<i64> = town
        .sent
        .iter()
        .filter_map(|(_, frame)| match &frame.request {
            Some(Request::Acquire(ask)) if ask.timeout_ms > 0 => Some(ask.timeout_ms),
            _ => None,
        })
        .collect();
    assert_eq!(waits, [700, 700]);
    town.run_until(701);
    assert_eq!(town.failed[&OpId(2)], Error::Timeout);
}
