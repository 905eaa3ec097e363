//! W5: the leader is killed, and somebody wants a lock.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use fencepost_proto::etcd::etcdserverpb::StatusRequest;
use fencepost_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{self, Client, EtcdLean, Fencepost, Kind, ZookeeperLean};
use crate::clock;
use crate::server::{Server, System};

/// How long one attempt may take before the next member is asked.
const ATTEMPT: Duration = Duration::from_millis(100);
/// After an attempt that failed at once.
const PAUSE: Duration = Duration::from_millis(2);
/// How long all is well before the leader is killed.
const CALM: Duration = Duration::from_secs(3);
/// How long to go on afterwards, for the picture.
const AFTER: Duration = Duration::from_secs(3);
/// How long it may take until anybody answers again.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of it.
pub struct Failover {
    /// From the kill to the end of the first success that began after it.
    pub gap: Duration,
    /// When each success ended, in milliseconds after the kill; negative before it.
    pub successes: Vec<f64>,
}

pub async fn run(kind: Kind, server: &mut Server) -> anyhow::Result<Failover> {
    let leader = leader(server).await?;
    let mut asker = Asker { kind, addresses: server.addresses.clone(), at: 0, client: None, no: 0 };
    let mut ends = Vec::new();
    let begun = clock::now();
    while begun.elapsed() < CALM {
        ends.extend(asker.attempt().await.map(|(_, end)| end));
    }
    server.kill(leader).await?;
    let killed = clock::now();
    let mut first = None;
    while first.is_none_or(|at: Instant| at.elapsed() < AFTER) {
        ensure!(first.is_some() || killed.elapsed() < PATIENCE, "nobody took over");
        if let Some((from, end)) = asker.attempt().await {
            ends.push(end);
            if from >= killed && first.is_none() {
                first = Some(end);
            }
        }
    }
    let first = first.context("nobody took over")?;
    let relative = |end: &Instant| {
        let after = end.saturating_duration_since(killed).as_secs_f64();
        (after - killed.saturating_duration_since(*end).as_secs_f64()) * 1e3
    };
    Ok(Failover { gap: first - killed, successes: ends.iter().map(relative).collect() })
}

/// Wants one new lock after the other, and asks the next member when one does not answer.
struct Asker {
    kind: Kind,
    addresses: Vec<SocketAddr>,
    at: usize,
    client: Option<Client>,
    no: u64,
}

impl Asker {
    /// When a successful attempt began and ended.
    async fn attempt(&mut self) -> Option<(Instant, Instant)> {
        let begun = clock::now();
        let outcome = tokio::time::timeout(ATTEMPT, self.take()).await;
        match outcome {
            Ok(Ok(())) => return Some((begun, clock::now())),
            Ok(Err(_)) => clock::pass(PAUSE).await,
            Err(_) => {}
        }
        self.client = None;
        self.at += 1;
        None
    }

    async fn take(&mut self) -> anyhow::Result<()> {
        let address = self.addresses[self.at % self.addresses.len()];
        self.no += 1;
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(open(self.kind, address).await?),
        };
        if let Client::ZookeeperLean(zookeeper) = client {
            return zookeeper.make_ephemeral(&format!("/try-{}", self.no)).await;
        }
        client.acquire(&format!("try/{}", self.no)).await
    }
}

async fn open(kind: Kind, address: SocketAddr) -> anyhow::Result<Client> {
    Ok(match kind.system() {
        System::Etcd => Client::EtcdLean(EtcdLean::open(address).await?),
        System::Zookeeper => Client::ZookeeperLean(ZookeeperLean::open(address).await?),
        // It stays where it is, as the others do.
        System::Fencepost | System::Baseline => {
            Client::Fencepost(Box::new(Fencepost::stay(address).await?))
        }
        System::Redis | System::RedisAof => anyhow::bail!("Redis has no members"),
    })
}

/// Which member leads.
async fn leader(server: &Server) -> anyhow::Result<usize> {
    for (at, address) in server.addresses.iter().enumerate() {
        let leads = client::limited(async {
            match server.system {
                System::Etcd => etcd_leads(*address).await,
                System::Zookeeper => zookeeper_leads(*address).await,
                _ => Fencepost::leads(*address).await,
            }
        });
        if leads.await? {
            return Ok(at);
        }
    }
    anyhow::bail!("nobody leads")
}

async fn etcd_leads(address: SocketAddr) -> anyhow::Result<bool> {
    let channel = client::channel(address).await?;
    let status = MaintenanceClient::new(channel).status(StatusRequest {}).await?.into_inner();
    Ok(status.header.is_some_and(|header| header.member_id == status.leader))
}

async fn zookeeper_leads(address: SocketAddr) -> anyhow::Result<bool> {
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(b"srvr").await?;
    let mut text = String::new();
    socket.read_to_string(&mut text).await?;
    Ok(text.contains("Mode: leader"))
}
