//! Acquiring and giving back.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fencepost_client::{Error, Released};

use crate::support::grpc::Server;
use crate::{SOON, client};

// Requirements: S2-005, S2-008, S2-011.
#[tokio::test]
async fn a_lock_is_held_seen_by_others_and_given_back() {
    let server = Server::start();
    let client = client(&server, "job-runner").await;
    let guard = client
        .lock("reports/nightly")
        .ttl(Duration::from_secs(10))
        .metadata("host-7")
        .signed()
        .acquire()
        .await
        .expect("the lock is free");
    assert!(guard.is_valid());
    assert_eq!(guard.name(), "reports/nightly");
    assert_eq!(guard.key(), format!("reports/nightly/{:x}", guard.lease_id()));
    assert!(guard.remaining() > Duration::from_secs(5));
    let signed = format!("signed.{}", guard.token());
    assert_eq!(guard.signed_token(), Some(signed.as_str()));

    let lock = client.get_lock("reports/nightly").await.expect("the server answers");
    assert_eq!(lock.holders.len(), 1);
    assert_eq!(lock.holders[0].fencing_token, guard.token().get());
    assert_eq!(lock.holders[0].client_id, client.name());
    assert_eq!(lock.holders[0].metadata, "host-7");

    let first = guard.token();
    assert_eq!(guard.release().await, Ok(Released::InTime));
    let guard = client.lock("reports/nightly").acquire().await.expect("the lock is free again");
    assert!(guard.token() > first, "tokens grow");
}

// Requirements: S0-134.
#[tokio::test]
async fn a_lease_lives_for_thirty_seconds_if_nothing_else_is_said() {
    let server = Server::start();
    let client = client(&server, "usual").await;
    let guard = client.lock("a").acquire().await.expect("the lock is free");
    let ttl = server.with(|store| store.leases[&guard.lease_id()].ttl);
    assert_eq!(Duration::from_micros(ttl), Duration::from_secs(30));
}

#[tokio::test]
async fn a_lock_cycle_needs_no_new_lease() {
    let server = Server::start();
    let client = client(&server, "cycles").await;
    let mut leases = Vec::new();
    for _ in 0..5 {
        let guard = client.lock("a").acquire().await.expect("the lock is free");
        leases.push(guard.lease_id());
        guard.release().await.expect("the server answers");
    }
    leases.dedup();
    assert_eq!(leases.len(), 1, "one lease serves them all");
}

#[tokio::test]
async fn whoever_waits_hears_who_holds_and_how_it_moves_up() {
    let server = Server::start();
    let (one, two) = (client(&server, "one").await, client(&server, "two").await);
    let three = client(&server, "three").await;
    let first = one.lock("a").acquire().await.expect("the lock is free");
    let second = tokio::spawn(two.lock("a").acquire());
    server.until(|store| store.queues["a"].len() == 2).await;
    let (tell, mut told) = tokio::sync::mpsc::channel(10);
    let waits = three.lock("a").on_queued(move |place| {
        tell.try_send((place.position, place.holder.clone())).expect("there is room");
    });
    let third = tokio::spawn(waits.acquire());
    assert_eq!(told.recv().await, Some((2, one.name().to_owned())));
    first.release().await.expect("the server answers");
    assert_eq!(told.recv().await, Some((1, two.name().to_owned())));
    let second = second.await.expect("no panic").expect("its turn comes");
    second.release().await.expect("the server answers");
    drop(third.await.expect("no panic").expect("its turn comes"));
    assert_eq!(told.recv().await, None, "nothing more is told");
}

#[tokio::test]
async fn keys_are_read_page_by_page() {
    let server = Server::start();
    let client = client(&server, "pages").await;
    for number in 0..5 {
        client.kv().put(format!("k{number}"), "v").await.expect("the server answers");
    }
    let (mut keys, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.kv().page("k", after, 2).await.expect("the server answers");
        keys.extend(page.kvs.into_iter().map(|kv| kv.key));
        if !page.more {
            break;
        }
        after = keys.last().cloned().expect("each page brings something");
    }
    assert_eq!(keys, ["k0", "k1", "k2", "k3", "k4"]);
}

#[tokio::test]
async fn tasks_of_one_client_take_turns_in_order() {
    let server = Server::start();
    let client = client(&server, "many").await;
    let first = client.lock("a").acquire().await.expect("the lock is free");
    let (tell, mut told) = tokio::sync::mpsc::channel(10);
    let mut waiting = Vec::new();
    for number in 0..5 {
        let mut acquire = Box::pin(client.lock("a").acquire());
        // Polled once, in this order: that is when each joins the line.
        let mut context = Context::from_waker(Waker::noop());
        assert!(acquire.as_mut().poll(&mut context).is_pending());
        let tell = tell.clone();
        waiting.push(tokio::spawn(async move {
            let guard = acquire.await.expect("its turn comes");
            tell.send((number, guard.token())).await.expect("somebody listens");
            guard.release().await.expect("the server answers");
        }));
    }
    first.release().await.expect("the server answers");
    let mut tokens = Vec::new();
    for expected in 0..5 {
        let (number, token) = told.recv().await.expect("five come");
        assert_eq!(number, expected);
        tokens.push(token);
    }
    assert!(tokens.is_sorted());
    for task in waiting {
        task.await.expect("no task panics");
    }
}

