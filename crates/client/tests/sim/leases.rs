//! What becomes of a lease when its lock was given back, and of a doubt that nothing answers.

use std::time::Duration;

use fencepost_client::core::{HoldId, Input, LockSpec, OpId};
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use crate::town::Town;

const DAY: Duration = Duration::from_secs(86_400);

fn town() -> Town {
    let mut town = Town::new(&["a"]);
    town.member("a", 1);
    town.input(Input::Tick);
    town
}

fn leases(town: &Town) -> usize {
    town.stores[0].leases.len()
}

fn reentrant(town: &mut Town, op: u64) -> HoldId {
    let names = ["job".to_owned()].into();
    town.acquire(op, LockSpec { names, ttl: DAY, reentrant: true, ..LockSpec::default() });
    town.held[&OpId(op)].hold
}

#[test]
fn a_released_lock_leaves_no_lease_behind() {
    let mut town = town();
    let hold = town.hold(1, "job", DAY);
    assert_eq!(leases(&town), 1);
    town.input(Input::Release(hold, None));
    town.run_until(1_100);
    assert_eq!(leases(&town), 0);
    assert!(town.session.is_quiet());
}

#[test]
fn closing_gives_unused_leases_back_at_once() {
    let mut town = town();
    for op in 1..=3 {
        town.hold(op, &format!("job-{op}"), DAY);
    }
    for op in 1..=2 {
        let hold = town.held[&OpId(op)].hold;
        town.input(Input::Release(hold, None));
    }
    town.input(Input::Close);
    // The third one was not given back, and ends when its time is up.
    assert_eq!(leases(&town), 1);
    assert!(town.session.is_quiet());
}

#[test]
fn a_lease_that_guards_share_stays_until_the_last() {
    let mut town = town();
    let hold = reentrant(&mut town, 1);
    assert_eq!(reentrant(&mut town, 2), hold);
    town.input(Input::Release(hold, None));
    town.run_until(5_000);
    assert_eq!(leases(&town), 1);
    assert!(!town.stores[0].queues["job"].is_empty(), "it is still held");
    town.input(Input::Release(hold, None));
    town.run_until(6_100);
    assert_eq!(leases(&town), 0);
}

#[test]
fn work_that_goes_on_uses_its_lease_again() {
    let mut town = town();
    for op in 1..=20 {
        let hold = town.hold(op, "job", DAY);
        town.input(Input::Release(hold, None));
        town.run_until(op * 500);
    }
    let grants = town.count("a", |request| matches!(request, Request::LeaseGrant(_)));
    assert_eq!(grants, 1);
    town.run_until(20 * 500 + 1_100);
    assert_eq!(leases(&town), 0);
}

#[test]
fn a_doubt_that_was_never_answered_is_raised_again() {
    const TTL: Duration = Duration::from_secs(3);
    let mut town = town();
    assert!(town.stores[0].grant_lease(0, 600_000, "other").is_ok());
    let other = *town.stores[0].leases.keys().next().expect("it was just granted");
    let wanted = pb::LockWanted { name: "job".to_owned(), ..Default::default() };
    let locks = vec![wanted];
    let ask = pb::SessionAcquire { locks, lease_id: other, timeout_ms: -1, ..Default::default() };
    town.stores[0].acquire(&ask, 1, (999, 1)).expect("the lock is free");
    let names = ["job".to_owned()].into();
    town.acquire(2, LockSpec { names, ttl: TTL, ..LockSpec::default() });
    // A change that the session cannot account for is told by renewals while it waits. After the
    // grant it asks about it, and has no answer for longer than the lease could have lived.
    let own = *town.stores[0].leases.keys().last().expect("it was granted");
    town.stores[0].leases.get_mut(&own).expect("it lives").changes += 5;
    town.run_until(2_000);
    town.swallowed = Some(|request| matches!(request, Request::GetLock(_)));
    town.stores[0].end_lease(other, "revoked");
    town.run_until(12_000);
    assert!(town.count("a", |request| matches!(request, Request::GetLock(_))) > 0);
    assert!(!town.held.contains_key(&OpId(2)) && town.failed.is_empty());
    town.swallowed = None;
    town.run_until(20_000);
    assert!(town.held.contains_key(&OpId(2)), "{:?}", town.failed);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
}
