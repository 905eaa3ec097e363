//! `fencepost __worker`: a client of the demo, in a process of its own that can be stopped.
//!
//! It takes a lock, reads from the store, makes sure that it still has the lock, and writes. Like
//! every program it can be stopped between those last two steps, and it is. It is not for people,
//! and not in the help.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use fencepost_client::{Client, Guard};
use tokio::sync::mpsc;

use super::ledger::{Ledger, Verdict};
use super::words::{Order, Said};
use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::output;
use crate::words::parse_length;

/// What is sent in the place of a token by a client that keeps its own to itself: the same number
/// for everybody, so that the store cannot tell old from new.
const NO_TOKEN: i64 = 1;
/// Orders that wait to be read. They come one at a time.
const ORDERS_MAX: usize = 4;

/// Take a lock, and write to a store.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    name: String,

    #[arg(long)]
    lock: String,

    #[arg(long, value_parser = parse_length)]
    ttl: Duration,

    /// Where the store is
    #[arg(long)]
    store: String,

    /// What is added to what stands under the key that is named like the lock
    #[arg(long)]
    update: String,

    /// Keep the token from the store
    #[arg(long)]
    unfenced: bool,
}

pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = common.endpoints.connect(&args.name, Duration::ZERO).await?;
        let mut worker = Worker { ledger: Ledger::at(&args.store), args, orders: orders() };
        worker.work(&client).await?;
        client.close().await;
        Ok(ExitCode::SUCCESS)
    })
}

struct Worker {
    args: Args,
    ledger: Ledger,
    orders: mpsc::Receiver<Order>,
}

impl Worker {
    async fn work(&mut self, client: &Client) -> anyhow::Result<()> {
        loop {
            let guard = self.acquire(client).await?;
            self.update(&guard).await?;
            match self.orders.recv().await {
                Some(Order::Again) => drop(guard),
                Some(Order::Finish) => {
                    guard.release().await.told("give the lock back")?;
                    return say(&Said::Released);
                }
                Some(order) => bail!("told {order:?} where there is nothing left to do"),
                None => return Ok(()),
            }
        }
    }

    async fn acquire(&self, client: &Client) -> anyhow::Result<Guard> {
        let lock = client.lock(&self.args.lock).ttl(self.args.ttl);
        // The place may be told of more than once, and whoever listens does not mind.
        let lock = lock.on_queued(|_| drop(say(&Said::Waits)));
        let guard = lock.acquire().await.told(format!("take the lock {}", self.args.lock))?;
        say(&Said::Holds { token: guard.token().get() })?;
        Ok(guard)
    }

    /// Reads, adds, writes.
    async fn update(&mut self, guard: &Guard) -> anyhow::Result<()> {
        self.wait_for(Order::Go).await?;
        let found = self.ledger.read(&self.args.lock).await?;
        say(&Said::Reads { data: found.clone() })?;
        self.wait_for(Order::Go).await?;
        let data = match found.as_str() {
            "" => self.args.update.clone(),
            found => format!("{found}, {}", self.args.update),
        };
        let token = if self.args.unfenced { NO_TOKEN } else { guard.token().get() };
        say(&Said::Checks { is_valid: guard.is_valid() })?;
        // Whatever is looked at before a write, a program can be stopped right after it. So nothing
        // more is looked at here, and the demo decides how long "right after" is.
        self.wait_for(Order::Write).await?;
        let written = self.ledger.write(&self.args.lock, &self.args.name, token, &data).await?;
        let refusal = match written {
            Verdict::Accepted => None,
            Verdict::Refused(why) => Some(why),
        };
        say(&Said::Wrote { data, refusal })?;
        say(&Said::Stands { is_valid: guard.is_valid() })
    }

    async fn wait_for(&mut self, wanted: Order) -> anyhow::Result<()> {
        match self.orders.recv().await {
            Some(order) if order == wanted => Ok(()),
            other => bail!("told {other:?} where only {wanted:?} makes sense"),
        }
    }
}

fn say(said: &Said) -> anyhow::Result<()> {
    output::line(&said.line()).context("nobody listens any more")
}

/// Orders come on standard input. Its end means that nobody wants anything any more.
fn orders() -> mpsc::Receiver<Order> {
    let (tell, orders) = mpsc::channel(ORDERS_MAX);
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let Some(order) = Order::read(&line) else { continue };
            if tell.blocking_send(order).is_err() {
                return;
            }
        }
    });
    orders
}
