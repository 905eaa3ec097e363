//! A whole cluster in one process, on ports that the system chooses.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::board::Status;
use super::edge;
use super::error::StartError;
use super::run::RunningNode;
use super::settings::Settings;
use super::start::{Beginning, Prepared, prepare, start_prepared};
use crate::config::NodeConfig;
use crate::io::MemberId;
use crate::membership::{Member, Membership};

/// A cluster in one process. It is ended when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RunningNode>,
}

impl Cluster {
    /// Starts one node for each directory, called `n1`, `n2` and so on. Directories that are all
    /// empty become a new cluster; others go on with the one that they are of.
    ///
    /// # Errors
    ///
    /// See [`StartError`].
    pub fn start(dirs: &[PathBuf], config: &NodeConfig) -> Result<Cluster, StartError> {
        let mut prepared = Vec::new();
        for (place, dir) in dirs.iter().enumerate() {
            let name = format!("n{}", place + 1);
            let settings = Settings { config: config.clone(), ..Settings::new(dir.clone(), &name) };
            prepared.push(prepare(settings)?);
        }
        found_if_new(&mut prepared)?;
        let addresses: BTreeMap<MemberId, String> = prepared
            .iter()
            .filter_map(|one| Some((one.dir.identity()?.node_id, one.peer.clone())))
            .collect();
        let mut nodes = Vec::new();
        for mut one in prepared {
            one.met = addresses.clone();
            nodes.push(start_prepared(one)?);
        }
        Ok(Cluster { nodes })
    }

    /// The nodes, in the order of their directories.
    #[must_use]
    pub fn nodes(&self) -> &[RunningNode] {
        &self.nodes
    }

    /// Waits until there is a leader that all nodes follow. Its place among the nodes.
    ///
    /// # Errors
    ///
    /// What the nodes are at, if there is none in time.
    pub fn leader(&self, patience: Duration) -> Result<usize, Vec<Status>> {
        let until = edge::now() + patience;
        let all = || self.nodes.iter().map(|node| node.handle().status()).collect();
        loop {
            let mut leader = None;
            for node in &self.nodes {
                let left = until.saturating_duration_since(edge::now());
                let known = |status: &Status| status.role.leader.is_some();
                let Ok(status) = node.handle().board().wait_until(left, known) else {
                    return Err(all());
                };
                let seen = (status.role.term, status.role.leader);
                if *leader.get_or_insert(seen) != seen {
                    leader = None;
                    break;
                }
            }
            let ids = self.nodes.iter().map(|node| Some(node.handle().status().id));
            if let Some((_, leader)) = leader
                && let Some(place) = ids.into_iter().position(|id| id == leader)
                && self.nodes[place].handle().status().role.leads
            {
                return Ok(place);
            }
            if edge::now() >= until {
                return Err(all());
            }
            std::thread::yield_now();
        }
    }

    /// Ends one node, and gives it out of the cluster.
    #[must_use]
    pub fn take(&mut self, place: usize) -> RunningNode {
        self.nodes.remove(place)
    }

    /// Ends all nodes.
    pub fn stop(self) {
        for node in &self.nodes {
            node.stop();
        }
    }
}

/// Writes the same founding members into every directory, if none has an identity yet.
fn found_if_new(prepared: &mut [Prepared]) -> Result<(), StartError> {
    if prepared.iter().any(|one| one.dir.identity().is_some()) {
        return Ok(());
    }
    let members: Vec<Member> = prepared
        .iter()
        .map(|one| Member {
            id: edge::member_id(),
            name: one.settings.name.clone(),
            peer: one.peer.clone(),
            client: one.settings.client.clone(),
        })
        .collect();
    let founders = Membership::founding(edge::random(), members.iter().cloned());
    for (one, member) in prepared.iter_mut().zip(&members) {
        one.settle_in(&Beginning::founding(member.id, founders.clone(), 0))?;
    }
    Ok(())
}
