//! What every verb is given beside its own arguments.

use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum as _;
use fencepost_client::Client;
use fencepost_node::shell::descriptors;

use crate::config_file::ConfigFile;
use crate::connect::Endpoints;
use crate::failure::Failure;
use crate::origin::{Origin, Setting};
use crate::output::{Format, Output};

/// Threads that serve clients.
const WORKERS_MIN: usize = 2;

/// Arguments that may stand before or after any verb.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) endpoints: Endpoints,

    /// How the answer is written [default: table]
    #[arg(
        short,
        long,
        env = "FENCEPOST_OUTPUT",
        hide_env_values = true,
        global = true,
        value_enum,
        hide_possible_values = true,
        value_name = "table|json",
        help_heading = "Global options"
    )]
    output: Option<Format>,
}

impl Common {
    /// Connects, and waits until the service has answered. `verb` becomes a part of the client's
    /// name.
    pub(crate) async fn connect(&self, verb: &str) -> anyhow::Result<Client> {
        self.connect_patiently(verb, Duration::ZERO).await
    }

    /// As [`connect`](Common::connect), for requests that may take longer than others.
    pub(crate) async fn connect_patiently(
        &self,
        verb: &str,
        patience: Duration,
    ) -> anyhow::Result<Client> {
        self.endpoints.connect(&format!("fencepost-{verb}"), patience).await
    }

    /// How the answer is written. A file that cannot be used is told of when it is needed.
    pub(crate) fn output(&self) -> Output {
        let filed = || {
            let file = self.endpoints.file().ok()?;
            Some(self.format(None, &file).ok()?.value)
        };
        Output::new(self.output.or_else(filed).unwrap_or_default())
    }

    /// The same, and where it was said.
    pub(crate) fn format(
        &self,
        given: Option<Origin>,
        file: &ConfigFile,
    ) -> Result<Setting<Format>, Failure> {
        Ok(match (self.output, &file.content.output, &file.path) {
            (Some(value), ..) => Setting { value, origin: given.unwrap_or(Origin::Flag) },
            (None, Some(text), Some(path)) => {
                let parse = |text: &str| Format::from_str(text, true);
                let value = file.parsed("output", text, parse)?;
                Setting { value, origin: Origin::File(path.clone()) }
            }
            _ => Setting { value: Format::default(), origin: Origin::Default },
        })
    }
}

/// A runtime for a node and its doors. The thread that brings a request may have to sync the disk
/// for it, so there is always another one that serves those who come meanwhile. Raises the number of
/// files that the process may have open: each connection is one.
pub(crate) fn server_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    descriptors::raise_limit();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(WORKERS_MIN))
        .enable_all()
        .build()
}

/// Runs what a verb does. The client has a thread of its own, so one more is enough.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start: the system has no room for a thread")?.block_on(work)
}
