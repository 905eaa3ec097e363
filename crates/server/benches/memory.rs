//! What held locks and idle sessions cost a server in memory.
//!
//! Run with `cargo bench -p fencepost-server --bench memory`. The server is this program once more,
//! in a process of its own, so that nothing of the client is counted. Prints the figures, and ends
//! with 1 if one of them is above its bar.

#[path = "memory/framed.rs"]
mod framed;
#[path = "memory/locks.rs"]
mod locks;
#[path = "memory/server.rs"]
mod server;
#[path = "memory/streams.rs"]
mod streams;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use server::Child;

/// Locks that are held at once, and what they may cost together.
const LOCKS: u64 = 100_000;
const LOCKS_BYTES_MAX: u64 = 50_000_000;
/// Sessions that are open at once, each on a connection of its own, and what each may cost.
const STREAMS: u64 = 10_000;
const STREAM_BYTES_MAX: u64 = 30_000;
/// The same without HTTP/2.
const FRAMED_BYTES_MAX: u64 = 15_000;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if std::env::args().any(|argument| argument == server::ROLE) {
        runtime.block_on(server::serve())?;
        return Ok(ExitCode::SUCCESS);
    }
    let locks = runtime.block_on(measure_locks())?;
    let streams = runtime.block_on(measure_streams())?;
    let framed = runtime.block_on(measure_framed())?;
    Ok(if locks && streams && framed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn measure_locks() -> Result<bool, Box<dyn Error>> {
    let child = Child::start().await?;
    let mut session = locks::Session::open(&child.address).await?;
    session.hold(0..1).await?;
    let idle = child.settled().await?;
    session.hold(1..LOCKS).await?;
    let cost = child.settled().await?.saturating_sub(idle);
    report("held locks", LOCKS, cost, LOCKS_BYTES_MAX, cost / LOCKS)
}

async fn measure_streams() -> Result<bool, Box<dyn Error>> {
    let child = Child::start().await?;
    let mut streams = vec![streams::open(&child.address).await?];
    let idle = child.settled().await?;
    for _ in 1..STREAMS {
        streams.push(streams::open(&child.address).await?);
    }
    let cost = child.settled().await?.saturating_sub(idle);
    let good = report("idle sessions", STREAMS, cost, STREAMS * STREAM_BYTES_MAX, cost / STREAMS)?;
    for stream in streams {
        // They were all alive to the end.
        stream.end().await?;
    }
    Ok(good)
}

async fn measure_framed() -> Result<bool, Box<dyn Error>> {
    let child = Child::start().await?;
    let mut sessions = vec![framed::Session::open(&child.address).await?];
    let idle = child.settled().await?;
    for _ in 1..STREAMS {
        sessions.push(framed::Session::open(&child.address).await?);
    }
    let cost = child.settled().await?.saturating_sub(idle);
    let most = STREAMS * FRAMED_BYTES_MAX;
    let good = report("idle sessions without HTTP/2", STREAMS, cost, most, cost / STREAMS)?;
    for session in &mut sessions {
        // They were all alive to the end.
        session.ping().await?;
    }
    Ok(good)
}

fn report(what: &str, count: u64, cost: u64, most: u64, each: u64) -> Result<bool, Box<dyn Error>> {
    let (mb, most_mb) = (cost / 1_000_000, most / 1_000_000);
    let verdict = if cost <= most { "ok" } else { "TOO MUCH" };
    writeln!(
        io::stdout(),
        "{count} {what}: {mb} MB over idle, {each} bytes each, bar {most_mb} MB: {verdict}"
    )?;
    Ok(cost <= most)
}
