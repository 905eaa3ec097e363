//! Unary calls that wait: in order, and bound to the call.

use std::time::Duration;

use fencepost_proto::v1;
use tokio::sync::mpsc;
use tonic::{Code, Request};

use crate::support::{
    acquired, get_lock, lease, lock_request, refused, soon, unlock, until_waiters, world,
};

// Requirements: S0-065, S0-085, S0-097, S0-104, S1-012, S1-025, S1-083, S1-090, S2-003, S2-005.
// Requirements: S2-007, S2-012.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_wait_and_each_release_tells_exactly_one() {
    const WAITERS: u64 = 100;
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let first = lease(&mut locks, "first").await;
    let mut token = acquired(&mut locks, "a", first).await;
    let mut holder = first;
    let (tell, mut told) = mpsc::channel(1_000);
    let mut order = Vec::new();
    for count in 1..=WAITERS {
        let next = lease(&mut locks, &format!("c{count}")).await;
        let (mut waits, tell) = (locks.clone(), tell.clone());
        tokio::spawn(async move {
            let answer = waits.lock(lock_request("a", next, -1)).await;
            tell.send((next, answer)).await.expect("the test listens");
        });
        until_waiters(&mut locks, "a", count).await;
        order.push(next);
    }
    for expected in order {
        assert!(unlock(&mut locks, "a", holder, token).await);
        let (lease, answer) = soon(told.recv()).await.expect("somebody is granted");
        assert_eq!(lease, expected, "nobody overtakes");
        let answer = answer.expect("it is granted").into_inner();
        assert!(answer.acquired && answer.fencing_token > token && answer.remaining_ms > 0);
        (holder, token) = (lease, answer.fencing_token);
        // The state was asked after the release: nobody else was told.
        let shown = get_lock(&mut locks, "a").await;
        assert_eq!((shown.holders.len(), shown.holders[0].lease_id), (1, holder));
        assert!(told.try_recv().is_err());
    }
    assert_eq!(get_lock(&mut locks, "a").await.waiters_total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_cancelled_or_past_its_deadline_gives_up_its_place() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    acquired(&mut locks, "a", one).await;
    let mut waits = locks.clone();
    let waiting = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
    until_waiters(&mut locks, "a", 1).await;
    waiting.abort();
    until_waiters(&mut locks, "a", 0).await;

    let mut late = Request::new(lock_request("a", two, -1));
    late.set_timeout(Duration::from_millis(300));
    let status = locks.lock(late).await.expect_err("it is past its deadline");
    assert!(matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded), "{status:?}");
    until_waiters(&mut locks, "a", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_gives_up_its_places() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let one = lease(&mut locks, "one").await;
    let token = acquired(&mut locks, "a", one).await;
    let leaving = world.locks(0).await;
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let next = lease(&mut locks, "leaving").await;
        let mut waits = leaving.clone();
        waiting.push(tokio::spawn(async move { waits.lock(lock_request("a", next, -1)).await }));
    }
    until_waiters(&mut locks, "a", 5).await;
    drop(leaving);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    until_waiters(&mut locks, "a", 0).await;
    assert!(unlock(&mut locks, "a", one, token).await);
    assert!(get_lock(&mut locks, "a").await.holders.is_empty());
}

// Requirements: S0-038.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_over_is_answered_and_leaves_nothing_behind() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    let token = acquired(&mut locks, "a", one).await;
    let told = soon(locks.lock(lock_request("a", two, 100))).await.expect("it is answered");
    let told = told.into_inner();
    assert_eq!((told.acquired, told.fencing_token, &*told.holder), (false, 0, "one"));
    assert_eq!(until_waiters(&mut locks, "a", 0).await.holders[0].fencing_token, token);
}

