//! `fencepost serve`: runs one node until it is told to end.

mod farewell;
mod reload;
mod reporter;
mod startup;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use fencepost_node::peer::Listed;
use fencepost_node::shell;
use fencepost_node::shell::{Ended, Origin, RunningNode, descriptors};
use fencepost_server::{AllowedHosts, Listeners, Server, Tuning};
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::reporter::Reporter;
use self::startup::Progress;
use crate::common::Common;
use crate::failure::Failure;
use crate::origin::Sources;
use crate::settings::{self, Settings};
use crate::{allocator, banner, logs, signals};

/// Run one node.
///
/// An empty data directory becomes a ready cluster of one, unless it is told to form one with
/// others or to join one. A directory that was used before goes on as what it is.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: settings::Args,
}

pub(crate) fn run(args: Args, sources: &Sources, common: &Common) -> anyhow::Result<ExitCode> {
    let file = common.endpoints.file();
    logs::open(settings::expected_format(args.settings.log_format(), &file))?;
    let settings = Settings::resolve(args.settings, sources, &file?)?;
    let level = logs::begin(&settings.log_level.value)?;
    refuse_open_addresses(&settings)?;
    let origin = beginning(&settings)?;
    refuse_nobodys_address(&settings, &origin)?;
    let runtime = crate::common::server_runtime();
    let runtime = runtime.context("cannot start: the system has no room for threads")?;
    runtime.block_on(async {
        let reload = reload::Reload { level, settings: settings.clone(), common: common.clone() };
        let reloads = tokio::spawn(reload.run(signals::hang_ups()?));
        let returns = tokio::spawn(allocator::return_freed_memory());
        let code = serve(&settings, origin).await;
        reloads.abort();
        returns.abort();
        code
    })
}

/// Everybody who reaches the ports can take every lock.
fn refuse_open_addresses(settings: &Settings) -> Result<(), Failure> {
    let addresses = [
        ("--listen", Some(settings.listen.value)),
        ("--peer-listen", Some(settings.peer_listen.value)),
        ("--json-tcp", settings.json_tcp.value),
    ];
    for (flag, address) in addresses {
        let Some(address) = address else { continue };
        if !address.ip().is_loopback() && !settings.insecure.value {
            return Err(Failure::usage(
                format!("refusing to listen on {address}"),
                "other machines reach it, and there is neither encryption nor a password yet",
                format!(
                    "choose a loopback address for {flag}, or add --insecure if the network is yours"
                ),
            ));
        }
    }
    Ok(())
}

/// An address that stands for every address of this machine leads other members to themselves. Without
/// another one they could not reach this node, and would find out only later.
fn refuse_nobodys_address(settings: &Settings, origin: &Origin) -> Result<(), Failure> {
    let listen = settings.peer_listen.value;
    let name = settings.name.value.as_deref();
    let is_listed = match origin {
        Origin::Founders(list) => list.iter().any(|listed| Some(&*listed.name) == name),
        Origin::Alone | Origin::Join(_) => false,
    };
    let is_named = settings.peer_advertise.value.is_some() || is_listed;
    if !stands_for_all(listen) || is_named {
        return Ok(());
    }
    Err(Failure::usage(
        format!("no other member could reach this node at {listen}"),
        "it stands for every address of a machine: other members would look for it on their own",
        "say where they reach it with --peer-advertise, or choose one address for --peer-listen",
    ))
}

