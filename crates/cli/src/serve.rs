//! `fencepost serve`: runs one node until it is told to end.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use fencepost_node::peer::Listed;
use fencepost_node::shell::{Ended, Notice, Observer, Origin, Settings, start};
use fencepost_server::Server;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::logs::{self, Format};
use crate::{banner, signals};

/// Run one node.
///
/// An empty data directory becomes a ready cluster of one, unless it is told to form one with
/// others or to join one. A directory that was used before goes on as what it is.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the node keeps what it must not forget
    #[arg(
        long,
        env = "FENCEPOST_DATA_DIR",
        default_value = "./fencepost-data",
        value_name = "DIR"
    )]
    data_dir: PathBuf,

    /// Where clients connect
    #[arg(long, env = "FENCEPOST_LISTEN", default_value = "127.0.0.1:7420", value_name = "ADDR")]
    listen: SocketAddr,

    /// Where other members connect
    #[arg(
        long,
        env = "FENCEPOST_PEER_LISTEN",
        default_value = "127.0.0.1:7421",
        value_name = "ADDR"
    )]
    peer_listen: SocketAddr,

    /// Where clients are told to connect, if that is not where the node listens
    #[arg(long, env = "FENCEPOST_ADVERTISE", value_name = "HOST:PORT")]
    advertise: Option<String>,

    /// Where other members are told to connect, if that is not where the node listens
    #[arg(long, env = "FENCEPOST_PEER_ADVERTISE", value_name = "HOST:PORT")]
    peer_advertise: Option<String>,

    /// What people call the node [default: node-PORT, by the port for clients]
    #[arg(long, env = "FENCEPOST_NAME")]
    name: Option<String>,

    /// Begin a new cluster of one; also what happens without any of these three
    #[arg(long, group = "origin")]
    bootstrap: bool,

    /// Begin a new cluster with others: the name and the peer address of every node, the same list
    /// for all of them
    #[arg(
        long,
        env = "FENCEPOST_INITIAL_CLUSTER",
        group = "origin",
        value_name = "N1=HOST:PORT,…"
    )]
    initial_cluster: Option<String>,

    /// Join a cluster through the peer address of one of its members
    #[arg(long, env = "FENCEPOST_JOIN", group = "origin", value_name = "HOST:PORT")]
    join: Option<String>,

    /// Listen on addresses that other machines reach, without encryption and without accounts
    #[arg(long, env = "FENCEPOST_INSECURE")]
    insecure: bool,

    /// What to log: error, warn, info, debug, trace
    #[arg(long, env = "FENCEPOST_LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    log_level: String,

    /// How log lines look
    #[arg(long, env = "FENCEPOST_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    log_format: Format,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    logs::begin(&args.log_level, args.log_format)?;
    refuse_open_addresses(&args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start: the system has no room for threads")?;
    runtime.block_on(serve(args))
}

/// Everybody who reaches the ports can take every lock.
fn refuse_open_addresses(args: &Args) -> anyhow::Result<()> {
    for (flag, address) in [("--listen", args.listen), ("--peer-listen", args.peer_listen)] {
        if !address.ip().is_loopback() && !args.insecure {
            bail!(
                "refusing to listen on {address}\n\
                 other machines reach it, and there is neither encryption nor a password yet\n\
                 choose a loopback address for {flag}, or add --insecure if the network is yours"
            );
        }
    }
    Ok(())
}

