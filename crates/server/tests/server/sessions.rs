//! The session stream.

use std::collections::BTreeMap;

use fencepost_proto::v1;
use fencepost_proto::v1::session_acquired::State as Stage;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

use crate::support::{Talk, acquire, get_lock, release, soon, until_waiters, world};

// Requirements: S1-083.
#[tokio::test(flavor = "multi_thread")]
async fn many_requests_are_open_at_once_and_each_is_answered() {
    const COUNT: u64 = 500;
    let world = world(1).await;
    let mut talk = Talk::open(&mut world.locks(0).await, "c").await;
    let lease = talk.lease(2, 1, 0).await;
    for number in 0..COUNT {
        let name = format!("n{number}");
        talk.say(100 + number, Some(1 + number), acquire(&[&name], lease, -1)).await;
    }
    let mut tokens = BTreeMap::new();
    for _ in 0..COUNT {
        let (id, told) = talk.acquired().await;
        assert_eq!(told.state(), Stage::Acquired);
        assert!(tokens.insert(id - 100, told.fencing_token).is_none());
    }
    for (number, token) in &tokens {
        let request = release(&format!("n{number}"), lease, *token);
        talk.say(100 + number, Some(501 + number), request).await;
    }
    for _ in 0..COUNT {
        let heard = talk.hear().await;
        let Some(Response::Released(told)) = heard.response else { panic!("{heard:?}") };
        assert!(told.released);
        assert!(tokens.remove(&(heard.request_id - 100)).is_some());
    }
    // Again, and of what is not held: no harm.
    talk.say(9, Some(2_000), release("n0", lease, 5)).await;
    let failure = talk.failure().await;
    assert_eq!((&*failure.code, failure.retryable), ("seq_too_far", true));
    talk.say(9, None, release("n0", lease, 5)).await;
    let heard = talk.hear().await;
    assert!(matches!(heard.response, Some(Response::Released(told)) if !told.released));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_survives_its_stream_and_is_taken_up_again() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut holder = Talk::open(&mut locks, "holder").await;
    let held = holder.lease(2, 1, 0).await;
    holder.say(3, Some(1), acquire(&["a"], held, -1)).await;
    let token = holder.acquired().await.1.fencing_token;

    let mut talk = Talk::open(&mut locks, "c").await;
    let lease = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire(&["a"], lease, -1)).await;
    let (_, queued) = talk.acquired().await;
    assert_eq!((queued.state(), queued.position), (Stage::Queued, 1));
    let mut other = Talk::open(&mut locks, "other").await;
    let behind = other.lease(2, 1, 0).await;
    other.say(3, Some(1), acquire(&["a"], behind, -1)).await;
    assert_eq!(other.acquired().await.1.position, 2);
    drop(talk);

    // The stream is gone, the place is not.
    assert_eq!(get_lock(&mut locks, "a").await.waiters_total, 2);
    let mut talk = Talk::open(&mut locks, "c").await;
    talk.say(30, Some(1), acquire(&["a"], lease, -1)).await;
    let (_, queued) = talk.acquired().await;
    assert_eq!((queued.state(), queued.position), (Stage::Queued, 1));
    holder.say(4, Some(2), release("a", held, token)).await;
    let (id, told) = talk.decided().await;
    assert_eq!((id, told.state()), (30, Stage::Acquired));
    assert!(told.fencing_token > token && told.remaining_ms > 0, "{told:?}");
    assert_eq!(told.keys, [format!("a/{:x}", lease.0)]);
    drop(talk);
    // Granted while nobody listened: the repeat is told so.
    let mut talk = Talk::open(&mut locks, "c").await;
    talk.say(31, Some(1), acquire(&["a"], lease, -1)).await;
    let (_, again) = talk.acquired().await;
    assert_eq!((again.state(), again.fencing_token), (Stage::Acquired, told.fencing_token));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_is_cancelled_by_its_number() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut holder = Talk::open(&mut locks, "holder").await;
    let held = holder.lease(2, 1, 0).await;
    holder.say(3, Some(1), acquire(&["a"], held, -1)).await;
    holder.acquired().await;
    let mut talk = Talk::open(&mut locks, "c").await;
    let lease = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire(&["a"], lease, -1)).await;
    talk.acquired().await;
    let cancel = |seq| {
        let (lease_id, lease_epoch) = lease;
        Request::Cancel(v1::SessionCancel { lease_id, lease_epoch, seq })
    };
    talk.say(4, Some(2), cancel(1)).await;
    let mut ended = [talk.acquired().await, talk.acquired().await];
    ended.sort_by_key(|(id, _)| *id);
    for ((id, told), expected) in ended.iter().zip([3, 4]) {
        assert_eq!((*id, told.state(), &*told.cause), (expected, Stage::Ended, "cancelled"));
    }
    assert_eq!(get_lock(&mut locks, "a").await.waiters_total, 0);
    // A cancel that comes first.
    talk.say(5, Some(3), cancel(4)).await;
    assert_eq!(talk.acquired().await.1.state(), Stage::Ended);
    talk.say(6, Some(4), acquire(&["b"], lease, -1)).await;
    let (_, told) = talk.acquired().await;
    assert_eq!((told.state(), &*told.cause), (Stage::Ended, "cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_end_for_every_cause_and_tries_are_denied() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut holder = Talk::open(&mut locks, "holder").await;
    let held = holder.lease(2, 1, 0).await;
    holder.say(3, Some(1), acquire(&["a"], held, -1)).await;
    holder.acquired().await;
    let mut talk = Talk::open(&mut locks, "c").await;
    let lease = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire(&["a"], lease, 0)).await;
    let (_, told) = talk.acquired().await;
    assert_eq!((told.state(), &*told.holder), (Stage::Denied, "holder"));
    talk.say(4, Some(2), acquire(&["a"], lease, 50)).await;
    assert_eq!(talk.acquired().await.1.state(), Stage::Queued);
    let (_, told) = talk.acquired().await;
    assert_eq!((told.state(), &*told.cause), (Stage::Ended, "timed_out"));
    talk.say(5, Some(3), acquire(&["a"], lease, -1)).await;
    assert_eq!(talk.acquired().await.1.state(), Stage::Queued);
    let revoke = v1::LeaseRevokeRequest { id: lease.0, epoch: lease.1 };
    talk.say(6, Some(2), Request::LeaseRevoke(revoke)).await;
    let mut causes = Vec::new();
    for _ in 0..2 {
        match talk.hear().await.response {
            Some(Response::Acquired(told)) => causes.push(told.cause),
            Some(Response::LeaseRevoked(told)) => causes.push(told.keys.to_string()),
            other => panic!("{other:?}"),
        }
    }
    causes.sort();
    assert_eq!(causes, ["1", "revoked"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_locks_are_taken_together() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut holder = Talk::open(&mut locks, "holder").await;
    let held = holder.lease(2, 1, 0).await;
    holder.say(3, Some(1), acquire(&["b"], held, -1)).await;
    let token = holder.acquired().await.1.fencing_token;
    let mut talk = Talk::open(&mut locks, "c").await;
    let lease = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire(&["a", "b"], lease, -1)).await;
    assert_eq!(talk.acquired().await.1.state(), Stage::Queued);
    holder.say(4, Some(2), release("b", held, token)).await;
    let (_, told) = talk.acquired().await;
    assert_eq!((told.state(), told.keys.len()), (Stage::Acquired, 2));
    for name in ["a", "b"] {
        assert_eq!(get_lock(&mut locks, name).await.holders[0].fencing_token, told.fencing_token);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_taken_away_is_told_of() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut talk = Talk::open(&mut locks, "c").await;
    let lease = talk.lease(2, 1, 0).await;
    for (number, name) in [(3, "a"), (4, "b")] {
        talk.say(number, Some(number), acquire(&[name], lease, -1)).await;
        let (_, told) = talk.acquired().await;
        if name == "a" {
            let key = told.keys[0].clone();
            let delete = v1::DeleteRangeRequest { key, ..Default::default() };
            locks.delete_range(delete).await.expect("it is there");
        } else {
            let force = v1::ForceReleaseRequest {
                name: name.into(),
                fencing_token: told.fencing_token,
                reason: "wanted".into(),
                now: false,
                signed: false,
                ..Default::default()
            };
            locks.force_release(force).await.expect("it is held");
        }
        let heard = talk.hear().await;
        assert_eq!(heard.request_id, 0);
        let Some(Response::HoldLost(lost)) = heard.response else { panic!("{heard:?}") };
        assert_eq!((&*lost.name, lost.lease_id), (name, lease.0));
        assert_eq!(lost.fencing_token, told.fencing_token);
        let expected =
            if name == "a" { ("deleted", "") } else { ("forced", "wanted (by 127.0.0.1:") };
        assert_eq!(lost.cause, expected.0);
        assert!(lost.reason.starts_with(expected.1), "{lost:?}");
        assert_eq!(lost.until_ms > 0, name == "b");
    }
}

// Requirements: S0-064, S0-090.
#[tokio::test(flavor = "multi_thread")]
async fn only_leases_that_want_it_are_revoked_with_their_stream() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut talk = Talk::open(&mut locks, "c").await;
    let (stays, goes) = (talk.lease(2, 1, 0).await, talk.lease(3, 2, 1).await);
    drop(talk);
    soon(async { while locks.get_lease(v1::GetLeaseRequest { id: goes.0 }).await.is_ok() {} })
        .await;
    let stayed = locks.get_lease(v1::GetLeaseRequest { id: stays.0 }).await;
    assert!(stayed.is_ok());
}

// Requirements: S0-090.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_old_stream_does_not_revoke_what_a_new_one_renews() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut old = Talk::open(&mut locks, "c").await;
    let lease = old.lease(2, 1, 1).await;
    let mut new = Talk::open(&mut locks, "c").await;
    let renew = |number| {
        let one = v1::LeaseKeepAliveRequest { id: lease.0, epoch: lease.1, number };
        Request::Renew(v1::RenewMany { renewals: vec![one] })
    };
    old.say(3, None, renew(1)).await;
    assert!(matches!(old.hear().await.response, Some(Response::Renewed(_))));
    new.say(2, None, renew(2)).await;
    assert!(matches!(new.hear().await.response, Some(Response::Renewed(_))));
    drop(old);
    // The grace is a millisecond. Another lease, whose stream goes afterwards, does not outlive it.
    let mut other = Talk::open(&mut locks, "d").await;
    let goes = other.lease(2, 1, 1).await;
    drop(other);
    soon(async { while locks.get_lease(v1::GetLeaseRequest { id: goes.0 }).await.is_ok() {} })
        .await;
    locks.get_lease(v1::GetLeaseRequest { id: lease.0 }).await.expect("it is renewed elsewhere");
    drop(new);
    soon(async { while locks.get_lease(v1::GetLeaseRequest { id: lease.0 }).await.is_ok() {} })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_requests_work_on_the_same_stream() {
    let world = world(1).await;
    let mut talk = Talk::open(&mut world.locks(0).await, "c").await;
    let lease = talk.lease(2, 1, 0).await;
    // The same request again acts once.
    assert_eq!(talk.lease(3, 1, 0).await, lease);
    let renew = |number| v1::LeaseKeepAliveRequest { id: lease.0, epoch: lease.1, number };
    let renewals = vec![renew(5), renew(6)];
    talk.say(4, None, Request::Renew(v1::RenewMany { renewals })).await;
    let Some(Response::Renewed(told)) = talk.hear().await.response else { panic!() };
    let numbers: Vec<_> = told.renewed.iter().map(|one| (one.number, one.ttl_ms)).collect();
    assert_eq!(numbers, [(5, 60_000), (6, 60_000)]);
    let put = v1::PutRequest { key: "k".into(), value: "v".into(), ..Default::default() };
    talk.say(5, None, Request::Put(put)).await;
    assert!(matches!(talk.hear().await.response, Some(Response::Put(_))));
    let range = v1::RangeRequest { key: "k".into(), ..Default::default() };
    talk.say(6, None, Request::Range(range)).await;
    let Some(Response::Range(found)) = talk.hear().await.response else { panic!() };
    assert_eq!(&found.kvs[0].value[..], b"v");
    let get = v1::GetLockRequest { name: "a".into(), ..Default::default() };
    talk.say(7, None, Request::GetLock(get)).await;
    let Some(Response::Lock(found)) = talk.hear().await.response else { panic!() };
    assert_eq!(found.lock.expect("it is there").name, "a");
    talk.say(70, None, Request::GetLock(v1::GetLockRequest::default())).await;
    let refusal = talk.hear().await.failure.expect("it is refused");
    assert_eq!(refusal.code, "name_empty");
    let delete = v1::DeleteRangeRequest { key: "k".into(), ..Default::default() };
    talk.say(8, None, Request::DeleteRange(delete)).await;
    let Some(Response::Deleted(gone)) = talk.hear().await.response else { panic!() };
    assert_eq!(gone.deleted, 1);
    talk.say(9, None, Request::Ping(v1::Ping {})).await;
    let pong = talk.hear().await;
    assert!(matches!(pong.response, Some(Response::Pong(_))));
    assert!(pong.header.expect("it has one").revision > 1);
    // A client that has nothing more to say is let go.
    drop(talk.sender);
    assert_eq!(soon(talk.answers.message()).await.expect("it ends well"), None);
}

// Requirements: S1-094, S1-095, S1-100.
#[tokio::test(flavor = "multi_thread")]
async fn the_leader_goes_while_twenty_wait_and_their_order_stays() {
    let mut world = world(3).await;
    let leader = world.leader();
    let place = (leader + 1) % 3;
    let mut locks = world.locks(place).await;
    let mut holder = Talk::open(&mut locks, "holder").await;
    let held = holder.lease(2, 1, 0).await;
    holder.say(3, Some(1), acquire(&["a"], held, -1)).await;
    let mut token = holder.acquired().await.1.fencing_token;
    let mut talk = Talk::open(&mut locks, "c").await;
    let mut order = Vec::new();
    for number in 0..20 {
        let lease = talk.lease(1_000 + number, 1 + number, 0).await;
        talk.say(10 + number, Some(1), acquire(&["a"], lease, -1)).await;
        let (id, told) = talk.acquired().await;
        assert_eq!((id, told.state(), told.position), (10 + number, Stage::Queued, number + 1));
        order.push(lease);
    }
    let gone = world.cluster.take(leader);
    gone.kill();
    let mut lease = held;
    let mut seq = 1;
    for (number, next) in order.into_iter().enumerate() {
        // Until there is a leader again, the release is refused or its outcome unknown.
        loop {
            holder.say(9, Some(seq + 1), release("a", lease, token)).await;
            let heard = holder.hear().await;
            match heard.response {
                Some(Response::Released(told)) => {
                    assert!(told.released);
                    break;
                }
                _ => assert!(heard.failure.is_some_and(|failure| failure.retryable)),
            }
        }
        let (id, told) = talk.decided().await;
        assert_eq!((id, told.state()), (10 + number as u64, Stage::Acquired));
        assert!(told.fencing_token > token);
        (lease, token, seq) = (next, told.fencing_token, 1);
    }
    assert_eq!(until_waiters(&mut locks, "a", 0).await.holders.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_has_too_much_open_is_refused_more_and_goes_on() {
    const OPEN_MAX: u64 = 16_384;
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut holder = Talk::open(&mut locks, "holder").await;
    let held = holder.lease(2, 1, 0).await;
    holder.say(3, Some(1), acquire(&["a"], held, -1)).await;
    let token = holder.acquired().await.1.fencing_token;
    let mut talk = Talk::open(&mut locks, "c").await;
    let lease = talk.lease(2, 1, 0).await;
    for batch in 0..OPEN_MAX / 1_024 {
        for number in 0..1_024 {
            let request_id = 10 + batch * 1_024 + number;
            talk.say(request_id, None, acquire(&["a"], lease, -1)).await;
        }
        for _ in 0..1_024 {
            assert_eq!(talk.acquired().await.1.state(), Stage::Queued);
        }
    }
    talk.say(9, None, acquire(&["a"], lease, -1)).await;
    let failure = talk.failure().await;
    assert_eq!((&*failure.code, failure.retryable), ("overloaded", true));
    // All of them waited on one place, and all are told.
    holder.say(4, Some(2), release("a", held, token)).await;
    for _ in 0..OPEN_MAX {
        assert_eq!(talk.decided().await.1.state(), Stage::Acquired);
    }
    talk.say(9, None, acquire(&["a"], lease, -1)).await;
    assert_eq!(talk.acquired().await.1.state(), Stage::Renewed);
}
