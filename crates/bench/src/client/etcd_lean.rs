//! etcd's `v3lock` through bare stubs, which connect at once and say when they cannot: for the first
//! lock of a server, for its failover, and for leases that end.

use std::net::SocketAddr;

use anyhow::Context as _;
use bytes::Bytes;
use fencepost_proto::etcd::etcdserverpb::LeaseGrantRequest;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::v3lockpb::lock_client::LockClient;
use fencepost_proto::etcd::v3lockpb::{LockRequest, UnlockRequest};
use tonic::transport::{Channel, Endpoint};

/// Longer than any run, so that nobody has to renew it.
const TTL_S: i64 = 3_600;

/// One client, with a connection and a lease.
pub struct EtcdLean {
    locks: LockClient<Channel>,
    lease: i64,
    key: Bytes,
}

/// A connection, set up as etcd's clients do it.
pub async fn channel(address: SocketAddr) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
    endpoint.connect().await.context("cannot connect")
}

impl EtcdLean {
    pub async fn open(address: SocketAddr) -> anyhow::Result<EtcdLean> {
        EtcdLean::with_ttl(address, TTL_S).await
    }

    /// With a lease of so many seconds.
    pub async fn with_ttl(address: SocketAddr, ttl: i64) -> anyhow::Result<EtcdLean> {
        let channel = channel(address).await?;
        let request = LeaseGrantRequest { ttl, ..Default::default() };
        let granted = LeaseClient::new(channel.clone()).lease_grant(request).await?.into_inner();
        Ok(EtcdLean { locks: LockClient::new(channel), lease: granted.id, key: Bytes::new() })
    }

    pub async fn acquire(&mut self, name: &str) -> anyhow::Result<()> {
        let name = Bytes::copy_from_slice(name.as_bytes());
        let answer = self.locks.lock(LockRequest { name, lease: self.lease }).await?;
        self.key = answer.into_inner().key;
        Ok(())
    }

    pub async fn release(&mut self) -> anyhow::Result<()> {
        let key = std::mem::take(&mut self.key);
        self.locks.unlock(UnlockRequest { key }).await?;
        Ok(())
    }
}