async fn serve(settings: &Settings, origin: Origin) -> anyhow::Result<ExitCode> {
    let tuning = tuning(settings)?;
    // From here on: one that came between two steps would be lost.
    let mut signals = signals::End::listen()?;
    let listeners = Listeners {
        clients: listen("clients", "--listen", settings.listen.value).await?,
        json_tcp: match settings.json_tcp.value {
            Some(address) => Some(listen("JSON over TCP", "--json-tcp", address).await?),
            None => None,
        },
    };
    let clients = listeners.clients.local_addr()?;
    let (tell, ended) = oneshot::channel();
    let progress = Progress::default();
    let reporter = Reporter::new(tell, progress.clone());
    let given = given(settings, origin, clients, reporter);
    let started = tokio::task::spawn_blocking(move || shell::start(given));
    let node = tokio::select! {
        started = started => started??,
        never = startup::answer_probes(&listeners.clients, &progress) => match never {},
        // It may wait for others, for as long as it takes.
        signal = signals.heard() => {
            tracing::info!(signal, "ended before it had started");
            exit(0);
        }
    };
    let server = match Server::start_with(node.handle(), listeners, tuning).await {
        Ok(server) => server,
        // A node that was taken out of its cluster can end before its server has started.
        Err(why) => {
            return match tokio::task::spawn_blocking(move || node.stop()).await? {
                Ended::Stopped => Err(why.into()),
                ended => report(ended),
            };
        }
    };
    let show = || {
        let addresses = (clients, server.json_tcp_address());
        banner::show(&node.handle().status(), addresses, &settings.data_dir.value);
    };
    let ended = tokio::select! {
        ended = wait(&mut signals, ended) => ended?,
        never = startup::announce(&server, show) => match never {},
    };
    tell_service_manager(NotifyState::Stopping);
    let ended = tokio::select! {
        ended = end(node, server, ended) => ended?,
        // Nothing is lost by it: what was confirmed is durable.
        signal = signals.heard() => {
            tracing::warn!(signal, "told twice to end: ending at once");
            exit(1);
        }
    };
    report(ended)
}

/// Says why the node has ended, and with which exit code the process does.
fn report(ended: Ended) -> anyhow::Result<ExitCode> {
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

/// What is set of the server, with so many connections that there are descriptors left for the log.
fn tuning(settings: &Settings) -> Result<Tuning, Failure> {
    let usual = Tuning::default();
    let Some(room) = descriptors::client_connections() else {
        return Err(Failure::new(
            "cannot start: too few files can be open at once",
            format!("the limit is {}, and each connection is one", descriptors::limit()),
            "raise it with `ulimit -n 65536` or `LimitNOFILE=65536`, and start again",
        ));
    };
    if room < usual.connections_max {
        tracing::info!(connections = room, "the limit of open files bounds the connections");
    }
    let hosts = settings.allowed_hosts.value.as_deref().unwrap_or_default();
    let hosts = hosts.split(',').map(str::trim).chain(settings.advertise.value.as_deref());
    let per_address = settings.connections_per_address.value;
    Ok(Tuning {
        connections_max: room.min(usual.connections_max),
        address_connections_max: per_address.and_then(|max| usize::try_from(max).ok()),
        allowed_hosts: AllowedHosts::new(hosts),
        ..usual
    })
}

/// Ends the process at once, after its last log lines.
fn exit(code: i32) -> ! {
    logs::flush();
    std::process::exit(code)
}

async fn listen(what: &str, flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|why| {
        Failure::new(
            format!("cannot listen for {what} on {address}"),
            format!("the system says: {why}"),
            format!("stop what listens there, or choose another {flag}"),
        )
    })
}

/// Waits until the process is told to end, or the node ends by itself; then why.
async fn wait(
    signals: &mut signals::End,
    over: oneshot::Receiver<Ended>,
) -> anyhow::Result<Option<Ended>> {
    tokio::select! {
        signal = signals.heard() => {
            tracing::info!(signal, "ending: handing over, then closing the log");
            Ok(None)
        }
        ended = over => Ok(Some(ended?)),
    }
}

/// Hands leadership over, lets the clients go, and closes the log.
async fn end(node: RunningNode, server: Server, ended: Option<Ended>) -> anyhow::Result<Ended> {
    if let Some(ended) = ended {
        server.stop().await;
        return Ok(ended);
    }
    let handle = node.handle().clone();
    // First, so that clients who are sent away find a leader elsewhere.
    tokio::task::spawn_blocking(move || farewell::hand_over(&handle)).await?;
    server.stop().await;
    Ok(tokio::task::spawn_blocking(move || node.stop()).await?)
}

