//! What the process says while it runs: on standard error, for people or for machines.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object on a line.
    Json,
}

/// Begins to write log lines.
pub(crate) fn begin(level: &str, format: Format) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level).with_context(|| {
        format!(
            "cannot understand the log level {level}\n\
             it must be error, warn, info, debug or trace, or a list such as info,fencepost=debug\n\
             correct --log-level or FENCEPOST_LOG_LEVEL"
        )
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    match format {
        Format::Text => lines.with_target(false).init(),
        Format::Json => lines.json().init(),
    }
    Ok(())
}
