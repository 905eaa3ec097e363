//! What a server says when it is ready: where it is, and what to try.

use std::net::SocketAddr;
use std::path::Path;

use fencepost_node::shell::Status;

use crate::ids::MemberId;
use crate::logs;

/// Where clients look if they are told nothing else.
const PORT: u16 = 7420;

/// Shows it on standard error.
pub(crate) fn show(
    status: &Status,
    (clients, json_tcp): (SocketAddr, Option<SocketAddr>),
    data_dir: &Path,
) {
    let message = format!("fencepost {} is ready", env!("CARGO_PKG_VERSION"));
    let (id, cluster) = (MemberId(status.id).to_string(), MemberId(status.cluster_id).to_string());
    let voters = status.members.voters().len().to_string();
    let (clients_at, attempt) = (format!("http://{clients}"), try_it(clients));
    let json_at = json_tcp.map(|address| address.to_string());
    let data = data_dir.display().to_string();
    let (name, peer) = (status.name.clone(), status.peer.clone());

    let json_line = json_at.as_ref().map_or_else(String::new, |at| format!("  json/tcp  {at}\n"));
    let text = format!(
        "{message}\n  node      {name} ({id}) of cluster {cluster}\n  voters    {voters}\n  \
         clients   {clients_at}   (gRPC, etcd's API, /v1/ws, /metrics, /livez, /readyz)\n\
         {json_line}  members   {peer}\n  data      {data}\n  try       {attempt}\n"
    );
    let mut fields = vec![("node", name), ("id", id), ("cluster", cluster), ("voters", voters)];
    fields.push(("clients", clients_at));
    fields.extend(json_at.map(|at| ("json_tcp", at)));
    fields.extend([("members", peer), ("data", data), ("try", attempt)]);
    logs::show(&text, &message, &fields);
}

/// A line that works when it is pasted into another terminal.
fn try_it(clients: SocketAddr) -> String {
    let endpoints = match clients.port() {
        PORT if clients.ip().is_loopback() => String::new(),
        _ => format!("--endpoints http://{clients} "),
    };
    format!("fencepost {endpoints}lock demo -- sh -c 'echo token $FENCEPOST_TOKEN'")
}
