//! W6: how long after the end of a lease the next waiter gets the lock.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::client::{Client, EtcdLean, Fencepost, Kind, Redis, SESSION_MS_MIN, ZookeeperLean};
use crate::clock;
use crate::server::{Server, System};

/// Pairs of a holder that falls silent and a waiter behind it.
const PAIRS: u32 = 60;
/// Over so long the pairs begin, so that they meet every phase of a server's timers.
const PHASES: Duration = Duration::from_secs(2);

/// The shortest time that a system grants.
pub fn shortest(system: System) -> Duration {
    match system {
        System::Etcd => Duration::from_secs(2),
        System::Zookeeper => Duration::from_millis(SESSION_MS_MIN.unsigned_abs().into()),
        System::Redis | System::RedisAof | System::Fencepost | System::Baseline => {
            Duration::from_millis(500)
        }
    }
}

/// How far past its time each lease ended, in milliseconds.
pub async fn run(kind: Kind, server: &Server, name: &str) -> anyhow::Result<Vec<f64>> {
    let mut tasks = JoinSet::new();
    for pair in 0..PAIRS {
        let address = server.addresses[0];
        let name = format!("{name}-{pair}");
        // Spread by the golden ratio: even, and in step with nothing.
        let phase = PHASES.mul_f64((f64::from(pair) * 0.618_034).fract());
        tasks.spawn(async move {
            clock::pass(phase).await;
            one(kind, address, &name).await
        });
    }
    let mut all = Vec::new();
    while let Some(overshoot) = tasks.join_next().await {
        all.push(overshoot??);
    }
    Ok(all)
}

async fn one(kind: Kind, address: SocketAddr, name: &str) -> anyhow::Result<f64> {
    let ttl = shortest(kind.system());
    let mut waiter = plain(kind, address).await?;
    let name = waiter.common_name(name).await?;
    let (mut holder, begun) = short_lived(kind, address, ttl).await?;
    holder.acquire(&name).await?;
    // Where a request makes the time begin anew, it begins with the last one.
    let begun = begun.unwrap_or_else(clock::now);
    waiter.acquire(&name).await?;
    let (granted, due) = (clock::now(), begun + ttl);
    drop(holder);
    let late = granted.saturating_duration_since(due).as_secs_f64();
    let early = due.saturating_duration_since(granted).as_secs_f64();
    Ok((late - early) * 1e3)
}

async fn plain(kind: Kind, address: SocketAddr) -> anyhow::Result<Client> {
    Ok(match kind.system() {
        System::Etcd => Client::EtcdLean(EtcdLean::open(address).await?),
        System::Zookeeper => Client::ZookeeperLean(ZookeeperLean::open(address).await?),
        System::Redis | System::RedisAof => Client::Redis(Redis::open(address).await?),
        System::Fencepost | System::Baseline => {
            Client::Fencepost(Box::new(Fencepost::open(address).await?))
        }
    })
}

/// A client that is never heard of again, and when its time began if that is known.
async fn short_lived(
    kind: Kind,
    address: SocketAddr,
    ttl: Duration,
) -> anyhow::Result<(Client, Option<Instant>)> {
    let millis = i64::try_from(ttl.as_millis())?;
    Ok(match kind.system() {
        System::Etcd => {
            let client = EtcdLean::with_ttl(address, millis / 1_000).await?;
            (Client::EtcdLean(client), Some(clock::now()))
        }
        System::Zookeeper => {
            let client = ZookeeperLean::with_session(address, SESSION_MS_MIN).await?;
            (Client::ZookeeperLean(client), None)
        }
        System::Redis | System::RedisAof => {
            let mut client = Redis::open(address).await?;
            client.set_ttl(ttl);
            (Client::Redis(client), None)
        }
        System::Fencepost | System::Baseline => {
            let client = Fencepost::with_ttl(address, millis).await?;
            (Client::Fencepost(Box::new(client)), Some(clock::now()))
        }
    })
}
