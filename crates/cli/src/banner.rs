//! What a server says when it is ready: where it is, and what to try.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use fencepost_node::shell::Status;

/// Writes it, for people.
pub(crate) fn show(
    out: &mut impl Write,
    status: &Status,
    clients: SocketAddr,
    data_dir: &Path,
) -> io::Result<()> {
    let (name, peer, voters) = (&status.name, &status.peer, status.members.voters().len());
    writeln!(out, "fencepost {} is ready", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "  node      {name} ({:x}) of cluster {:x}", status.id, status.cluster_id)?;
    writeln!(out, "  voters    {voters}")?;
    writeln!(out, "  clients   http://{clients}   (gRPC, /metrics, /livez, /readyz)")?;
    writeln!(out, "  members   {peer}")?;
    writeln!(out, "  data      {}", data_dir.display())
}