// The lock of a waiter is what stands before the last slash of its key, however names nest.
// Requirements: S0-021, S0-139.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_names_its_lock() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    let names = ["a", "a/b", "a/b/c"];
    for name in names {
        acquired(&mut locks, name, one).await;
        let mut waits = locks.clone();
        tokio::spawn(async move { waits.lock(lock_request(name, two, -1)).await });
        until_waiters(&mut locks, name, 1).await;
    }
    for name in names {
        let lock = get_lock(&mut locks, name).await;
        let waiter = &lock.waiters[0];
        assert_eq!(waiter.key.rsplit_once('/'), Some((&*lock.name, &*format!("{two:x}"))));
        assert_eq!((&*lock.name, &*waiter.client_id, waiter.lease_id), (name, "two", two));
    }
    // Each waiter names the key just ahead of it.
    let three = lease(&mut locks, "three").await;
    let mut waits = locks.clone();
    tokio::spawn(async move { waits.lock(lock_request("a", three, -1)).await });
    let waiters = until_waiters(&mut locks, "a", 2).await.waiters;
    let ahead: Vec<&str> = waiters.iter().map(|waiter| &*waiter.predecessor_key).collect();
    assert_eq!(ahead, [format!("a/{one:x}"), format!("a/{two:x}")]);
    // The waiter's lease names all of them.
    let get = v1::GetLeaseRequest { id: two };
    let keys = locks.get_lease(get).await.expect("it lives").into_inner().lease;
    let keys = keys.expect("it is there").keys;
    let expected: Vec<String> = names.iter().map(|name| format!("{name}/{two:x}")).collect();
    assert_eq!(keys, expected);
}

// Requirements: S0-086.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_answered_when_the_holders_lease_expires() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let two = lease(&mut locks, "two").await;
    let short = v1::LeaseGrantRequest { ttl_ms: 2_000, ..Default::default() };
    let one = locks.lease_grant(short).await.expect("it is granted").into_inner().id;
    let token = acquired(&mut locks, "a", one).await;
    // Nothing ends the lease but its time.
    let told = soon(locks.lock(lock_request("a", two, -1))).await.expect("it is answered");
    let told = told.into_inner();
    assert!(told.acquired && told.fencing_token > token, "{told:?}");
    assert_eq!(refused(locks.get_lease(v1::GetLeaseRequest { id: one }).await), "lease_not_found");
    assert_eq!(get_lock(&mut locks, "a").await.holders[0].lease_id, two);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_lease_or_key_goes_gets_a_clear_error() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let one = lease(&mut locks, "one").await;
    acquired(&mut locks, "a", one).await;
    for is_revoked in [true, false] {
        let two = lease(&mut locks, "two").await;
        let mut waits = locks.clone();
        let waiting = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
        until_waiters(&mut locks, "a", 1).await;
        if is_revoked {
            let revoke = v1::LeaseRevokeRequest { id: two, epoch: 0 };
            locks.lease_revoke(revoke).await.expect("it lives");
        } else {
            let key = format!("a/{two:x}");
            let delete = v1::DeleteRangeRequest { key, ..Default::default() };
            locks.delete_range(delete).await.expect("it is there");
        }
        let answer = soon(waiting).await.expect("it does not panic");
        let expected = if is_revoked { "lease_not_found" } else { "wait_ended" };
        assert_eq!(refused(answer), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_calls_of_one_lease_share_a_place_and_one_may_leave() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    let token = acquired(&mut locks, "a", one).await;
    let mut waits = locks.clone();
    let staying = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
    until_waiters(&mut locks, "a", 1).await;
    // The second one waits on the same place, and no longer.
    let told = soon(locks.lock(lock_request("a", two, 50))).await.expect("it is answered");
    assert!(!told.into_inner().acquired);
    assert_eq!(get_lock(&mut locks, "a").await.waiters_total, 1);
    assert!(unlock(&mut locks, "a", one, token).await);
    let told = soon(staying).await.expect("it does not panic").expect("it is answered");
    assert!(told.into_inner().acquired);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_what_waits_and_says_so() {
    let mut world = world(1).await;
    let mut locks = world.locks(0).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    acquired(&mut locks, "a", one).await;
    let mut waits = locks.clone();
    let waiting = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
    until_waiters(&mut locks, "a", 1).await;
    let server = world.servers.remove(0);
    let stopping = tokio::spawn(server.stop());
    let answer = soon(waiting).await.expect("it does not panic");
    assert_eq!(refused(answer), "shutting_down");
    soon(stopping).await.expect("it does not panic");
    // The node goes on, and a new server finds the place given up.
    world.servers.push(crate::support::serve(&world.cluster.nodes()[0]).await);
    let mut locks = world.locks(0).await;
    assert_eq!(get_lock(&mut locks, "a").await.waiters_total, 0);
}
