//! `fencepost dev`: a throw-away cluster in one process, and the lines to try on it.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use fencepost_node::config::NodeConfig;
use fencepost_node::io::Change;
use fencepost_node::membership::Member;
use fencepost_node::shell::cluster::Cluster;
use fencepost_server::Server;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::failure::Failure;
use crate::logs::{self, Format};
use crate::signals;

/// Where the first node listens if that is free: where every verb looks by itself.
const PORT: u16 = 7420;
/// How long the cluster may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);

/// Run a throw-away cluster in this process, and print lines to try on it
///
/// Everything is kept in a temporary directory, which is removed at the end.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: u8,

    /// The port of the first node; 0 for any [default: 7420 if it is free]
    #[arg(long)]
    port: Option<u16>,

    /// What to log: error, warn, info, debug, trace
    #[arg(long, env = "FENCEPOST_LOG_LEVEL", default_value = "warn", value_name = "LEVEL")]
    log_level: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    logs::open(Format::Text)?;
    logs::begin(&args.log_level)?;
    let runtime = crate::common::server_runtime();
    let runtime = runtime.context("cannot start: the system has no room for threads")?;
    runtime.block_on(dev(args))
}

async fn dev(args: &Args) -> anyhow::Result<ExitCode> {
    let mut signals = signals::End::listen()?;
    // Dropped last, when nobody writes there any more.
    let folder = tempfile::Builder::new().prefix("fencepost-dev-").tempdir().map_err(|why| {
        Failure::new(
            "cannot make a temporary directory",
            format!("the system says: {why}"),
            "make room there, or name another place with TMPDIR",
        )
    })?;
    let mut listeners = vec![first_listener(args.port).await?];
    for _ in 1..args.nodes {
        listeners.push(listener(0).await?);
    }
    let cluster = tokio::select! {
        cluster = start(args.nodes, &folder) => cluster?,
        _ = signals.heard() => return Ok(ExitCode::SUCCESS),
    };
    let mut servers = Vec::new();
    for (node, listener) in cluster.nodes().iter().zip(listeners) {
        servers.push(Server::start(node.handle(), listener).await?);
    }
    let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
    let cluster = announce(cluster, &addresses).await?;
    tell(&mut io::stdout().lock(), &addresses, &folder)?;
    signals.heard().await;
    for server in servers {
        server.stop().await;
    }
    tokio::task::spawn_blocking(move || cluster.stop()).await?;
    folder.close().context("cannot remove the temporary directory")?;
    Ok(ExitCode::SUCCESS)
}

async fn first_listener(port: Option<u16>) -> anyhow::Result<TcpListener> {
    match port {
        Some(port) => listener(port).await,
        None => match listener(PORT).await {
            Ok(found) => Ok(found),
            Err(_) => listener(0).await,
        },
    }
}

async fn listener(port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    Ok(TcpListener::bind(address).await.map_err(|why| {
        Failure::new(
            format!("cannot listen for clients on {address}"),
            format!("the system says: {why}"),
            "stop what listens there, or choose another --port",
        )
    })?)
}

async fn start(nodes: u8, folder: &TempDir) -> anyhow::Result<Cluster> {
    let dirs: Vec<_> = (1..=nodes).map(|number| folder.path().join(format!("n{number}"))).collect();
    let begin = move || {
        let cluster = Cluster::start(&dirs, &NodeConfig::new(0))?;
        cluster.leader(PATIENCE).map_err(|_| {
            Failure::new(
                "cannot start: the nodes have elected no leader",
                format!("nobody was elected within {} seconds", PATIENCE.as_secs()),
                "look whether the machine is busy, and try again",
            )
        })?;
        anyhow::Ok(cluster)
    };
    tokio::task::spawn_blocking(begin).await?
}

/// Lets the members know where clients reach each of them, so that clients find the leader.
async fn announce(cluster: Cluster, addresses: &[SocketAddr]) -> anyhow::Result<Cluster> {
    let addresses = addresses.to_vec();
    let announce = move || {
        for (node, address) in cluster.nodes().iter().zip(addresses) {
            let status = node.handle().status();
            let (id, name, peer) = (status.id, status.name, status.peer);
            let member = Member { id, name, peer, client: address.to_string() };
            node.handle().change_anywhere(&Change::Add(member), PATIENCE)?;
        }
        anyhow::Ok(cluster)
    };
    tokio::task::spawn_blocking(announce).await?
}

fn tell(out: &mut impl Write, addresses: &[SocketAddr], folder: &TempDir) -> io::Result<()> {
    let listed: Vec<String> = addresses.iter().map(|one| format!("http://{one}")).collect();
    let command = format!("fencepost --endpoints {}", listed.join(","));
    writeln!(out, "fencepost {} runs {} nodes", env!("CARGO_PKG_VERSION"), listed.len())?;
    writeln!(out, "  clients   {}", listed.join(","))?;
    writeln!(out, "  data      {} (removed at the end)", folder.path().display())?;
    writeln!(out, "\nTry, in another terminal:\n")?;
    writeln!(out, "  {command} status")?;
    writeln!(
        out,
        "  {command} lock jobs/nightly -- sh -c 'echo token $FENCEPOST_TOKEN; sleep 20'"
    )?;
    writeln!(out, "  {command} show jobs/nightly")?;
    writeln!(out, "  {command} watch")?;
    writeln!(out, "  {command} kv put greeting hello")?;
    writeln!(out, "  curl -s http://{}/metrics", addresses[0])?;
    writeln!(out, "\nEnd it with Ctrl-C.")?;
    out.flush()
}
