//! W3: ten thousand leases over 64 connections, renewed as fast as it goes.

use std::net::SocketAddr;

use anyhow::Context as _;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

use super::{Cores, Span, Window, cores_over};
use crate::client::{self, Kind, Mux, Redis, ZookeeperLean};
use crate::clock;
use crate::server::{Server, System};

pub const LEASES: usize = 10_000;
pub const CONNECTIONS: usize = 64;
const TTL_S: i64 = 3_600;

/// How renewals are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Messages that are open at once on each connection.
    pub window: usize,
    /// Leases in a message. Only Fencepost has more than one. Messages that carry all leases of a
    /// connection overlap; otherwise each has its own part of them.
    pub leases: usize,
}

/// What came of it.
pub struct Renewals {
    pub per_s: f64,
    pub cores: Cores,
}

/// Everything it takes for one connection: opened and with its leases, before anything is timed.
enum Link {
    Etcd(tonic::transport::Channel, Vec<i64>),
    Zookeeper(Vec<ZookeeperLean>),
    Redis(Redis, Vec<String>),
    Fencepost(Mux, Vec<(i64, u64)>),
}

pub async fn run(
    kind: Kind,
    server: &Server,
    shape: Shape,
    window: Window,
) -> anyhow::Result<Renewals> {
    let mut opening = JoinSet::new();
    for number in 0..CONNECTIONS {
        let address = server.addresses[number % server.addresses.len()];
        opening.spawn(open(kind, address, number));
    }
    let mut links = Vec::new();
    while let Some(link) = opening.join_next().await {
        links.push(link??);
    }
    let span = window.open();
    let cores = tokio::spawn(cores_over(span, server.pids()));
    let mut tasks = JoinSet::new();
    for link in links {
        tasks.spawn(drive(link, shape, span));
    }
    let mut count = 0;
    while let Some(outcome) = tasks.join_next().await {
        count += outcome??;
    }
    Ok(Renewals { per_s: window.rate(count), cores: cores.await? })
}

async fn open(kind: Kind, address: SocketAddr, number: usize) -> anyhow::Result<Link> {
    let leases = LEASES / CONNECTIONS;
    Ok(match kind.system() {
        System::Etcd => {
            let channel = client::channel(address).await?;
            let mut grants = LeaseClient::new(channel.clone());
            let mut ids = Vec::new();
            for _ in 0..leases {
                let request = LeaseGrantRequest { ttl: TTL_S, ..Default::default() };
                ids.push(grants.lease_grant(request).await?.into_inner().id);
            }
            Link::Etcd(channel, ids)
        }
        System::Zookeeper => {
            let mut sessions = Vec::new();
            for _ in 0..leases {
                sessions.push(ZookeeperLean::open(address).await?);
            }
            Link::Zookeeper(sessions)
        }
        System::Redis | System::RedisAof => {
            let mut client = Redis::open(address).await?;
            let names: Vec<String> = (0..leases).map(|at| format!("lease/{number}/{at}")).collect();
            for name in &names {
                // Those of an earlier turn are still there.
                let _: () = redis::cmd("SET")
                    .arg(name)
                    .arg("me")
                    .query_async(&mut client.connection())
                    .await?;
            }
            client.set_ttl(std::time::Duration::from_secs(3_600));
            Link::Redis(client, names)
        }
        System::Fencepost | System::Baseline => {
            let mux = Mux::open(address).await?;
            let mut ids = Vec::new();
            for _ in 0..leases {
                ids.push(mux.lease(TTL_S * 1_000).await?.lease);
            }
            Link::Fencepost(mux, ids)
        }
    })
}

async fn drive(link: Link, shape: Shape, span: Span) -> anyhow::Result<u64> {
    match link {
        Link::Etcd(channel, ids) => etcd(channel, &ids, shape.window, span).await,
        Link::Zookeeper(sessions) => zookeeper(sessions, span).await,
        Link::Redis(client, names) => redis(&client, names, shape.window, span).await,
        Link::Fencepost(mux, ids) => fencepost(&mux, &ids, shape, span).await,
    }
}

fn counts(span: Span) -> bool {
    let now = clock::now();
    now >= span.begin && now <= span.end
}

async fn etcd(
    channel: tonic::transport::Channel,
    ids: &[i64],
    window: usize,
    span: Span,
) -> anyhow::Result<u64> {
    let (sender, receiver) = mpsc::channel(window);
    let mut next = ids.iter().cycle();
    for id in next.by_ref().take(window) {
        sender.send(LeaseKeepAliveRequest { id: *id }).await?;
    }
    let opened = LeaseClient::new(channel).lease_keep_alive(ReceiverStream::new(receiver)).await?;
    let mut answers = opened.into_inner();
    let mut count = 0;
    while clock::now() < span.end {
        let answer = answers.message().await?.context("the stream has ended")?;
        anyhow::ensure!(answer.ttl > 0, "a lease has ended");
        count += u64::from(counts(span));
        let id = *next.next().context("there are leases")?;
        sender.send(LeaseKeepAliveRequest { id }).await?;
    }
    Ok(count)
}

async fn zookeeper(mut sessions: Vec<ZookeeperLean>, span: Span) -> anyhow::Result<u64> {
    let mut count = 0;
    loop {
        for session in &mut sessions {
            session.ping().await?;
            count += u64::from(counts(span));
            if clock::now() >= span.end {
                return Ok(count);
            }
        }
    }
}

async fn redis(
    client: &Redis,
    names: Vec<String>,
    window: usize,
    span: Span,
) -> anyhow::Result<u64> {
    let mut tasks = JoinSet::new();
    let share = names.len().div_ceil(window);
    for part in names.chunks(share) {
        let (mut connection, part) = (client.connection(), part.to_vec());
        tasks.spawn(async move {
            let mut count = 0;
            for name in part.iter().cycle() {
                let renewed: i64 = redis::cmd("PEXPIRE")
                    .arg(name)
                    .arg(3_600_000)
                    .query_async(&mut connection)
                    .await?;
                anyhow::ensure!(renewed == 1, "a key has expired");
                count += u64::from(counts(span));
                if clock::now() >= span.end {
                    break;
                }
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(outcome) = tasks.join_next().await {
        count += outcome??;
    }
    Ok(count)
}

async fn fencepost(mux: &Mux, ids: &[(i64, u64)], shape: Shape, span: Span) -> anyhow::Result<u64> {
    let mut tasks = JoinSet::new();
    let share = ids.len().div_ceil(shape.window);
    let parts: Vec<&[(i64, u64)]> = if shape.leases >= ids.len() {
        vec![ids; shape.window]
    } else {
        ids.chunks(share).collect()
    };
    for part in parts {
        let (mux, part) = (mux.clone(), part.to_vec());
        tasks.spawn(async move {
            let (mut count, mut number) = (0, 0);
            for leases in part.chunks(shape.leases.min(part.len())).cycle() {
                number += 1;
                let alive = mux.renew(leases, number).await?;
                anyhow::ensure!(alive == leases.len(), "a lease has ended");
                if counts(span) {
                    count += u64::try_from(alive)?;
                }
                if clock::now() >= span.end {
                    break;
                }
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(outcome) = tasks.join_next().await {
        count += outcome??;
    }
    Ok(count)
}
