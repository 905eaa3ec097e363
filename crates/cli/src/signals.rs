//! The signals that end a server.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for somebody who wants the process to end.
pub(crate) async fn end() -> io::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
