//! One lock, four doors: they exclude each other, and whoever comes first is served first.

use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::v3lockpb::lock_client::LockClient;
use fencepost_proto::etcd::v3lockpb::{LockRequest, UnlockRequest};
use serde_json::json;

use crate::support::{acquired, channel, get_lock, lease, soon, unlock, until_waiters, world};
use crate::talk::{Line, Ws};

// Requirements: S2-005.
#[tokio::test(flavor = "multi_thread")]
async fn all_doors_stand_in_one_queue() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    ws.acquire("q", "ws").await;
    let first = ws.granted("q").await;
    // Behind it, in this order: a line over TCP, a native call, a call of etcd, another WebSocket.
    let mut line = Line::open(&world.servers[0]).await;
    let payload = json!({ "key": "q", "owner": "tcp", "ttl": 60_000, "wait_ms": 600_000 });
    line.say(&json!({ "type": "acquire_lock", "payload": payload }).to_string()).await;
    until_waiters(&mut locks, "q", 1).await;
    let native = lease(&mut locks, "native").await;
    let mut waits = world.locks(0).await;
    let native_waits = tokio::spawn(async move { acquired(&mut waits, "q", native).await });
    until_waiters(&mut locks, "q", 2).await;
    let channel = channel(&world.servers[0]).await;
    let grant = pb::LeaseGrantRequest { ttl: 60, id: 0 };
    let granted = LeaseClient::new(channel.clone()).lease_grant(grant).await;
    let theirs = granted.expect("it is granted").into_inner().id;
    let mut etcd = LockClient::new(channel);
    let (mut waits, name) = (etcd.clone(), bytes::Bytes::from("q"));
    let etcd_waits =
        tokio::spawn(async move { waits.lock(LockRequest { name, lease: theirs }).await });
    until_waiters(&mut locks, "q", 3).await;
    let mut last = Ws::open(&world.servers[0]).await;
    last.acquire("q", "last").await;
    until_waiters(&mut locks, "q", 4).await;
    // None of them holds while another does.
    let holder = async || {
        let lock = get_lock(&mut world.locks(0).await, "q").await;
        assert_eq!(lock.holders.len(), 1);
        lock.holders[0].client_id.clone()
    };
    assert_eq!(holder().await, "ws");
    ws.release("q", "ws").await;
    let told = line.hear().await;
    let second = told["payload"]["fencing_token"].as_u64().expect("it is granted");
    assert_eq!(holder().await, "tcp");
    assert!(line.ask("release_lock", json!({ "key": "q", "owner": "tcp" })).await.0);
    let third = soon(native_waits).await.expect("it does not panic");
    assert_eq!(holder().await, "native");
    assert!(unlock(&mut locks, "q", native, third).await);
    let held = soon(etcd_waits).await.expect("it does not panic").expect("it is granted");
    let fourth = get_lock(&mut locks, "q").await.holders[0].fencing_token;
    let key = held.into_inner().key;
    etcd.unlock(UnlockRequest { key }).await.expect("it is answered");
    let fifth = last.granted("q").await;
    assert_eq!(holder().await, "last");
    let number = |token: i64| u64::try_from(token).expect("it is positive");
    let tokens = [first, second, number(third), number(fourth), fifth];
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_is_the_same_one_at_every_door() {
    let world = world(1).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    ws.acquire("a", "worker").await;
    let token = ws.granted("a").await;
    let mut line = Line::open(&world.servers[0]).await;
    let owned = json!({ "key": "a", "owner": "worker", "ttl": 60_000 });
    let (ok, renewed) = line.ask("renew_lock", owned.clone()).await;
    assert_eq!((ok, &renewed["fencing_token"]), (true, &json!(token)));
    assert!(line.ask("release_lock", owned).await.0);
    ws.say(&json!({ "commandType": 7, "key": "a", "clientId": "worker" })).await;
    assert_eq!(ws.hear().await["error"]["code"], json!("not_holder"));
}
