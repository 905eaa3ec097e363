//! The clients: one lock at a time, over the real protocol of each system.
//!
//! Guarantees: what a call to [`Client::acquire`] takes is what a user of that system waits for:
//! nothing is sent ahead, and nothing is left to be done later.

mod etcd;
mod etcd_lean;
mod fencepost;
mod mux;
mod redis;
mod sdk;
mod stream;
mod zookeeper;
mod zookeeper_lean;

use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;

pub use etcd::Etcd;
pub use etcd_lean::{EtcdLean, channel};
pub use fencepost::Fencepost;
pub use mux::{Mux, Place};
pub use redis::Redis;
pub use sdk::Sdk;
pub use zookeeper::Zookeeper;
pub use zookeeper_lean::{SESSION_MS_MIN, ZookeeperLean};

use crate::clock;
use crate::server::{Server, System};

/// How a system is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// etcd's `v3lock`: two calls for a cycle, a connection and a lease for each client.
    Etcd,
    /// The recipe of ephemeral sequential nodes, a session for each client.
    Zookeeper,
    /// The same with a client that is made for nothing else.
    ZookeeperLean,
    /// `SET NX PX`, and a script that compares and deletes; a connection for each client.
    Redis,
    /// The same with one connection for all, as the crate offers it.
    RedisShared,
    /// With `appendfsync always`.
    RedisAof,
    /// A session on a connection of its own for each client.
    Fencepost,
    /// The same over gRPC.
    FencepostGrpc,
    /// One SDK client for the whole process, as it is meant to be used.
    FencepostSdk,
    /// An SDK client with its thread and its connection for each logical client.
    FencepostSdkOwn,
    /// etcd's `v3lock`, asked of Fencepost.
    FencepostEtcd,
    /// As [`Kind::Fencepost`] and [`Kind::FencepostSdk`], of an earlier build.
    Baseline,
    BaselineSdk,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Etcd => "etcd",
            Kind::Zookeeper => "zookeeper",
            Kind::ZookeeperLean => "zookeeper-lean",
            Kind::Redis => "redis",
            Kind::RedisShared => "redis-shared",
            Kind::RedisAof => "redis-aof",
            Kind::Fencepost => "fencepost",
            Kind::FencepostGrpc => "fencepost-grpc",
            Kind::FencepostSdk => "fencepost-sdk",
            Kind::FencepostSdkOwn => "fencepost-sdk-own",
            Kind::FencepostEtcd => "fencepost-etcd",
            Kind::Baseline => "baseline",
            Kind::BaselineSdk => "baseline-sdk",
        }
    }

    /// Whether no bar is about it: it is there to be looked at.
    pub fn has_no_bar(self) -> bool {
        matches!(
            self,
            Kind::ZookeeperLean | Kind::RedisShared | Kind::FencepostGrpc | Kind::FencepostSdkOwn
        )
    }

    pub fn system(self) -> System {
        match self {
            Kind::Etcd => System::Etcd,
            Kind::Zookeeper | Kind::ZookeeperLean => System::Zookeeper,
            Kind::Redis | Kind::RedisShared => System::Redis,
            Kind::RedisAof => System::RedisAof,
            Kind::Fencepost
            | Kind::FencepostGrpc
            | Kind::FencepostSdk
            | Kind::FencepostSdkOwn
            | Kind::FencepostEtcd => System::Fencepost,
            Kind::Baseline | Kind::BaselineSdk => System::Baseline,
        }
    }
}

/// One client of one system. It holds at most one lock.
pub enum Client {
    Etcd(Box<Etcd>),
    EtcdLean(EtcdLean),
    Zookeeper(Zookeeper),
    ZookeeperLean(ZookeeperLean),
    Redis(Redis),
    Fencepost(Box<Fencepost>),
    Sdk(Sdk),
}

impl Client {
    /// Waits for a lock until it is held.
    pub async fn acquire(&mut self, name: &str) -> anyhow::Result<()> {
        match self {
            Client::Etcd(client) => client.acquire(name).await,
            Client::EtcdLean(client) => client.acquire(name).await,
            Client::Zookeeper(client) => client.acquire(name).await,
            Client::ZookeeperLean(client) => client.acquire(name).await,
            Client::Redis(client) => client.acquire(name).await,
            Client::Fencepost(client) => client.acquire(name).await,
            Client::Sdk(client) => client.acquire(name).await,
        }
    }

    /// Gives back what is held, and waits until that is done.
    pub async fn release(&mut self) -> anyhow::Result<()> {
        match self {
            Client::Etcd(client) => client.release().await,
            Client::EtcdLean(client) => client.release().await,
            Client::Zookeeper(client) => client.release().await,
            Client::ZookeeperLean(client) => client.release().await,
            Client::Redis(client) => client.release().await,
            Client::Fencepost(client) => client.release().await,
            Client::Sdk(client) => client.release().await,
        }
    }

