//! The stage of the demo: three nodes and a store, each a process of its own, in a directory that
//! is gone at the end.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use fencepost_client::Client;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::ledger::Ledger;
use super::process::Process;
use super::story::{Story, Tone};
use crate::failure::{Failure, Told as _};

/// How many nodes: the fewest of which one may be lost.
const NODES: usize = 3;
/// How long the cluster may take until it is as wanted.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at the cluster.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
const ANY_PORT: &str = "127.0.0.1:0";

/// Everything that the demo has started. The order of the fields is the order of the end.
pub(super) struct Stage {
    client: Client,
    nodes: Vec<Node>,
    _store: Process,
    ledger: Ledger,
    folder: TempDir,
}

struct Node {
    name: String,
    endpoint: String,
    peer: String,
    process: Process,
}

/// What the store says when it is ready.
#[derive(Deserialize)]
struct Ready {
    listen: SocketAddr,
}

impl Stage {
    /// Starts it all, and waits until every node has a vote.
    pub(super) async fn set(story: &mut Story) -> anyhow::Result<Stage> {
        let folder = tempfile::Builder::new().prefix("fencepost-demo-").tempdir();
        let folder = folder.map_err(|why| {
            Failure::new(
                "cannot make a temporary directory",
                format!("the system says: {why}"),
                "make room there, or name another place with TMPDIR",
            )
        })?;
        story.tell(Tone::Plain, "starting three nodes and a fenced store, each in a process")?;
        let mut first = begin(folder.path(), 1, &["--bootstrap"])?;
        let mut store = begin_store(folder.path())?;
        first.greet().await?;
        let mut nodes = vec![first];
        for number in 2..=NODES {
            // One after the other: the cluster changes by one member at a time.
            let mut node = begin(folder.path(), number, &["--join", &nodes[0].peer])?;
            node.greet().await?;
            nodes.push(node);
        }
        let ready = store.hear(|line| serde_json::from_str::<Ready>(line).ok()).await?;
        let ledger = Ledger::at(format!("http://{}", ready.listen));
        let endpoints = nodes.iter().map(|node| node.endpoint.clone());
        let client = Client::builder().endpoints(endpoints).name("demo").connect().await;
        let client = client.told("reach the nodes that were just started")?;
        let stage = Stage { client, nodes, _store: store, ledger, folder };
        stage.wait_for_votes().await?;
        Ok(stage)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Where the nodes are.
    pub(super) fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.endpoint.clone()).collect()
    }

    /// Waits until a node leads, other than this one, and gives its name.
    pub(super) async fn leader(&self, other_than: Option<&str>) -> anyhow::Result<String> {
        let client = &self.client;
        let looking = async {
            loop {
                // While nobody leads, there may be no answer either.
                let status = client.status().await.ok();
                let members = status.into_iter().flat_map(|status| status.members);
                let leader = members.into_iter().find(|member| member.role == "leader");
                match leader.map(|member| member.name) {
                    Some(name) if Some(name.as_str()) != other_than => return name,
                    _ => sleep(LOOK_PAUSE).await,
                }
            }
        };
        timeout(PATIENCE, looking).await.context("no node leads the cluster: run the demo again")
    }

    /// Kills a node, as `kill -9` does.
    pub(super) fn kill(&mut self, name: &str) {
        for node in self.nodes.iter_mut().filter(|node| node.name == name) {
            node.process.kill();
        }
    }

    /// Ends everything, and removes the directory.
    pub(super) async fn clear(self) -> anyhow::Result<()> {
        let Stage { client, nodes, _store, ledger: _, folder } = self;
        client.close().await;
        drop(nodes);
        drop(_store);
        folder.close().context("cannot remove the temporary directory")
    }

    async fn wait_for_votes(&self) -> anyhow::Result<()> {
        let looking = async {
            loop {
                let status = self.client.status().await.ok();
                let members = status.into_iter().flat_map(|status| status.members);
                if members.filter(|member| member.role != "learner").count() == NODES {
                    return;
                }
                sleep(LOOK_PAUSE).await;
            }
        };
        timeout(PATIENCE, looking).await.context("not every node has got a vote: run it again")
    }
}

impl Node {
    /// Waits until it is ready, and learns where it is.
    async fn greet(&mut self) -> Result<(), Failure> {
        let word = |label: &'static str| {
            move |line: &str| {
                let rest = line.trim_start().strip_prefix(label)?;
                rest.split_whitespace().next().map(str::to_owned)
            }
        };
        self.process.hear(|line| line.contains("is ready").then_some(())).await?;
        self.endpoint = self.process.hear(word("clients ")).await?;
        self.peer = self.process.hear(word("members ")).await?;
        Ok(())
    }
}

fn begin(folder: &Path, number: usize, more: &[&str]) -> anyhow::Result<Node> {
    let name = format!("n{number}");
    let usual = ["serve", "--name", &name, "--data-dir", &name, "--log-level", "error"];
    let ports = ["--listen", ANY_PORT, "--peer-listen", ANY_PORT];
    let process = Process::start(&name, folder, &[&usual[..], &ports, more].concat())?;
    Ok(Node { name, endpoint: String::new(), peer: String::new(), process })
}

fn begin_store(folder: &Path) -> anyhow::Result<Process> {
    let args = ["store", "--listen", ANY_PORT, "--log-level", "error", "-o", "json"];
    Process::start("the store", folder, &args)
}
