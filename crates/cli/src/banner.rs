//! What a server says when it is ready: where it is, and what to try.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use fencepost_node::shell::Status;

use crate::ids::MemberId;

/// Where clients look if they are told nothing else.
const PORT: u16 = 7420;

/// Writes it, for people.
pub(crate) fn show(
    out: &mut impl Write,
    status: &Status,
    (clients, json_tcp): (SocketAddr, Option<SocketAddr>),
    data_dir: &Path,
) -> io::Result<()> {
    let (name, peer, voters) = (&status.name, &status.peer, status.members.voters().len());
    writeln!(out, "fencepost {} is ready", env!("CARGO_PKG_VERSION"))?;
    let (id, cluster) = (MemberId(status.id), MemberId(status.cluster_id));
    writeln!(out, "  node      {name} ({id}) of cluster {cluster}")?;
    writeln!(out, "  voters    {voters}")?;
    writeln!(
        out,
        "  clients   http://{clients}   (gRPC, etcd's API, /v1/ws, /metrics, /livez, /readyz)"
    )?;
    if let Some(address) = json_tcp {
        writeln!(out, "  json/tcp  {address}")?;
    }
    writeln!(out, "  members   {peer}")?;
    writeln!(out, "  data      {}", data_dir.display())?;
    writeln!(out, "  try       {}", try_it(clients))
}

/// A line that works when it is pasted into another terminal.
fn try_it(clients: SocketAddr) -> String {
    let endpoints = match clients.port() {
        PORT if clients.ip().is_loopback() => String::new(),
        _ => format!("--endpoints http://{clients} "),
    };
    format!("fencepost {endpoints}lock demo -- sh -c 'echo token $FENCEPOST_TOKEN'")
}
