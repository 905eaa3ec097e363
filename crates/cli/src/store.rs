//! `fencepost store`: a small data store that checks fencing tokens itself.
//!
//! Owns: settings, banner, signals and exit codes. What is stored and refused is decided in the
//! `fence` crate. Guarantees: when it is told to end, open requests are answered first.

mod banner;
mod keys;
pub(crate) mod settings;

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use fencepost_fence::OpenError;
use fencepost_fence::store::{Store, StoreConfig};
use sd_notify::NotifyState;
use serde::Serialize;
use tokio::net::TcpListener;

use self::settings::Settings;
use crate::common::Common;
use crate::failure::Failure;
use crate::origin::Sources;
use crate::output::{self, Output};
use crate::serve::tell_service_manager;
use crate::settings::expected_format;
use crate::{logs, signals};

/// Run a small data store that refuses the writes of holders who come too late
///
/// One text file behind HTTP: POST / or POST /write takes a write with its fencing token, GET /
/// reads back. It never talks to the lock service: the token says all that it needs to know.
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
    file: &'a Path,
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
    runtime.block_on(serve(&settings, common.output()))
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

async fn serve(settings: &Settings, output: Output) -> anyhow::Result<ExitCode> {
    // From here on: one that came between two steps would be lost.
    let mut signals = signals::End::listen()?;
    let mut config = StoreConfig::new(&settings.file);
    config.signatures = keys::signatures(settings)?;
    config.repeats = settings.repeats;
    let listener = listen(settings.listen).await?;
    let address = listener.local_addr()?;
    let opened = tokio::task::spawn_blocking(move || Store::open(&config)).await?;
    let store = opened.map_err(|why| unusable(&settings.file, &why))?;
    if output.is_json() {
        let (file, require_signed) = (settings.file.as_path(), settings.require_signed);
        output::json(&Document { listen: address, file, require_signed })?;
    } else {
        banner::show(settings, address);
    }
    tell_service_manager(NotifyState::Ready);
    let end = async {
        let signal = signals.heard().await;
        tell_service_manager(NotifyState::Stopping);
        tracing::info!(signal, "ending: answering what was asked, then closing the file");
    };
    store.serve_until(listener, end).await.map_err(|why| {
        Failure::new(
            format!("the store cannot go on: {} cannot be written", settings.file.display()),
            format!("the system says: {why}"),
            "make room or mend the disk, and start it again; what was acknowledged is not lost",
        )
    })?;
    Ok(ExitCode::SUCCESS)
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
