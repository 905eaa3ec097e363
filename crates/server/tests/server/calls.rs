//! Every unary call, on one node.

use fencepost_proto::v1;
use tokio_stream::wrappers::ReceiverStream;

use crate::support::{
    acquired, get_lock, lease, lock_request, refused, soon, unlock, until_waiters, world,
};

// Requirements: S0-001, S0-028, S0-029, S0-030, S0-035, S0-036, S0-037, S0-038, S0-039, S0-040.
// Requirements: S0-041, S0-042, S0-043, S0-044, S0-045, S0-046.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_shown_and_given_back() {
    const NAME: &str = "/locks/database/users-table";
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    let mut request = lock_request(NAME, one, -1);
    request.metadata = "why".into();
    let told = locks.lock(request).await.expect("it is free").into_inner();
    assert!(told.acquired && told.fencing_token > 1 && told.remaining_ms > 50_000, "{told:?}");
    assert_eq!(told.key, format!("{NAME}/{one:x}"));
    let header = told.header.expect("every answer has one");
    let status = world.cluster.nodes()[0].handle().status();
    assert_eq!((header.cluster_id, header.member_id), (status.cluster_id, status.id));
    assert_eq!((header.leader_id, header.revision), (status.id, told.fencing_token));
    assert!(header.raft_term > 0);

    let other = v1::TryLockRequest { name: NAME.into(), lease_id: two, ..Default::default() };
    let denied = locks.try_lock(other).await.expect("it is answered").into_inner();
    assert!(!denied.acquired);
    assert_eq!((denied.holder.as_str(), denied.fencing_token), ("one", 0));
    // No time to wait: it is answered although the lock stays taken.
    let denied = soon(locks.lock(lock_request(NAME, two, 0))).await.expect("it is answered");
    assert!(!denied.into_inner().acquired);

    let shown = get_lock(&mut locks, NAME).await;
    assert_eq!(shown.holders.len(), 1);
    let holder = &shown.holders[0];
    assert_eq!((&*holder.client_id, holder.lease_id), ("one", one));
    assert_eq!((holder.fencing_token, &holder.metadata[..]), (told.fencing_token, &b"why"[..]));
    // The same lease again: the same token.
    assert_eq!(acquired(&mut locks, NAME, one).await, told.fencing_token);

    let stranger = v1::UnlockRequest {
        name: NAME.into(),
        lease_id: two,
        fencing_token: told.fencing_token,
        ..Default::default()
    };
    assert_eq!(refused(locks.unlock(stranger).await), "not_holder");
    assert!(unlock(&mut locks, NAME, one, told.fencing_token).await);
    assert!(!unlock(&mut locks, NAME, one, told.fencing_token).await);
    let mut next = v1::TryLockRequest { name: NAME.into(), lease_id: two, ..Default::default() };
    next.metadata = "my turn".into();
    let next = locks.try_lock(next).await.expect("it is free").into_inner();
    assert!(next.acquired && next.fencing_token > told.fencing_token);
    assert_eq!(get_lock(&mut locks, NAME).await.holders[0].metadata, "my turn");
}