/// Does nothing where there is no systemd.
pub(crate) fn tell_service_manager(state: NotifyState<'_>) {
    if let Err(why) = sd_notify::notify(&[state]) {
        tracing::warn!(%why, "cannot tell the service manager");
    }
}

fn given(
    settings: &Settings,
    origin: Origin,
    clients: SocketAddr,
    reporter: Reporter,
) -> shell::Settings {
    let name = settings.name.value.clone();
    let name = name.unwrap_or_else(|| format!("node-{}", clients.port()));
    shell::Settings {
        name_must_match: settings.name.value.is_some(),
        peer_listen: settings.peer_listen.value,
        peer_advertised: settings.peer_advertise.value.clone(),
        client: advertised(settings.advertise.value.clone(), clients),
        origin,
        observers: vec![Box::new(reporter)],
        ..shell::Settings::new(settings.data_dir.value.clone(), &name)
    }
}

/// Where clients are told to connect. An address that stands for every address of this machine leads
/// clients on other machines to their own: rather than that, they are told nothing, and stay with the
/// member that they have reached, which passes on what they ask.
fn advertised(advertise: Option<String>, clients: SocketAddr) -> String {
    match advertise {
        Some(address) => address,
        None if stands_for_all(clients) => {
            tracing::warn!(
                listen = %clients,
                "clients are not told where this node is: --listen names no single address, and \
                 there is no --advertise; they reach it as a leader only through other members"
            );
            String::new()
        }
        None => clients.to_string(),
    }
}

/// Whether this is every address of the machine, and so none that others can use.
fn stands_for_all(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_unspecified()
}

fn beginning(settings: &Settings) -> Result<Origin, Failure> {
    Ok(match (&settings.initial_cluster.value, &settings.join.value) {
        (Some(list), _) => Origin::Founders(listed(list)?),
        (None, Some(list)) if list.split(',').all(|one| is_address(one.trim())) => {
            Origin::Join(list.split(',').map(|one| one.trim().to_owned()).collect())
        }
        (None, Some(list)) => {
            return Err(Failure::usage(
                format!("cannot join through {list}"),
                "it is no address: a host and the port for members are needed, as 10.0.0.1:7421",
                "correct --join, FENCEPOST_JOIN or the configuration file",
            ));
        }
        (None, None) => Origin::Alone,
    })
}

/// Whether this is a host and a port. Whether there is such a host, only the network knows.
fn is_address(text: &str) -> bool {
    let port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    text.rsplit_once(':').is_some_and(port)
}

/// Reads `n1=host:port,n2=host:port`.
fn listed(list: &str) -> Result<Vec<Listed>, Failure> {
    let one = |part: &str| {
        let (name, peer) = part.split_once('=')?;
        let whole = !name.is_empty() && is_address(peer);
        whole.then(|| Listed { name: name.to_owned(), peer: peer.to_owned() })
    };
    let parts = list.split(',').map(str::trim);
    let listed: Option<Vec<Listed>> = parts.map(one).collect();
    listed.ok_or_else(|| {
        Failure::usage(
            format!("cannot understand the initial cluster {list}"),
            "it names every node and where its peers reach it: n1=10.0.0.1:7421,n2=10.0.0.2:7421",
            "correct --initial-cluster, FENCEPOST_INITIAL_CLUSTER or the configuration file",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_stands_for_all_is_not_told() {
        let told = |given: Option<&str>, listen: &str| {
            let listen = listen.parse().expect("it is an address");
            advertised(given.map(str::to_owned), listen)
        };
        for listen in ["0.0.0.0:7420", "[::]:7420", "[::ffff:0.0.0.0]:7420"] {
            assert_eq!(told(None, listen), "");
            assert_eq!(told(Some("db1:7420"), listen), "db1:7420");
        }
        assert_eq!(told(None, "10.0.0.1:7420"), "10.0.0.1:7420");
    }
}
