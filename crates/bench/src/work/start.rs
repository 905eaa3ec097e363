//! W7: from the start of the process to the first lock, and what it weighs then.

use std::time::Duration;

use crate::client::{self, Kind};
use crate::clock;
use crate::server::{Places, Server};

/// How long it is left alone before its memory is read.
const IDLE: Duration = Duration::from_secs(2);

/// What came of it.
pub struct Start {
    pub first_lock: Duration,
    pub idle_bytes: f64,
}

pub async fn run(kind: Kind, places: &Places) -> anyhow::Result<Start> {
    let begun = clock::now();
    let mut server = Server::start(kind.system(), 1, places)?;
    client::ready(kind, &mut server).await?;
    let first_lock = begun.elapsed();
    clock::pass(IDLE).await;
    let idle_bytes = server.memory()?;
    server.stop().await;
    Ok(Start { first_lock, idle_bytes })
}