// Requirements: S0-031, S0-032, S0-033, S0-047, S0-048, S0-049, S0-050, S0-051.
#[tokio::test(flavor = "multi_thread")]
async fn leases_are_granted_renewed_listed_and_revoked() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let seconds = v1::LeaseGrantRequest { ttl: 7, id: 77, ..Default::default() };
    let granted = locks.lease_grant(seconds.clone()).await.expect("it is granted").into_inner();
    assert_eq!((granted.id, granted.ttl, granted.ttl_ms), (77, 7, 7_000));
    assert_eq!(refused(locks.lease_grant(seconds).await), "lease_exists");
    let millis = v1::LeaseGrantRequest { ttl: 7, ttl_ms: 1_500, ..Default::default() };
    let short = locks.lease_grant(millis).await.expect("it is granted").into_inner();
    assert_eq!((short.ttl, short.ttl_ms), (1, 1_500));
    assert!(short.id > 0 && short.id != 77, "an id is chosen: {}", short.id);
    assert!(short.epoch > granted.epoch);

    let token = acquired(&mut locks, "a", 77).await;
    let get = v1::GetLeaseRequest { id: 77 };
    let info = locks.get_lease(get).await.expect("it lives").into_inner().lease;
    let info = info.expect("it is there");
    assert_eq!(
        (info.ttl_ms, info.epoch, &*info.keys),
        (7_000, granted.epoch, &["a/4d".to_owned()][..])
    );
    let page = v1::ListLeasesRequest { after: 0, limit: 1 };
    let page = locks.list_leases(page).await.expect("it is answered").into_inner();
    assert_eq!((page.leases.len(), page.more), (1, true));
    let rest = v1::ListLeasesRequest { after: page.leases[0].id, limit: 0 };
    let rest = locks.list_leases(rest).await.expect("it is answered").into_inner();
    assert_eq!((rest.leases.len(), rest.more), (1, false));

    let (sender, frames) = tokio::sync::mpsc::channel(4);
    let stream = locks.lease_keep_alive(ReceiverStream::new(frames)).await;
    let mut alive = stream.expect("it is opened").into_inner();
    for (number, epoch) in [(1, 0), (2, granted.epoch), (3, granted.epoch + 100)] {
        let renew = v1::LeaseKeepAliveRequest { id: 77, epoch, number };
        sender.send(renew).await.expect("the stream is open");
        let told = soon(alive.message()).await.expect("it goes on").expect("it goes on");
        assert_eq!((told.id, told.number), (77, number));
        // Another epoch is another lease, which is gone.
        let ttl_ms = if number == 3 { 0 } else { 7_000 };
        assert_eq!((told.ttl, told.ttl_ms), (ttl_ms / 1_000, ttl_ms), "{told:?}");
        let header = told.header.expect("every answer has one");
        assert!(header.member_id > 0 && header.revision >= token, "{header:?}");
    }
    drop(sender);
    assert_eq!(soon(alive.message()).await.expect("it ends well"), None);

    let stale = v1::LeaseRevokeRequest { id: 77, epoch: granted.epoch + 9 };
    assert_eq!(refused(locks.lease_revoke(stale).await), "lease_epoch_stale");
    let revoke = v1::LeaseRevokeRequest { id: 77, epoch: granted.epoch };
    assert_eq!(locks.lease_revoke(revoke).await.expect("it lives").into_inner().keys, 1);
    assert_eq!(refused(locks.lease_revoke(revoke).await), "lease_not_found");
    assert_eq!(refused(locks.get_lease(v1::GetLeaseRequest { id: 77 }).await), "lease_not_found");
    let two = lease(&mut locks, "two").await;
    assert!(acquired(&mut locks, "a", two).await > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_written_read_and_removed() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    for key in ["k1", "k2", "other"] {
        let put = v1::PutRequest { key: key.into(), value: "v".into(), ..Default::default() };
        locks.put(put).await.expect("it is written");
    }
    let put =
        v1::PutRequest { key: "k1".into(), value: "w".into(), prev_kv: true, ..Default::default() };
    let told = locks.put(put).await.expect("it is written").into_inner();
    assert_eq!(&told.prev_kv.expect("it was there").value[..], b"v");
    let range = v1::RangeRequest { key: "k".into(), prefix: true, ..Default::default() };
    let found = locks.range(range.clone()).await.expect("it is answered").into_inner();
    assert_eq!((found.kvs.len(), found.count, found.more), (2, 2, false));
    assert_eq!(
        (&*found.kvs[0].key, &found.kvs[0].value[..], found.kvs[0].version),
        ("k1", &b"w"[..], 2)
    );
    assert_eq!(found.header.expect("it has one").revision, found.kvs[0].mod_revision);
    let limited =
        v1::RangeRequest { limit: 1, keys_only: true, stale: true, count: true, ..range.clone() };
    let found = locks.range(limited).await.expect("it is answered").into_inner();
    assert_eq!((found.kvs.len(), found.count, found.more), (1, 2, true));
    assert!(found.kvs[0].value.is_empty());
    let rest = v1::RangeRequest { limit: 1, after: "k1".into(), ..range };
    let found = locks.range(rest).await.expect("it is answered").into_inner();
    assert_eq!((&*found.kvs[0].key, found.more, found.count), ("k2", false, 0));
    let delete = v1::DeleteRangeRequest { key: "k".into(), prefix: true, prev_kv: true };
    let gone = locks.delete_range(delete).await.expect("it is answered").into_inner();
    assert_eq!((gone.deleted, gone.prev_kvs.len()), (2, 2));
    let all = v1::RangeRequest { prefix: true, ..Default::default() };
    assert_eq!(locks.range(all).await.expect("it is answered").into_inner().count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_values_come_in_messages_that_a_client_accepts() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    for key in 0..6 {
        let (key, value) = (format!("k{key}"), vec![7; 1 << 20].into());
        let put = v1::PutRequest { key, value, ..Default::default() };
        locks.put(put).await.expect("a value of a MiB is allowed");
    }
    let mut page = v1::RangeRequest { prefix: true, count: true, ..Default::default() };
    let (mut pages, mut keys) = (0, Vec::new());
    loop {
        let found = locks.range(page.clone()).await.expect("it is answered").into_inner();
        assert_eq!(found.count, 6);
        keys.extend(found.kvs.into_iter().map(|kv| kv.key));
        pages += 1;
        if !found.more {
            break;
        }
        page.after = keys.last().expect("each page brings something").clone().into();
    }
    assert!(pages > 1);
    assert_eq!(keys, ["k0", "k1", "k2", "k3", "k4", "k5"]);
}

// Requirements: S1-085.
#[tokio::test(flavor = "multi_thread")]
async fn locks_are_listed_explained_and_forced() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    let mut tokens = Vec::new();
    for name in ["a", "b", "c"] {
        tokens.push(acquired(&mut locks, name, one).await);
    }
    let mut page = v1::ListLocksRequest { limit: 2, ..Default::default() };
    let found = locks.list_locks(page.clone()).await.expect("it is answered").into_inner();
    let names: Vec<&str> = found.locks.iter().map(|lock| &*lock.name).collect();
    assert_eq!((names, found.more), (vec!["a", "b"], true));
    page.after = "b".into();
    let found = locks.list_locks(page).await.expect("it is answered").into_inner();
    assert_eq!((found.locks.len(), found.more), (1, false));

    let mut waits = world.locks(0).await;
    let waiting = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
    until_waiters(&mut locks, "a", 1).await;
    let why = v1::ExplainRequest { name: "a".into(), lease_id: two };
    let why = locks.explain(why).await.expect("it is answered").into_inner().reasons;
    assert!(why[0].contains("waits for one (lease") && why[0].contains("holds lock a"), "{why:?}");

    let force = |token, now| v1::ForceReleaseRequest {
        name: "a".into(),
        fencing_token: token,
        reason: "stuck".into(),
        now,
        signed: false,
        ..Default::default()
    };
    assert_eq!(refused(locks.force_release(force(tokens[0] + 500, true)).await), "token_mismatch");
    let asked = locks.force_release(force(tokens[0], false)).await.expect("it is answered");
    let asked = asked.into_inner();
    assert!(!asked.released && asked.pending_ms > 50_000, "{asked:?}");
    assert!(get_lock(&mut locks, "a").await.holders[0].until_ms > 50_000);
    let forced = locks.force_release(force(tokens[0], true)).await.expect("it is answered");
    assert!(forced.into_inner().released);
    let next = soon(waiting).await.expect("it does not panic").expect("it is answered");
    assert!(next.into_inner().acquired);
    let shown = get_lock(&mut locks, "a").await;
    assert_eq!((shown.fence_floor, shown.holders[0].lease_id), (tokens[0] + 1, two));
}
