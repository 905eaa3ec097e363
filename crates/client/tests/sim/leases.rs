//! What becomes of a lease when its lock was given back, and of a doubt that nothing answers.

use std::time::Duration;

use fencepost_client::core::{HoldId, Input, LockSpec, Loss, OpId};
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use crate::town::{State, Town};

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

fn is_renewal(request: &Request) -> bool {
    matches!(request, Request::Renew(_))
}

fn is_release(request: &Request) -> bool {
    matches!(request, Request::Release(_))
}

// Requirements: S0-136.
#[test]
fn two_lost_heartbeats_are_survived_by_a_wide_safety_window() {
    const TTL: Duration = Duration::from_secs(3);
    for (safety_window, lost_at) in [(None, Some(1_500)), (Some(TTL), None)] {
        let mut town = town();
        let names = ["job".to_owned()].into();
        town.acquire(1, LockSpec { names, ttl: TTL, safety_window, ..LockSpec::default() });
        let hold = town.held[&OpId(1)].hold;
        town.run_until(990);
        assert_eq!(town.count("a", is_renewal), 0);
        // Those at a third and at two thirds of the TTL are lost, with every repeat between them.
        town.swallowed = Some(is_renewal);
        town.run_until(2_100);
        assert!(town.count("a", is_renewal) >= 2);
        // The service has ended nothing: its lease lives for the whole TTL.
        assert_eq!(town.stores[0].claims.len(), 1);
        town.swallowed = None;
        town.run_until(10_000);
        let expected = lost_at.map(|at| (at, Loss::Unconfirmed));
        assert_eq!(town.lost.remove(&hold), expected, "{safety_window:?}");
    }
}

// Requirements: S1-084.
#[test]
fn a_release_is_not_waited_for() {
    let mut town = town();
    let hold = town.hold(1, "job", DAY);
    // Requests arrive, and no answer does.
    town.set("a", State::Slow);
    town.input(Input::Release(hold, None));
    assert_eq!(town.count("a", is_release), 1);
    assert!(town.stores[0].claims.is_empty(), "the service has done it");
    let names = ["other".to_owned()].into();
    town.acquire(2, LockSpec { names, ttl: DAY, ..LockSpec::default() });
    let asked = |request: &Request| matches!(request, Request::LeaseGrant(_));
    assert_eq!(town.count("a", asked), 2, "the next lock is asked for meanwhile");
    assert!(town.failed.is_empty(), "{:?}", town.failed);
}

// Requirements: S1-084.
#[test]
fn a_lost_lock_is_not_released_but_its_lease_is_revoked() {
    const TTL: Duration = Duration::from_secs(3);
    let mut town = town();
    let hold = town.hold(1, "job", TTL);
    town.swallowed = Some(is_renewal);
    town.run_until(2_000);
    assert_eq!(town.lost[&hold].1, Loss::Unconfirmed);
    assert_eq!(leases(&town), 1, "the service still keeps it for this holder");
    town.input(Input::Release(hold, None));
    assert_eq!(town.count("a", is_release), 0);
    assert_eq!(leases(&town), 0, "the next one need not wait for the end of the lease");
}

// What kept a lock has ended before the lock counts as given back: nothing is left that could renew it or
// report its loss.
// Requirements: S1-108.
#[test]
fn nothing_watches_a_lock_that_was_given_back() {
    const TTL: Duration = Duration::from_secs(3);
    let mut town = town();
    let hold = town.hold(1, "job", TTL);
    town.run_until(1_500);
    assert_eq!(town.count("a", is_renewal), 1);
    town.input(Input::Release(hold, None));
    assert!(town.stores[0].claims.is_empty());
    let lease = *town.stores[0].leases.keys().next().expect("it is kept for the next lock");
    // Neither the end of the lease nor that of the connection says anything about a lock now.
    town.stores[0].end_lease(lease, "revoked");
    town.run_until(3_000);
    town.set("a", State::Swallowed);
    town.run_until(60_000);
    assert!(town.lost.is_empty(), "{:?}", town.lost);
    assert_eq!(town.count("a", is_renewal), 1);
    assert!(town.session.is_quiet());
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
