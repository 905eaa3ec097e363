//! W2: many clients want one lock, and each gives it back as soon as it has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use tokio::task::JoinSet;

use super::{Cores, Span, Window, cores_over};
use crate::client::{self, Client, Kind, Mux, Place};
use crate::clock;
use crate::latency::Latency;
use crate::server::Server;

/// Connections that very many waiters share.
const SHARED_CONNECTIONS: usize = 100;
/// Longer than any run.
const TTL_MS: i64 = 3_600_000;

/// What came of it.
pub struct Handoff {
    pub per_s: f64,
    /// From the releaser's asking to the next one's having it, by one clock.
    pub latency: Latency,
    /// The most grants of one client, less the fewest.
    pub unfairness: u64,
    pub cores: Cores,
}

/// What all clients see.
struct Arena {
    epoch: Instant,
    /// When the lock was last given back, in nanoseconds after the epoch; 0 for never.
    released: AtomicU64,
    inside: AtomicUsize,
    /// Two were inside at once: then no figure means anything.
    broken: AtomicBool,
    span: Span,
}

/// Who waits: with its own connection, or sharing one.
enum Contender {
    Own(Client),
    Shared(Place),
}

pub async fn run(
    kind: Kind,
    server: &Server,
    clients: usize,
    name: &str,
    window: Window,
) -> anyhow::Result<Handoff> {
    let mut opened = client::open(kind, server, clients).await?;
    let mut common = name.to_owned();
    if let Some(first) = opened.first_mut() {
        common = first.common_name(name).await?;
    }
    let contenders = opened.into_iter().map(Contender::Own).collect();
    contend(contenders, server, &common, window).await
}

/// Very many waiters of Fencepost over a hundred connections.
pub async fn run_shared(
    server: &Server,
    clients: usize,
    name: &str,
    window: Window,
) -> anyhow::Result<Handoff> {
    let mut contenders = Vec::with_capacity(clients);
    let address = server.addresses[0];
    let connections = SHARED_CONNECTIONS.min(clients);
    let mut opening = JoinSet::new();
    for _ in 0..connections {
        opening.spawn(async move {
            let mux = Mux::open(address).await?;
            let mut places = Vec::new();
            for _ in 0..clients / connections {
                places.push(Contender::Shared(mux.lease(TTL_MS).await?));
            }
            anyhow::Ok(places)
        });
    }
    while let Some(places) = opening.join_next().await {
        contenders.extend(places??);
    }
    contend(contenders, server, name, window).await
}

async fn contend(
    contenders: Vec<Contender>,
    server: &Server,
    name: &str,
    window: Window,
) -> anyhow::Result<Handoff> {
    let span = window.open();
    let arena = Arc::new(Arena {
        epoch: clock::now(),
        released: AtomicU64::new(0),
        inside: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
        span,
    });
    let cores = tokio::spawn(cores_over(span, server.pids()));
    let mut tasks = JoinSet::new();
    for contender in contenders {
        tasks.spawn(one(contender, name.to_owned(), Arc::clone(&arena)));
    }
    let (mut grants, mut latency) = (Vec::new(), Latency::default());
    let mut done = Vec::new();
    while let Some(outcome) = tasks.join_next().await {
        let (count, own, contender) = outcome??;
        grants.push(count);
        latency.merge(&own);
        done.push(contender);
    }
    ensure!(!arena.broken.load(Ordering::SeqCst), "two clients held the lock at once");
    ensure!(grants.iter().sum::<u64>() > 0, "nobody was granted the lock while it counted");
    let (most, fewest) = (grants.iter().max(), grants.iter().min());
    let unfairness = most.unwrap_or(&0) - fewest.unwrap_or(&0);
    let per_s = window.rate(grants.iter().sum());
    Ok(Handoff { per_s, latency, unfairness, cores: cores.await? })
}

/// One client. Everybody leaves after a grant, so that nobody's wait is cut off.
async fn one(
    mut contender: Contender,
    name: String,
    arena: Arc<Arena>,
) -> anyhow::Result<(u64, Latency, Contender)> {
    let (mut count, mut latency) = (0, Latency::default());
    loop {
        let token = contender.acquire(&name).await?;
        let held = clock::now();
        if arena.inside.fetch_add(1, Ordering::SeqCst) != 0 {
            arena.broken.store(true, Ordering::SeqCst);
        }
        let released = Duration::from_nanos(arena.released.load(Ordering::SeqCst));
        let is_counted = held >= arena.span.begin && held <= arena.span.end;
        if is_counted {
            count += 1;
            if !released.is_zero() {
                latency.add(held.saturating_duration_since(arena.epoch + released));
            }
        }
        arena.inside.fetch_sub(1, Ordering::SeqCst);
        let nanos = u64::try_from(arena.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        arena.released.store(nanos, Ordering::SeqCst);
        contender.release(&name, token).await?;
        if held > arena.span.end {
            return Ok((count, latency, contender));
        }
    }
}

impl Contender {
    async fn acquire(&mut self, name: &str) -> anyhow::Result<i64> {
        match self {
            Contender::Own(client) => client.acquire(name).await.map(|()| 0),
            Contender::Shared(place) => place.acquire(name.to_owned()).await,
        }
    }

    async fn release(&mut self, name: &str, token: i64) -> anyhow::Result<()> {
        match self {
            Contender::Own(client) => client.release().await,
            Contender::Shared(place) => place.release(name.to_owned(), token).await,
        }
    }
}
