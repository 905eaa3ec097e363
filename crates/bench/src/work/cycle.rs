//! W1: every client takes a lock that nobody else wants, and gives it back.

use tokio::task::JoinSet;

use super::{Cores, Span, Window, cores_over};
use crate::client::{self, Client, Kind};
use crate::clock;
use crate::latency::Latency;
use crate::server::Server;

/// What came of it.
pub struct Cycle {
    pub per_s: f64,
    /// From asking for the lock to having it.
    pub acquire: Latency,
    pub cores: Cores,
    pub cycles: u64,
}

pub async fn run(
    kind: Kind,
    server: &Server,
    clients: usize,
    window: Window,
) -> anyhow::Result<Cycle> {
    let opened = client::open(kind, server, clients).await?;
    let span = window.open();
    let cores = tokio::spawn(cores_over(span, server.pids()));
    let mut tasks = JoinSet::new();
    for (number, client) in opened.into_iter().enumerate() {
        tasks.spawn(one(client, number, span));
    }
    let (mut cycles, mut acquire) = (0, Latency::default());
    let mut done = Vec::new();
    while let Some(outcome) = tasks.join_next().await {
        let (count, latency, client) = outcome??;
        cycles += count;
        acquire.merge(&latency);
        // Connections end together, when nothing is measured any more.
        done.push(client);
    }
    drop(done);
    Ok(Cycle { per_s: window.rate(cycles), acquire, cores: cores.await?, cycles })
}

/// One client until the window is over: its cycles, how long each acquire took, and itself.
async fn one(
    mut client: Client,
    number: usize,
    span: Span,
) -> anyhow::Result<(u64, Latency, Client)> {
    let (mut count, mut latency) = (0, Latency::default());
    for cycle in 0.. {
        let name = client.own_name(number, cycle).await?;
        let begun = clock::now();
        if begun >= span.end {
            break;
        }
        client.acquire(&name).await?;
        let held = clock::now();
        client.release().await?;
        if held >= span.begin && clock::now() <= span.end {
            count += 1;
            latency.add(held - begun);
        }
    }
    Ok((count, latency, client))
}