    /// A name for the next cycle that nobody else uses.
    ///
    /// ZooKeeper's lock is a node with children, which must be made before. Making one for every
    /// cycle would be counted against it, so there it is one for each client.
    pub async fn own_name(&mut self, client: usize, cycle: u64) -> anyhow::Result<String> {
        if !self.wants_parents() {
            return Ok(format!("own/{client}/{cycle}"));
        }
        let name = format!("/own-{client}");
        if cycle == 0 {
            self.make_parent(&name).await?;
        }
        Ok(name)
    }

    /// The name of a lock that many want, made ready.
    pub async fn common_name(&mut self, name: &str) -> anyhow::Result<String> {
        if !self.wants_parents() {
            return Ok(name.to_owned());
        }
        let name = format!("/{name}");
        self.make_parent(&name).await?;
        Ok(name)
    }

    fn wants_parents(&self) -> bool {
        matches!(self, Client::Zookeeper(_) | Client::ZookeeperLean(_))
    }

    async fn make_parent(&mut self, name: &str) -> anyhow::Result<()> {
        match self {
            Client::Zookeeper(client) => client.make(name).await,
            Client::ZookeeperLean(client) => client.make(name).await,
            _ => Ok(()),
        }
    }
}

/// So many clients, connected, with their leases. Where a system has several members, they are
/// spread over them, except where the system's own client goes to the leader by itself.
pub async fn open(kind: Kind, server: &Server, count: usize) -> anyhow::Result<Vec<Client>> {
    let mut clients = Vec::with_capacity(count);
    let spread = server.addresses.iter().cycle();
    match kind {
        Kind::Etcd | Kind::FencepostEtcd => {
            for address in spread.take(count) {
                clients.push(Client::Etcd(Box::new(Etcd::open(*address).await?)));
            }
        }
        Kind::Zookeeper => {
            for address in spread.take(count) {
                clients.push(Client::Zookeeper(Zookeeper::open(*address).await?));
            }
        }
        Kind::ZookeeperLean => {
            for address in spread.take(count) {
                clients.push(Client::ZookeeperLean(ZookeeperLean::open(*address).await?));
            }
        }
        Kind::Redis | Kind::RedisAof => {
            for address in spread.take(count) {
                clients.push(Client::Redis(Redis::open(*address).await?));
            }
        }
        Kind::RedisShared => {
            let address = server.addresses.first().context("it has no address")?;
            let one = Redis::open(*address).await?;
            clients.extend((0..count).map(|_| Client::Redis(one.again())));
        }
        Kind::Fencepost | Kind::Baseline => {
            for address in spread.take(count) {
                clients.push(Client::Fencepost(Box::new(Fencepost::open(*address).await?)));
            }
        }
        Kind::FencepostGrpc => {
            for address in spread.take(count) {
                clients.push(Client::Fencepost(Box::new(Fencepost::over_grpc(*address).await?)));
            }
        }
        Kind::FencepostSdk | Kind::BaselineSdk => {
            let one = Sdk::open(&server.addresses).await?;
            clients.extend((0..count).map(|_| Client::Sdk(one.again())));
        }
        Kind::FencepostSdkOwn => {
            for _ in 0..count {
                clients.push(Client::Sdk(Sdk::open(&server.addresses).await?));
            }
        }
    }
    Ok(clients)
}

/// How long a server may take until it gives out its first lock.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How long to wait between attempts. Short: the time to the first lock is measured so.
const BETWEEN: Duration = Duration::from_millis(2);

/// Waits until a server has given out its first lock, on every member that it has.
pub async fn ready(kind: Kind, server: &mut Server) -> anyhow::Result<()> {
    for address in server.addresses.clone() {
        let begun = clock::now();
        while let Err(error) = limited(first_lock(kind, address)).await {
            if let Some(last) = server.ended() {
                return Err(error.context(format!("{} has ended by itself: {last}", kind.name())));
            }
            if begun.elapsed() > PATIENCE {
                return Err(error.context(format!("{} does not come up", kind.name())));
            }
            clock::pass(BETWEEN).await;
        }
    }
    Ok(())
}

async fn first_lock(kind: Kind, address: std::net::SocketAddr) -> anyhow::Result<()> {
    let mut client = match kind {
        Kind::Etcd | Kind::FencepostEtcd => Client::EtcdLean(EtcdLean::open(address).await?),
        Kind::Zookeeper | Kind::ZookeeperLean => {
            Client::ZookeeperLean(ZookeeperLean::open(address).await?)
        }
        Kind::Redis | Kind::RedisShared | Kind::RedisAof => {
            Client::Redis(Redis::open(address).await?)
        }
        Kind::Fencepost
        | Kind::FencepostGrpc
        | Kind::FencepostSdk
        | Kind::FencepostSdkOwn
        | Kind::Baseline
        | Kind::BaselineSdk => Client::Fencepost(Box::new(Fencepost::open(address).await?)),
    };
    let name = client.common_name("ready").await?;
    client.acquire(&name).await?;
    client.release().await
}

/// An attempt that must not take for ever.
pub async fn limited<T>(attempt: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    match tokio::time::timeout(ATTEMPT, attempt).await {
        Ok(outcome) => outcome,
        Err(_) => anyhow::bail!("no answer in {ATTEMPT:?}"),
    }
}
