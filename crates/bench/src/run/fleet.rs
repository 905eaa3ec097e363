//! The servers of one run: started when they are first needed, and kept, because a cold server would
//! be measured at its worst.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;

use super::{Plan, say};
use crate::client::{self, Kind};
use crate::server::{Places, Server, System};
use crate::work::{Window, cycle};

/// How long a system with a compiler inside is warmed, and with how many clients.
const WARM_UP: Duration = Duration::from_secs(8);
const WARM_CLIENTS: usize = 64;

pub(super) struct Fleet {
    nodes: usize,
    places: Places,
    servers: BTreeMap<System, Server>,
    /// Why a server did not come up. It is not waited for again in every cell.
    failed: BTreeMap<System, String>,
}

impl Fleet {
    pub(super) fn new(nodes: usize, plan: &Plan) -> Fleet {
        Fleet {
            nodes,
            places: plan.places.clone(),
            servers: BTreeMap::new(),
            failed: BTreeMap::new(),
        }
    }

    /// A new server that answers.
    pub(super) async fn fresh(&self, kind: Kind) -> anyhow::Result<Server> {
        let mut server = Server::start(kind.system(), self.nodes, &self.places)?;
        client::ready(kind, &mut server).await?;
        Ok(server)
    }

    /// The server that is kept for a kind of client.
    pub(super) async fn kept(&mut self, kind: Kind) -> anyhow::Result<&Server> {
        let system = kind.system();
        if let Some(failed) = self.failed.get(&system) {
            bail!("{failed}");
        }
        if !self.servers.contains_key(&system) {
            let server = match self.fresh(kind).await {
                Ok(server) => server,
                Err(error) => {
                    self.failed.insert(system, format!("{error:#}"));
                    return Err(error);
                }
            };
            if system == System::Zookeeper {
                say("  warming ZooKeeper");
                let window = Window { warm: Duration::ZERO, counted: WARM_UP };
                cycle::run(kind, &server, WARM_CLIENTS, window).await?;
            }
            self.servers.insert(system, server);
        }
        self.servers.get(&system).ok_or_else(|| anyhow::anyhow!("it was just inserted"))
    }

    pub(super) async fn stop(self) {
        for (_, server) in self.servers {
            server.stop().await;
        }
    }
}
