//! etcd, with its defaults.

use std::path::Path;

use tokio::process::Command;

use super::{Recipe, free_ports, program};

/// Room for what a run leaves behind: etcd keeps every version until it is told to compact.
const QUOTA_BYTES: &str = "8589934592";

pub(super) fn recipes(nodes: usize, data: &Path) -> anyhow::Result<Vec<Recipe>> {
    let ports = free_ports(nodes * 2)?;
    let (clients, peers) = ports.split_at(nodes);
    let cluster: Vec<String> =
        peers.iter().enumerate().map(|(at, peer)| format!("n{at}=http://{peer}")).collect();
    let cluster = cluster.join(",");
    let mut recipes = Vec::new();
    for (at, (client, peer)) in clients.iter().zip(peers).enumerate() {
        let (client_url, peer_url) = (format!("http://{client}"), format!("http://{peer}"));
        let mut command = Command::new(program("etcd")?);
        command.arg("--name").arg(format!("n{at}"));
        command.arg("--data-dir").arg(data.join(format!("n{at}")));
        command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
        command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
        command.args(["--initial-cluster", &cluster, "--initial-cluster-state", "new"]);
        command.args(["--quota-backend-bytes", QUOTA_BYTES, "--log-level", "warn"]);
        recipes.push(Recipe { command, client: *client });
    }
    Ok(recipes)
}
