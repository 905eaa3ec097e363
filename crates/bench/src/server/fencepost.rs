//! Fencepost, with its defaults.

use std::path::Path;

use tokio::process::Command;

use super::{Recipe, free_ports};

pub(super) fn recipes(nodes: usize, data: &Path, program: &Path) -> anyhow::Result<Vec<Recipe>> {
    let ports = free_ports(nodes * 2)?;
    let (clients, peers) = ports.split_at(nodes);
    let cluster: Vec<String> =
        peers.iter().enumerate().map(|(at, peer)| format!("n{at}={peer}")).collect();
    let cluster = cluster.join(",");
    let mut recipes = Vec::new();
    for (at, (client, peer)) in clients.iter().zip(peers).enumerate() {
        let mut command = Command::new(program);
        command.arg("serve").arg("--name").arg(format!("n{at}"));
        command.arg("--data-dir").arg(data.join(format!("n{at}")));
        command.args(["--listen", &client.to_string(), "--peer-listen", &peer.to_string()]);
        command.args(["--log-level", "warn"]);
        if nodes > 1 {
            command.args(["--initial-cluster", &cluster]);
        }
        recipes.push(Recipe { command, client: *client });
    }
    Ok(recipes)
}