#[tokio::test]
async fn not_to_be_had_is_told_apart_from_not_in_time() {
    let server = Server::start();
    let (holder, other) = (client(&server, "holder").await, client(&server, "other").await);
    let guard = holder.lock("a").acquire().await.expect("the lock is free");
    let denied = other.lock("a").try_once().acquire().await.expect_err("it is held");
    assert_eq!(denied, Error::Denied { holder: holder.name().to_owned() });
    let late = other.lock("a").wait(Duration::from_millis(50)).acquire().await;
    assert_eq!(late.expect_err("it is held"), Error::Timeout);
    // The same client asks itself.
    let own = holder.lock("a").try_once().acquire().await.expect_err("it is held");
    assert_eq!(own, Error::Denied { holder: holder.name().to_owned() });
    server.with(|store| assert_eq!(store.claims.len(), 1, "nobody is left in the queue"));
    drop(guard);
}

// Requirements: S1-084.
#[tokio::test]
async fn dropping_a_guard_lets_the_next_one_in() {
    let server = Server::start();
    let (holder, other) = (client(&server, "holder").await, client(&server, "other").await);
    let guard = holder.lock("a").acquire().await.expect("the lock is free");
    let waits = other.lock("a").wait(SOON).acquire();
    drop(guard);
    let guard = waits.await.expect("it is given back");
    assert!(guard.is_valid());
}

#[test]
fn a_guard_dropped_after_its_runtime_is_given_back() {
    let server = Server::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let guard = first.block_on(async {
        let client = client(&server, "doomed").await;
        client.lock("a").acquire().await.expect("the lock is free")
    });
    drop(first);
    assert!(guard.is_valid());
    drop(guard);
    server.block_until(|store| store.claims.is_empty());
}

#[tokio::test]
async fn an_abandoned_acquire_leaves_nothing_behind() {
    let server = Server::start();
    let (holder, other) = (client(&server, "holder").await, client(&server, "other").await);
    let guard = holder.lock("a").acquire().await.expect("the lock is free");
    {
        let mut waits = pin!(other.lock("a").acquire());
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(waits.as_mut().poll(&mut context), Poll::Pending));
        server.until(|store| store.claims.len() == 2).await;
    }
    server.until(|store| store.claims.len() == 1).await;
    drop(guard);
    server.until(|store| store.claims.is_empty()).await;
}

#[tokio::test]
async fn shared_holders_and_permits_hold_together() {
    let server = Server::start();
    let client = client(&server, "readers").await;
    let one = client.lock("doc").shared().acquire().await.expect("it is free");
    let two = client.lock("doc").shared().acquire().await.expect("it is shared");
    assert_ne!(one.lease_id(), two.lease_id());
    let writer = client.lock("doc").wait(Duration::from_millis(20)).acquire().await;
    assert_eq!(writer.expect_err("it is read"), Error::Timeout);

    let first = client.lock("pool").permits(2).acquire().await.expect("it is free");
    let _second = client.lock("pool").permits(2).acquire().await.expect("one is left");
    let third = client.lock("pool").permits(2).try_once().acquire().await;
    assert!(matches!(third, Err(Error::Denied { .. })));
    first.release().await.expect("the server answers");
    let _third = client.lock("pool").permits(2).acquire().await.expect("one is left");
}

#[tokio::test]
async fn several_locks_are_held_together_or_not_at_all() {
    let server = Server::start();
    let (one, two) = (client(&server, "one").await, client(&server, "two").await);
    let both = one.locks(["a", "b"]).acquire().await.expect("both are free");
    assert_eq!(both.names(), ["a", "b"]);
    let waits = two.lock("b").wait(SOON).acquire();
    assert_eq!(both.release().await, Ok(Released::InTime));
    let b = waits.await.expect("b is free");
    let denied = one.locks(["a", "b"]).try_once().acquire().await;
    assert!(matches!(denied, Err(Error::Denied { .. })));
    let a = one.lock("a").try_once().acquire().await.expect("a was left alone");
    drop((a, b));
    let wrong = one.locks(["a", "a"]).acquire().await.expect_err("it makes no sense");
    assert!(matches!(wrong, Error::Invalid { .. }), "{wrong}");
}

#[tokio::test]
async fn reentrant_guards_share_a_token_and_the_last_one_releases() {
    let server = Server::start();
    let (client, other) = (client(&server, "nested").await, client(&server, "other").await);
    let outer = client.lock("a").reentrant().acquire().await.expect("it is free");
    let inner = client.lock("a").reentrant().acquire().await.expect("it is its own");
    assert_eq!(outer.token(), inner.token());
    assert_eq!(inner.release().await, Ok(Released::StillShared));
    assert!(outer.is_valid());
    let denied = other.lock("a").try_once().acquire().await;
    assert!(matches!(denied, Err(Error::Denied { .. })));
    let token = outer.cancel_token();
    assert_eq!(outer.release().await, Ok(Released::InTime));
    token.cancelled().await;
    let _guard = other.lock("a").try_once().acquire().await.expect("it is free");
}

#[tokio::test]
async fn what_the_service_refuses_is_told_with_its_code() {
    let server = Server::start();
    let client = client(&server, "hasty").await;
    let refused = client.lock("a").ttl(Duration::from_millis(10)).acquire().await;
    let Err(Error::Rejected { code, retryable, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(code, "ttl_too_short");
    assert!(!retryable);
}
