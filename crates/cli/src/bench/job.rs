//! What one client does in one turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_client::{Client, Error, Guard, Lease};

use super::drive::now;
use super::watcher::Watcher;
use super::{Args, Workload};

/// Locks that the mixed load wants in common.
const COMMON: u64 = 16;

/// One client that takes turns, or one of several turns that it has open.
pub(super) struct Job {
    workload: Workload,
    client: Client,
    number: usize,
    prefix: String,
    ttl: Duration,
    turn: u64,
    lease: Option<Lease>,
    watcher: Option<Arc<Watcher>>,
    held: Vec<Guard>,
    held_max: usize,
}

impl Job {
    pub(super) async fn new(
        args: &Args,
        client: Client,
        number: usize,
        watcher: Option<Arc<Watcher>>,
    ) -> Result<Job, Error> {
        let lease = match args.workload {
            Workload::Renew | Workload::Mixed => Some(client.lease(args.ttl).grant().await?),
            _ => None,
        };
        Ok(Job {
            workload: args.workload,
            client,
            number,
            prefix: args.prefix.clone(),
            ttl: args.ttl,
            turn: 0,
            lease,
            watcher,
            held: Vec::new(),
            held_max: args.held_max,
        })
    }

    /// Takes a turn. When what is measured was done: what comes after that is not counted.
    pub(super) async fn turn(&mut self) -> Result<Instant, Error> {
        self.turn += 1;
        let own = format!("{}/own/{}/{}", self.prefix, self.number, self.turn);
        match self.workload {
            Workload::Cycle => self.cycle(own).await,
            Workload::Handoff => self.cycle(format!("{}/handoff", self.prefix)).await,
            Workload::Renew => self.renew().await,
            Workload::Hold => self.hold(own).await,
            Workload::Watch => self.watch().await,
            Workload::Mixed => match self.turn % 10 {
                0..6 => self.cycle(own).await,
                6..8 => {
                    let which = self.turn / 10 % COMMON;
                    self.cycle(format!("{}/common/{which}", self.prefix)).await
                }
                8 => self.renew().await,
                _ => self.put().await,
            },
        }
    }

    async fn cycle(&self, name: String) -> Result<Instant, Error> {
        let guard = self.client.lock(name).ttl(self.ttl).acquire().await?;
        let held = now();
        guard.release().await?;
        Ok(held)
    }

    async fn renew(&self) -> Result<Instant, Error> {
        if let Some(lease) = &self.lease {
            lease.renew().await?;
        }
        Ok(now())
    }

    /// Takes one more, and gives back the oldest one if there are enough.
    async fn hold(&mut self, name: String) -> Result<Instant, Error> {
        self.held.push(self.client.lock(name).ttl(self.ttl).acquire().await?);
        let held = now();
        if self.held.len() > self.held_max {
            self.held.swap_remove(0).release().await?;
        }
        Ok(held)
    }

    fn key(&self) -> String {
        format!("{}/keys/{}", self.prefix, self.number)
    }

    async fn put(&self) -> Result<Instant, Error> {
        self.client.kv().put(self.key(), self.turn.to_string()).await?;
        Ok(now())
    }

    async fn watch(&self) -> Result<Instant, Error> {
        let Some(watcher) = &self.watcher else { return Ok(now()) };
        let (key, value) = (self.key(), self.turn.to_string());
        let seen = watcher.expect(&key, &value);
        self.client.kv().put(key, value).await?;
        seen.await.map_err(|_| watcher.why_over())
    }

    /// Gives back what is held, and takes away what was written.
    pub(super) async fn end(self) {
        for guard in self.held {
            // The TTL ends what cannot be given back.
            let _ = guard.release().await;
        }
        if let Some(lease) = self.lease {
            let _ = lease.revoke().await;
        }
        if matches!(self.workload, Workload::Watch | Workload::Mixed) {
            let key = format!("{}/keys/{}", self.prefix, self.number);
            let _ = self.client.kv().delete(key).await;
        }
    }
}
