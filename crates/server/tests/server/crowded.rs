//! Sessions that ask for very much at once, or for something very large.

use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use tonic::Code;

use crate::support::{
    Talk, acquire, acquired, code, get_lock, lease, lock_request, release, soon, until_waiters,
    world,
};

/// Requests that a session may have open, as the welcome says.
const REQUESTS_MAX: u64 = 16_384;

fn renew(lease: (i64, u64)) -> Request {
    let renewals = vec![v1::LeaseKeepAliveRequest { id: lease.0, epoch: lease.1, number: 1 }];
    Request::Renew(v1::RenewMany { renewals })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_full_of_waits_still_keeps_and_gives_up_what_it_holds() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut holder = Talk::open(&mut locks, "holder").await;
    let held = holder.lease(2, 1, 0).await;
    holder.say(3, Some(1), acquire(&["a"], held, -1)).await;
    let token = holder.acquired().await.1.fencing_token;
    let waits = holder.lease(4, 2, 0).await;
    // Each waits for a lock of its own that somebody else has, all on one lease.
    let mut other = Talk::open(&mut locks, "owner").await;
    let owner = other.lease(2, 1, 0).await;
    for talk in [(&mut other, owner), (&mut holder, waits)] {
        let (talk, lease) = talk;
        for number in 0..REQUESTS_MAX {
            let name = format!("w{number}");
            talk.say(100 + number, None, acquire(&[&name], lease, -1)).await;
        }
        for _ in 0..REQUESTS_MAX {
            talk.acquired().await;
        }
    }
    holder.say(50, Some(9), acquire(&["b"], held, -1)).await;
    assert_eq!(holder.failure().await.code, "overloaded");
    holder.say(51, None, renew(held)).await;
    assert!(matches!(holder.hear().await.response, Some(Response::Renewed(_))));
    holder.say(52, Some(2), release("a", held, token)).await;
    assert!(matches!(holder.hear().await.response, Some(Response::Released(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_answers_come_in_pages_and_the_session_goes_on() {
    const VALUE: usize = 900_000;
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut talk = Talk::open(&mut locks, "reader").await;
    for number in 0..12 {
        let value = vec![b'x'; VALUE].into();
        let key = format!("big/{number:02}");
        let put = v1::PutRequest { key, value, ..Default::default() };
        locks.put(put).await.expect("it fits");
    }
    let (mut after, mut found) = (bytes::Bytes::new(), 0);
    loop {
        let range =
            v1::RangeRequest { key: "big/".into(), prefix: true, after, ..Default::default() };
        talk.say(10 + found, None, Request::Range(range)).await;
        let Some(Response::Range(page)) = talk.hear().await.response else { panic!() };
        found += page.kvs.len() as u64;
        after = page.kvs.last().expect("every page has one").key.clone().into();
        if !page.more {
            break;
        }
    }
    assert_eq!(found, 12);
    let delete = v1::DeleteRangeRequest { key: "big/".into(), prefix: true, prev_kv: true };
    talk.say(50, None, Request::DeleteRange(delete)).await;
    let Some(Response::Deleted(gone)) = talk.hear().await.response else { panic!() };
    assert_eq!((gone.deleted, gone.prev_kvs_cut), (12, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_many_share_with_large_metadata_can_be_shown() {
    const HOLDERS: i64 = 40;
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut last = 0;
    for number in 0..HOLDERS {
        last = lease(&mut locks, &format!("c{number}")).await;
        let metadata = vec![b'm'; 120_000].into();
        let mode = v1::LockMode::Shared.into();
        let request = v1::LockRequest { metadata, mode, ..lock_request("s", last, -1) };
        locks.lock(request).await.expect("it is shared");
    }
    let lock = get_lock(&mut locks, "s").await;
    assert_eq!((lock.holders.len() as i64, lock.holders_total as i64), (HOLDERS, HOLDERS));
    let cut = lock.holders.iter().filter(|one| one.metadata_cut).count();
    let shown = lock.holders.iter().filter(|one| !one.metadata.is_empty()).count();
    assert!(cut > 0 && shown > 0 && (cut + shown) as i64 == HOLDERS, "{cut} {shown}");
    let mut talk = Talk::open(&mut locks, "reader").await;
    let own = v1::GetLockRequest { name: "s".into(), lease_id: last, ..Default::default() };
    talk.say(2, None, Request::GetLock(own)).await;
    let Some(Response::Lock(found)) = talk.hear().await.response else { panic!() };
    let found = found.lock.expect("it is there");
    assert_eq!(found.holders.iter().map(|one| one.lease_id).collect::<Vec<_>>(), [last]);
    assert_eq!(found.holders_total as i64, HOLDERS);
}

/// The stream is at an end, and must not look alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_too_large_ends_the_session_with_a_reason() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut talk = Talk::open(&mut locks, "writer").await;
    let watch = v1::WatchRequest { key: "w".into(), watch_id: 1, ..Default::default() };
    talk.say(2, None, Request::Watch(watch)).await;
    assert!(matches!(talk.hear().await.response, Some(Response::Watch(_))));
    let put =
        v1::PutRequest { key: "k".into(), value: vec![0; 1_700_000].into(), ..Default::default() };
    talk.say(3, None, Request::Put(put)).await;
    let ended = soon(talk.answers.message()).await.expect_err("it cannot be read");
    assert_eq!(ended.code(), Code::OutOfRange, "{ended:?}");
}

/// The call that leaves last was refused. The place of the one before it must not stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_takes_back_the_place_of_the_one_that_went_before_it() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let holder = lease(&mut locks, "holder").await;
    acquired(&mut locks, "n", holder).await;
    let waits = lease(&mut locks, "waits").await;
    for _ in 0..50 {
        let mut first = world.locks(0).await;
        let queued = tokio::spawn(async move { first.lock(lock_request("n", waits, -1)).await });
        until_waiters(&mut locks, "n", 1).await;
        let mut second = world.locks(0).await;
        let mode = v1::LockMode::Shared.into();
        let request = v1::LockRequest { mode, ..lock_request("n", waits, 20) };
        let other = tokio::spawn(async move { second.lock(request).await });
        queued.abort();
        // Refused, if the first one was still there; otherwise it has waited by itself.
        match soon(other).await.expect("it ends") {
            Ok(told) => assert!(!told.into_inner().acquired),
            Err(status) => assert_eq!(code(&status), "mode_conflict"),
        }
        until_waiters(&mut locks, "n", 0).await;
    }
}
