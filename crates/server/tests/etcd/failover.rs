//! Any member serves everything, also when the leader is gone.

use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::v3lockpb::lock_client::LockClient;
use fencepost_proto::etcd::v3lockpb::{LockRequest, UnlockRequest};

use crate::support::{channel, soon, until_waiters, world};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_passes_on_although_the_leader_is_killed() {
    let mut world = world(3).await;
    let leader = world.leader();
    let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let holds = channel(&world.servers[one]).await;
    let waits = channel(&world.servers[other]).await;
    let mut leases = LeaseClient::new(holds.clone());
    let mut lease = async || {
        let grant = pb::LeaseGrantRequest { ttl: 60, id: 0 };
        leases.lease_grant(grant).await.expect("any member grants").into_inner().id
    };
    let (first, second) = (lease().await, lease().await);
    let mut holder = LockClient::new(holds);
    let held = holder.lock(LockRequest { name: "f".into(), lease: first }).await;
    let key = held.expect("any member locks").into_inner().key;
    let mut waiter = LockClient::new(waits.clone());
    let request = LockRequest { name: "f".into(), lease: second };
    // The answer may get lost with the leader. Then a client asks again, and is the same contender.
    let waiting = tokio::spawn(async move {
        loop {
            match waiter.lock(request.clone()).await {
                Err(status) if status.code() == tonic::Code::Unavailable => {}
                held => return held,
            }
        }
    });
    until_waiters(&mut world.locks(other).await, "f", 1).await;
    let killed = world.cluster.take(leader);
    killed.kill();
    // Members without a leader say so, and clients ask again.
    soon(async {
        while holder.unlock(UnlockRequest { key: key.clone() }).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let held = soon(waiting).await.expect("it goes on").expect("it is granted").into_inner();
    assert_eq!(held.key, format!("f/{second:x}"));
    let range = pb::RangeRequest { key: held.key, ..Default::default() };
    let found = KvClient::new(waits).range(range).await.expect("any member reads").into_inner();
    assert_eq!(found.count, 1);
}
