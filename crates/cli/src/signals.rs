//! The signals that a server and a verb that waits listen to.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens for somebody who wants the process to end. From when this is made until it is dropped,
/// no such signal is lost.
#[derive(Debug)]
pub(crate) struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl End {
    pub(crate) fn listen() -> io::Result<End> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(End { terminate, interrupt })
    }

    /// Waits for it, and names it.
    pub(crate) async fn heard(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Waits for somebody who wants the process to end, who may come only once.
pub(crate) async fn end() -> io::Result<&'static str> {
    Ok(End::listen()?.heard().await)
}

/// Tells each time that somebody wants the configuration to be read again.
pub(crate) fn hang_ups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}
