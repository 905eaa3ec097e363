//! The workers of the demo, as their director sees them.

use super::process::Process;
use super::stage::Stage;
use super::words::{Order, Said};
use crate::demo::pause::TTL_S;
use crate::failure::Failure;

/// A client in a process of its own.
pub(super) struct Worker {
    process: Process,
    update: String,
}

impl Worker {
    pub(super) fn start(
        stage: &Stage,
        name: &str,
        lock: &str,
        is_fenced: bool,
    ) -> anyhow::Result<Worker> {
        let update = format!("order-{name}");
        let (endpoints, ttl) = (stage.endpoints().join(","), format!("{TTL_S}s"));
        let mut args = vec!["__worker", "--endpoints", &endpoints, "--name", name, "--lock", lock];
        args.extend(["--ttl", &ttl, "--store", stage.ledger().url(), "--update", &update]);
        if !is_fenced {
            args.push("--unfenced");
        }
        let process = Process::start(&format!("client {name}"), stage.folder(), &args)?;
        Ok(Worker { process, update })
    }

    /// What it adds to the contents of the store.
    pub(super) fn update(&self) -> &str {
        &self.update
    }

    /// Waits until it says something that `pick` makes something of.
    pub(super) async fn until<T>(
        &mut self,
        pick: impl Fn(&Said) -> Option<T>,
    ) -> Result<T, Failure> {
        self.process.hear(|line| Said::read(line).as_ref().and_then(&pick)).await
    }

    pub(super) fn order(&mut self, order: Order) -> anyhow::Result<()> {
        self.process.say(order.line())
    }

    /// Stops it in the middle of whatever it does.
    pub(super) fn pause(&self) -> anyhow::Result<()> {
        self.process.pause()
    }

    /// Lets it go on.
    pub(super) fn resume(&self) -> anyhow::Result<()> {
        self.process.resume()
    }
}
