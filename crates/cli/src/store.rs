//! `fencepost store`: a small data store that checks fencing tokens itself.
//!
//! Owns: settings, banner, signals and exit codes, and the cluster as a place for the data. Requests
//! and the rule for a file are the `fence` crate's. Guarantees: at SIGTERM, open requests are answered
//! first.

mod banner;
mod cluster;
mod data_key;
mod keys;
pub(crate) mod settings;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use fencepost_fence::OpenError;
use fencepost_fence::store::{self, Store, StoreConfig};
use sd_notify::NotifyState;
use serde::Serialize;
use tokio::net::TcpListener;

use self::cluster::Cluster;
use self::settings::{Place, Settings};
use crate::common::Common;
use crate::failure::Failure;
use crate::origin::Sources;
use crate::output::{self, Output};
use crate::serve::tell_service_manager;
use crate::settings::expected_format;
use crate::{logs, signals};

/// Run a small data store that refuses the writes of holders who come too late
///
/// POST / or POST /write takes a write with its fencing token, GET / reads back. The data is in one
/// text file, and the store never talks to the lock service; with --replicated the data is in the
/// cluster, and any number of stores serve it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: settings::Args,
}

/// What a program is told when the store is ready.
#[derive(Serialize)]
struct Document<'a> {
    /// Where it listens, with the port that it really has.
    listen: SocketAddr,
    /// Nothing if the data is in the cluster.
    file: Option<&'a Path>,
    /// What the keys in the cluster begin with. Nothing if the data is in a file.
    prefix: Option<&'a str>,
    /// Whether bare tokens are refused.
    require_signed: bool,
}

pub(crate) fn run(args: Args, sources: &Sources, common: &Common) -> anyhow::Result<ExitCode> {
    let file = common.endpoints.file();
    logs::open(expected_format(args.settings.log_format(), &file))?;
    let settings = Settings::resolve(args.settings, sources, &file?)?;
    logs::begin(&settings.log_level)?;
    refuse_open_address(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start: the system has no room for threads")?;
    runtime.block_on(serve(&settings, common))
}

/// Whoever reaches the port can read everything, and write with a token of their own making.
fn refuse_open_address(settings: &Settings) -> Result<(), Failure> {
    if settings.listen.ip().is_loopback() || settings.insecure {
        return Ok(());
    }
    Err(Failure::usage(
        format!("refusing to listen on {}", settings.listen),
        "other machines reach it, and there is neither encryption nor a password",
        "choose a loopback address for --listen, or add --insecure if the network is yours",
    ))
}

async fn serve(settings: &Settings, common: &Common) -> anyhow::Result<ExitCode> {
    // From here on: one that came between two steps would be lost.
    let signals = signals::End::listen()?;
    match &settings.place {
        Place::File(file) => serve_file(settings, file, signals, common.output()).await?,
        Place::Cluster(prefix) => serve_cluster(settings, prefix, signals, common).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn serve_file(
    settings: &Settings,
    file: &Path,
    signals: signals::End,
    output: Output,
) -> anyhow::Result<()> {
    let mut config = StoreConfig::new(file);
    config.signatures = keys::signatures(settings)?;
    config.repeats = settings.repeats;
    let listener = listen(settings.listen).await?;
    let opened = tokio::task::spawn_blocking(move || Store::open(&config)).await?;
    let store = opened.map_err(|why| unusable(file, &why))?;
    announce(settings, listener.local_addr()?, output)?;
    store.serve_until(listener, end(signals)).await.map_err(|why| {
        Failure::new(
            format!("the store cannot go on: {} cannot be written", file.display()),
            format!("the system says: {why}"),
            "make room or replace the disk, and start it again; what was acknowledged is not lost",
        )
    })?;
    Ok(())
}

async fn serve_cluster(
    settings: &Settings,
    prefix: &str,
    signals: signals::End,
    common: &Common,
) -> anyhow::Result<()> {
    let signatures = keys::signatures(settings)?;
    let listener = listen(settings.listen).await?;
    let cluster = Cluster {
        client: common.connect("store").await?,
        prefix: prefix.to_owned(),
        repeats: settings.repeats,
        patience: common.endpoints.timeout(None, &common.endpoints.file()?)?.value,
    };
    announce(settings, listener.local_addr()?, common.output())?;
    let stop = async {
        end(signals).await;
        Ok::<_, io::Error>(())
    };
    store::serve_backend(cluster, signatures, listener, stop).await?;
    Ok(())
}

/// Says that it is ready.
fn announce(settings: &Settings, listen: SocketAddr, output: Output) -> anyhow::Result<()> {
    if output.is_json() {
        let (file, prefix) = match &settings.place {
            Place::File(file) => (Some(file.as_path()), None),
            Place::Cluster(prefix) => (None, Some(prefix.as_str())),
        };
        let require_signed = settings.require_signed;
        output::json(&Document { listen, file, prefix, require_signed })?;
    } else {
        banner::show(settings, listen);
    }
    tell_service_manager(NotifyState::Ready);
    Ok(())
}

/// Waits for the signal to end.
async fn end(mut signals: signals::End) {
    let signal = signals.heard().await;
    tell_service_manager(NotifyState::Stopping);
    tracing::info!(signal, "ending: answering what was asked, then closing");
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|why| {
        Failure::new(
            format!("cannot listen for clients on {address}"),
            format!("the system says: {why}"),
            "stop what listens there, or choose another --listen",
        )
    })
}

fn unusable(file: &Path, why: &OpenError) -> Failure {
    let remedy = match why {
        OpenError::InUse(_) => "stop the store that has it, or choose another --file",
        OpenError::Foreign(_) => "choose another --file; nothing was changed",
        OpenError::Damaged { .. } => {
            "restore it from a copy; do not delete it, because the marks are in it"
        }
        _ => "make the file and its directory writable, or choose another --file",
    };
    Failure::new(format!("cannot use the file {}", file.display()), why.to_string(), remedy)
}
