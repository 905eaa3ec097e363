//! etcd's `v3lock` with the crate that etcd's users have in Rust. Also spoken to Fencepost's door for
//! etcd.

use std::net::SocketAddr;

use etcd_client::{Client, LockOptions};

/// Longer than any run, so that nobody has to renew it.
const TTL_S: i64 = 3_600;

/// One client, with a connection and a lease.
pub struct Etcd {
    client: Client,
    lease: i64,
    key: Vec<u8>,
}

impl Etcd {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Etcd> {
        let mut client = Client::connect([format!("http://{address}")], None).await?;
        let lease = client.lease_grant(TTL_S, None).await?.id();
        Ok(Etcd { client, lease, key: Vec::new() })
    }

    pub async fn acquire(&mut self, name: &str) -> anyhow::Result<()> {
        let options = LockOptions::new().with_lease(self.lease);
        self.key = self.client.lock(name, Some(options)).await?.key().to_vec();
        Ok(())
    }

    pub async fn release(&mut self) -> anyhow::Result<()> {
        self.client.unlock(std::mem::take(&mut self.key)).await?;
        Ok(())
    }
}
