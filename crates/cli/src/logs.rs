//! What a server writes to standard error: log lines, what it says when it is ready, and the error
//! that ends it. Also the messages of verbs that must not wait for it, because they hold a lock.
//!
//! Guarantees: nothing waits for standard error but the end of the process, and that for
//! [`FLUSH_TIMEOUT`] at most; with the format `json` every line is a JSON object.

mod line;
mod stderr;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, IsTerminal as _, Write as _};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::ValueEnum;
use nix::sys::signal::Signal;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt};

use self::stderr::LossyWriter;
use crate::failure::Failure;
use crate::signals;

/// How long the end of a process waits until its last lines are read.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a thread that panics waits for that: the process may be aborted next.
const PANIC_FLUSH_TIMEOUT: Duration = Duration::from_millis(200);
/// The level of what a list of levels does not name.
const REST_LEVEL: LevelFilter = LevelFilter::INFO;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object on a line.
    Json,
}

/// How lines look. Nothing in verbs that are no servers.
static FORMAT: OnceLock<Format> = OnceLock::new();
/// Standard error, once logging has begun.
static STDERR: OnceLock<LossyWriter> = OnceLock::new();
/// Messages of a verb that were dropped.
static DROPPED_MESSAGES: AtomicU64 = AtomicU64::new(0);

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

/// Takes over standard error, before anything else can fail.
pub(crate) fn open(format: Format) -> Result<(), Failure> {
    FORMAT.get_or_init(|| format);
    let dropped = fencepost_server::dropped_log_lines();
    take_over(LossyWriter::start(io::stderr(), gap_line, dropped))
}

/// Takes over standard error for a verb that must never wait for it. It writes messages, and no log.
pub(crate) fn open_for_messages() -> Result<(), Failure> {
    let start = || LossyWriter::start(io::stderr(), dropped_messages, &DROPPED_MESSAGES);
    // The terminal may be the command's by then, and a terminal can be set to stop a job in the
    // background that writes.
    take_over(signals::with_blocked(Signal::SIGTTOU, start).flatten())
}

fn take_over(writer: io::Result<LossyWriter>) -> Result<(), Failure> {
    let writer = writer.map_err(|why| {
        Failure::new(
            "cannot start: the system has no room for threads",
            format!("the system says: {why}"),
            "raise the limit of threads, and try again",
        )
    })?;
    STDERR.get_or_init(|| writer);
    std::panic::set_hook(Box::new(report_panic));
    Ok(())
}

/// Begins to write log lines, after [`open`].
pub(crate) fn begin(level: &str) -> Result<Level, Failure> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    let writer = STDERR.get().expect("standard error was taken over").clone();
    // As everywhere: https://no-color.org
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_coloured = io::stderr().is_terminal() && !is_plain;
    let lines = fmt::layer().with_ansi(is_coloured).with_writer(writer);
    // It would report its own errors on standard error, and wait for it.
    let lines = lines.log_internal_errors(false);
    let lines = match format() {
        Format::Text => lines.with_target(false).boxed(),
        Format::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(Level(handle))
}

/// Shows something that does not depend on the level: as text, or as one line of JSON.
pub(crate) fn show(text: &str, message: &str, fields: &[(&str, String)]) {
    match format() {
        Format::Text => write(text),
        Format::Json => write(&line::json("INFO", message, fields)),
    }
}

/// Shows a message, whole lines, or drops it if those before it are not read.
pub(crate) fn message(text: &str) {
    match STDERR.get() {
        Some(writer) => writer.push(text.as_bytes()),
        None => write(text),
    }
}

/// Reports the error that ends the process. It is written by [`flush`] at the latest.
pub(crate) fn report_fatal(text: &str) {
    match format() {
        Format::Text => write(&format!("error: {}\n", text.replace('\n', "\n       "))),
        Format::Json => write(&line::json("ERROR", text, &[])),
    }
}

/// Waits until all lines are written, for a bounded time. What ends the process calls it before.
pub(crate) fn flush() {
    flush_within(FLUSH_TIMEOUT);
}

/// Waits until all lines are written, but no longer than this.
pub(crate) fn flush_within(timeout: Duration) {
    if let Some(writer) = STDERR.get() {
        writer.flush(timeout);
    }
}

fn format() -> Format {
    FORMAT.get().copied().unwrap_or_default()
}

fn write(line: &str) {
    match STDERR.get() {
        Some(writer) => writer.push_always(line.as_bytes()),
        // Standard error may be closed: then it is not to be read.
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

fn gap_line(lines: u64) -> String {
    line::render(format(), "WARN", "log lines were dropped: they were not read", lines)
}

fn dropped_messages(count: u64) -> String {
    format!("fencepost: {count} messages were dropped: standard error was not read\n")
}

/// As the standard library reports it, but without waiting for standard error.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let message = panic.payload_as_str().unwrap_or("a value that is no text");
    let mut text = format!("thread '{name}' panicked{place}:\n{message}");
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("\nstack backtrace:\n{trace}"));
    }
    match format() {
        Format::Text => write(&format!("{text}\n")),
        Format::Json => write(&line::json("ERROR", &text, &[])),
    }
    flush_within(PANIC_FLUSH_TIMEOUT);
}

/// Understands a level, or a list of levels by target. A word that is no level would be taken for a
/// target, and everything else would be silent.
fn filter(level: &str) -> Result<EnvFilter, Failure> {
    let refused = || {
        Failure::usage(
            format!("cannot understand the log level {level}"),
            "it must be off, error, warn, info, debug or trace, or a list such as \
             info,fencepost=debug",
            "correct --log-level, FENCEPOST_LOG_LEVEL or log_level in the configuration file",
        )
    };
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok() && !word.is_empty();
    let parts = || level.split(',').map(str::trim);
    let is_known = |part: &str| match part.rsplit_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level),
        None => is_level(part),
    };
    if !parts().all(is_known) {
        return Err(refused());
    }
    let rest = match parts().any(is_level) {
        true => String::new(),
        false => format!("{REST_LEVEL},"),
    };
    EnvFilter::try_new(format!("{rest}{level}")).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_log_level_is_refused() {
        for level in ["warning", "loud", "", "info,loud", "fencepost=loud", "=info", "info,"] {
            let refused = filter(level).expect_err(level).to_string();
            assert!(refused.contains("off, error, warn, info, debug or trace"), "{refused}");
        }
    }

    #[test]
    fn level_of_one_target_leaves_the_rest_at_info() {
        let shown = |level: &str| filter(level).expect("it is valid").to_string();
        assert_eq!(filter("warn").expect("it is valid").max_level_hint(), Some(LevelFilter::WARN));
        assert!(shown("fencepost=debug").contains("info"), "{}", shown("fencepost=debug"));
        assert!(!shown("WARN,fencepost=debug").contains("info"));
        assert_eq!(filter("off").expect("it is valid").max_level_hint(), Some(LevelFilter::OFF));
    }
}
