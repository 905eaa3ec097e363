//! W4: very many locks, or leased keys, that are held; and what they cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::etcdserverpb::{LeaseGrantRequest, PutRequest};
use tokio::task::JoinSet;

use crate::client::{self, Client, Kind, Mux};
use crate::clock;
use crate::server::Server;

/// Connections that hold, each with one lease.
const CONNECTIONS: usize = 64;
/// How long memory may settle before it is read.
const SETTLE: Duration = Duration::from_secs(5);
/// Acquires that are open at once on each connection, when filling is not what is measured.
const OPEN: usize = 16;
const TTL_S: i64 = 3_600;

/// Takes `count` locks and keeps them for as long as what it returns is kept.
///
/// The locks are numbered from `from`, so that more can be taken later.
pub async fn locks(
    kind: Kind,
    server: &Server,
    held: &mut Vec<Client>,
    numbers: std::ops::Range<u64>,
) -> anyhow::Result<()> {
    if held.is_empty() {
        *held = client::open(kind, server, CONNECTIONS).await?;
    }
    let next = Arc::new(AtomicU64::new(numbers.start));
    let mut tasks = JoinSet::new();
    for mut client in held.drain(..) {
        let (next, end) = (Arc::clone(&next), numbers.end);
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return anyhow::Ok(client);
                }
                let name = client.common_name(&format!("held-{number:08}")).await?;
                client.acquire(&name).await?;
            }
        });
    }
    while let Some(client) = tasks.join_next().await {
        held.push(client??);
    }
    Ok(())
}

/// Locks of Fencepost that are held for as long as this is kept, taken as fast as it goes.
pub async fn many_locks(server: &Server, count: u64) -> anyhow::Result<Vec<Mux>> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let mut kept = Vec::new();
    for _ in 0..CONNECTIONS {
        let mux = Mux::open(server.addresses[0]).await?;
        for _ in 0..OPEN {
            let (mux, next) = (mux.clone(), Arc::clone(&next));
            tasks.spawn(async move {
                let mut place = mux.lease(TTL_S * 1_000).await?;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return anyhow::Ok(());
                    }
                    place.acquire(format!("held-{number:08}")).await?;
                }
            });
        }
        kept.push(mux);
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    Ok(kept)
}

/// Writes `count` keys with leases over etcd's API.
pub async fn leased_keys(server: &Server, count: u64) -> anyhow::Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..CONNECTIONS {
        let address = server.addresses[number % server.addresses.len()];
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            let channel = client::channel(address).await?;
            let request = LeaseGrantRequest { ttl: TTL_S, ..Default::default() };
            let lease = LeaseClient::new(channel.clone()).lease_grant(request).await?;
            let lease = lease.into_inner().id;
            let mut keys = KvClient::new(channel);
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(());
                }
                let key = Bytes::from(format!("services/{number:08}"));
                let value = Bytes::from_static(b"127.0.0.1:8080");
                keys.put(PutRequest { key, value, lease, ..Default::default() }).await?;
            }
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    Ok(())
}

/// The server's memory once it has settled.
pub async fn settled(server: &Server) -> anyhow::Result<f64> {
    clock::pass(SETTLE).await;
    server.memory()
}