async fn serve(args: Args) -> anyhow::Result<ExitCode> {
    let listener = TcpListener::bind(args.listen).await.with_context(|| {
        format!(
            "cannot listen for clients on {}\n\
             stop what listens there, or choose another --listen",
            args.listen
        )
    })?;
    let clients = listener.local_addr()?;
    let (tell, ended) = oneshot::channel();
    let settings = settings(&args, clients, tell)?;
    let node = tokio::select! {
        started = tokio::task::spawn_blocking(move || start(settings)) => started??,
        // It may wait for others, for as long as it takes.
        signal = signals::end() => {
            tracing::info!(signal = signal?, "ended before it had started");
            std::process::exit(0);
        }
    };
    let server = Server::start(node.handle(), listener).await?;
    banner::show(&mut io::stderr(), &node.handle().status(), clients, &args.data_dir)?;
    let ended = wait(ended).await?;
    server.stop().await;
    let ended = match ended {
        Some(ended) => ended,
        None => tokio::task::spawn_blocking(move || node.stop()).await?,
    };
    match ended {
        Ended::Stopped => Ok(ExitCode::SUCCESS),
        Ended::Removed => {
            tracing::warn!(
                "this node was taken out of its cluster; its data directory is of no use any more"
            );
            Ok(ExitCode::SUCCESS)
        }
        Ended::Failed(why) => bail!(why),
    }
}

/// Waits until the process is told to end, or the node ends by itself; then why.
async fn wait(over: oneshot::Receiver<Ended>) -> anyhow::Result<Option<Ended>> {
    tokio::select! {
        signal = signals::end() => {
            tracing::info!(signal = signal?, "ending: handing over, then closing the log");
            Ok(None)
        }
        ended = over => Ok(Some(ended?)),
    }
}

fn settings(
    args: &Args,
    clients: SocketAddr,
    ended: oneshot::Sender<Ended>,
) -> anyhow::Result<Settings> {
    let name = args.name.clone().unwrap_or_else(|| format!("node-{}", clients.port()));
    let origin = match (&args.initial_cluster, &args.join) {
        (Some(list), _) => Origin::Founders(listed(list)?),
        (None, Some(address)) => Origin::Join(vec![address.clone()]),
        (None, None) => Origin::Alone,
    };
    Ok(Settings {
        peer_listen: args.peer_listen,
        peer_advertised: args.peer_advertise.clone(),
        client: args.advertise.clone().unwrap_or_else(|| clients.to_string()),
        origin,
        observers: vec![Box::new(Reporter { ended: Some(ended) })],
        ..Settings::new(args.data_dir.clone(), &name)
    })
}

/// Reads `n1=host:port,n2=host:port`.
fn listed(list: &str) -> anyhow::Result<Vec<Listed>> {
    let one = |part: &str| {
        let (name, peer) = part.split_once('=')?;
        let whole = !name.is_empty() && peer.contains(':');
        whole.then(|| Listed { name: name.to_owned(), peer: peer.to_owned() })
    };
    let parts = list.split(',').map(str::trim);
    let listed: Option<Vec<Listed>> = parts.map(one).collect();
    listed.with_context(|| {
        format!(
            "cannot understand the initial cluster {list}\n\
             it names every node and where its peers reach it: n1=10.0.0.1:7421,n2=10.0.0.2:7421\n\
             correct --initial-cluster or FENCEPOST_INITIAL_CLUSTER"
        )
    })
}

/// Logs what an operator should know, and tells when the node has ended.
struct Reporter {
    ended: Option<oneshot::Sender<Ended>>,
}

impl Observer for Reporter {
    fn observe(&mut self, notices: &[Notice]) -> bool {
        for notice in notices {
            match notice {
                Notice::Role(role) if role.leads => tracing::info!(term = role.term, "leads now"),
                Notice::Role(role) => {
                    let leader = role.leader.map(|leader| format!("{leader:x}"));
                    tracing::info!(term = role.term, leader, "follows now");
                }
                Notice::Members(members) => {
                    tracing::info!(members = members.members.len(), "the members have changed");
                }
                Notice::Installed(id) => {
                    tracing::info!(index = id.index, "took over a snapshot from another member");
                }
                Notice::Trouble(what) => tracing::warn!("{what}"),
                Notice::Waiting(what) => tracing::info!("{what}"),
                Notice::Ended(ended) => {
                    // Nobody listens any more if the process ends anyway.
                    drop(self.ended.take().map(|tell| tell.send(ended.clone())));
                }
                Notice::Applied(..) | Notice::Connected(_) => {}
            }
        }
        true
    }
}
