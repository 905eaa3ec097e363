//! The recipe for locks with the crate that ZooKeeper's users have in Rust.

use std::net::SocketAddr;
use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

/// The longest session that the default `tickTime` allows.
const SESSION: Duration = Duration::from_secs(40);
const PLACE: CreateOptions<'_> = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
const PARENT: CreateOptions<'_> = CreateMode::Persistent.with_acls(Acls::anyone_all());

/// One session.
pub struct Zookeeper {
    client: Client,
    held: String,
}

impl Zookeeper {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Zookeeper> {
        let connector = Client::connector().with_session_timeout(SESSION);
        let client = connector.connect(&address.to_string()).await?;
        Ok(Zookeeper { client, held: String::new() })
    }

    /// Makes a node that stays, if it is not there.
    pub async fn make(&mut self, path: &str) -> anyhow::Result<()> {
        match self.client.create(path, b"", &PARENT).await {
            Ok(_) | Err(Error::NodeExists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A node at the end of the queue; whoever is first has the lock, and everybody else watches the one
    /// before.
    pub async fn acquire(&mut self, name: &str) -> anyhow::Result<()> {
        let prefix = format!("{name}/l-");
        let (_, sequence) = self.client.create(&prefix, b"", &PLACE).await?;
        let own = format!("l-{sequence}");
        self.held = format!("{name}/{own}");
        loop {
            let children = self.client.list_children(name).await?;
            let Some(before) = children.iter().filter(|child| **child < own).max() else {
                return Ok(());
            };
            let before = format!("{name}/{before}");
            let (stat, watcher) = self.client.check_and_watch_stat(&before).await?;
            if stat.is_some() {
                watcher.changed().await;
            }
        }
    }

    pub async fn release(&mut self) -> anyhow::Result<()> {
        let held = std::mem::take(&mut self.held);
        Ok(self.client.delete(&held, None).await?)
    }
}
