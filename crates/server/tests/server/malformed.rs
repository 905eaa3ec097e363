//! Input that means nothing: a clear error, and nothing changed.

use std::future::Future;

use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use tonic::Code;

use crate::support::{Locks, Talk, acquire, lease, refused, soon, world};

async fn revision(locks: &mut Locks) -> i64 {
    let all = v1::RangeRequest { prefix: true, ..Default::default() };
    let found = locks.range(all).await.expect("it is answered").into_inner();
    found.header.expect("every answer has one").revision
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_mean_nothing_are_refused_and_change_nothing() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let id = lease(&mut locks, "c").await;
    let before = revision(&mut locks).await;
    async fn expect<T: std::fmt::Debug>(
        code: &str,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) {
        assert_eq!(refused(call.await), code);
    }
    let good = v1::LockRequest { name: "a".into(), lease_id: id, ..Default::default() };
    let lock = |change: fn(&mut v1::LockRequest)| {
        let (mut request, mut locks) = (good.clone(), locks.clone());
        change(&mut request);
        async move { locks.lock(request).await }
    };
    expect("name_empty", lock(|one| one.name.clear())).await;
    expect("name_too_long", lock(|one| one.name = "x".repeat(1_008))).await;
    expect("metadata_too_large", lock(|one| one.metadata = vec![0; (1 << 20) + 1].into())).await;
    expect("lease_not_found", lock(|one| one.lease_id += 1_000)).await;
    expect("lease_epoch_stale", lock(|one| one.lease_epoch = 999)).await;
    expect("field_invalid", lock(|one| one.lease_id = 0)).await;
    expect("field_invalid", lock(|one| one.lease_id = i64::MIN)).await;
    expect("field_invalid", lock(|one| one.timeout_ms = -2)).await;
    expect("span_too_long", lock(|one| one.timeout_ms = i64::MAX)).await;
    expect("field_invalid", lock(|one| one.mode = 77)).await;
    expect("permits_invalid", lock(|one| one.mode = 2)).await;
    expect("field_invalid", lock(|one| one.permits = 3)).await;
    let grant = |change: fn(&mut v1::LeaseGrantRequest)| {
        let mut request = v1::LeaseGrantRequest { ttl: 5, ..Default::default() };
        let mut locks = locks.clone();
        change(&mut request);
        async move { locks.lease_grant(request).await }
    };
    expect("ttl_too_short", grant(|one| one.ttl = 0)).await;
    expect("ttl_too_long", grant(|one| one.ttl = i64::MAX)).await;
    expect("field_invalid", grant(|one| one.ttl = -1)).await;
    expect("field_invalid", grant(|one| one.ttl_ms = -1)).await;
    expect("lease_id_invalid", grant(|one| one.id = -5)).await;
    expect("text_too_long", grant(|one| one.client_id = "x".repeat(257))).await;
    expect("field_invalid", grant(|one| one.revoke_on_disconnect_ms = -1)).await;
    let unlock = v1::UnlockRequest {
        name: "a".into(),
        lease_id: id,
        fencing_token: -1,
        ..Default::default()
    };
    expect("field_invalid", locks.clone().unlock(unlock)).await;
    let force = v1::ForceReleaseRequest { name: "a".into(), ..Default::default() };
    expect("reason_empty", locks.clone().force_release(force)).await;
    expect("key_empty", locks.clone().put(v1::PutRequest::default())).await;
    let long = v1::PutRequest { key: "k".repeat(1_025), ..Default::default() };
    expect("key_too_long", locks.clone().put(long)).await;
    let large = v1::PutRequest {
        key: "k".into(),
        value: vec![0; (1 << 20) + 1].into(),
        ..Default::default()
    };
    expect("value_too_large", locks.clone().put(large)).await;
    let gone = v1::PutRequest { key: "k".into(), lease_id: 9_999, ..Default::default() };
    expect("lease_not_found", locks.clone().put(gone)).await;
    expect("key_empty", locks.clone().range(v1::RangeRequest::default())).await;
    expect("key_empty", locks.clone().delete_range(v1::DeleteRangeRequest::default())).await;
    expect("name_empty", locks.clone().get_lock(v1::GetLockRequest::default())).await;
    expect("field_invalid", locks.clone().explain(v1::ExplainRequest::default())).await;
    expect("lease_not_found", locks.clone().get_lease(v1::GetLeaseRequest { id: -1 })).await;
    assert_eq!(revision(&mut locks).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_refused() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let before = revision(&mut locks).await;
    let value = vec![0; 2 << 20].into();
    let put = v1::PutRequest { key: "k".into(), value, ..Default::default() };
    let status = locks.put(put).await.expect_err("it is too large");
    assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status:?}");
    assert_eq!(revision(&mut locks).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_must_begin_with_a_greeting_that_can_be_met() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let hello = |client_id: &str, version_min, version_max| {
        let client_id = client_id.to_owned();
        Request::Hello(v1::SessionHello {
            client_id,
            version_min,
            version_max,
            ..Default::default()
        })
    };
    let wrong = [
        (Request::Ping(v1::Ping {}), "hello_expected"),
        (hello("", 1, 1), "client_empty"),
        (hello(&"x".repeat(300), 1, 1), "text_too_long"),
        (hello("c", 2, 9), "version_unsupported"),
        (hello("c", 9, 2), "version_unsupported"),
    ];
    for (request, code) in wrong {
        let mut talk = Talk::silent(&mut locks).await;
        talk.say(1, None, request).await;
        assert_eq!(talk.failure().await.code, code);
        // The server ends the stream.
        assert_eq!(soon(talk.answers.message()).await.expect("it ends well"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_mean_nothing_fail_alone() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut talk = Talk::open(&mut locks, "c").await;
    let lease = talk.lease(2, 1, 0).await;
    let before = revision(&mut locks).await;
    let frame = |request_id, request| v1::SessionRequest { request_id, once: None, request };
    let ping = |request_id| frame(request_id, Some(Request::Ping(v1::Ping {})));
    let hello = Request::Hello(v1::SessionHello::default());
    let renew = Request::Renew(v1::RenewMany::default());
    let cancel = Request::Watch(v1::WatchRequest { cancel: true, ..Default::default() });
    let zero = v1::SessionRequest {
        once: Some(v1::Once { seq: 0, ack_upto: 0 }),
        ..frame(13, Some(acquire(&["a"], lease, -1)))
    };
    let wrong = [
        (frame(10, None), "request_empty"),
        (frame(11, Some(hello)), "hello_repeated"),
        (frame(12, Some(acquire(&[], lease, -1))), "names_empty"),
        (frame(12, Some(acquire(&["a", "a"], lease, -1))), "name_repeated"),
        (frame(12, Some(acquire(&["a"], (0, 0), -1))), "field_invalid"),
        (frame(12, Some(acquire(&["a"], (lease.0, 77_777), -1))), "lease_epoch_stale"),
        (frame(12, Some(renew)), "request_empty"),
        (frame(12, Some(cancel)), "watch_unknown"),
        (frame(0, Some(acquire(&["a"], lease, -1))), "field_invalid"),
        (zero, "seq_zero"),
    ];
    for (frame, code) in wrong {
        talk.sender.send(frame).await.expect("the stream is open");
        let failure = talk.failure().await;
        assert_eq!((&*failure.code, failure.indeterminate), (code, false));
        talk.sender.send(ping(99)).await.expect("the stream is open");
        assert_eq!(talk.hear().await.request_id, 99, "{code}");
    }
    assert_eq!(revision(&mut locks).await, before);
    // A name that is in use.
    let mut holder = Talk::open(&mut locks, "holder").await;
    let held = holder.lease(2, 1, 0).await;
    holder.say(3, None, acquire(&["a"], held, -1)).await;
    holder.acquired().await;
    talk.say(20, Some(1), acquire(&["a"], lease, -1)).await;
    talk.acquired().await;
    talk.say(20, Some(2), acquire(&["b"], lease, -1)).await;
    assert_eq!(talk.failure().await.code, "request_id_in_use");
}
