//! What the process says while it runs: on standard error, for people or for machines.

use std::io::{self, IsTerminal as _};

use clap::ValueEnum;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt};

use crate::failure::Failure;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object on a line.
    Json,
}

/// Changes what is logged while the process runs.
#[derive(Clone, Debug)]
pub(crate) struct Level(reload::Handle<EnvFilter, Registry>);

impl Level {
    /// From now on, this is logged.
    pub(crate) fn set(&self, level: &str) -> Result<(), Failure> {
        let filter = filter(level)?;
        // It fails only if nothing is logged at all any more.
        drop(self.0.reload(filter));
        Ok(())
    }
}

/// Begins to write log lines.
pub(crate) fn begin(level: &str, format: Format) -> Result<Level, Failure> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    // As everywhere: https://no-color.org
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_coloured = io::stderr().is_terminal() && !is_plain;
    let lines = fmt::layer().with_ansi(is_coloured).with_writer(io::stderr);
    let lines = match format {
        Format::Text => lines.with_target(false).boxed(),
        Format::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(Level(handle))
}

fn filter(level: &str) -> Result<EnvFilter, Failure> {
    EnvFilter::try_new(level).map_err(|_| {
        Failure::usage(
            format!("cannot understand the log level {level}"),
            "it must be error, warn, info, debug or trace, or a list such as info,fencepost=debug",
            "correct --log-level, FENCEPOST_LOG_LEVEL or log_level in the configuration file",
        )
    })
}
