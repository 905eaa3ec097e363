//! The signals that a server and a verb that waits listen to, and those that must not end or stop a
//! process.

use std::io;

use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number};
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

/// Lets a write beyond the limit of file sizes fail, as one on a full disk does: by default its signal
/// ends the process without a word. For the calling thread, and those that it starts from now on.
/// Commands that are started begin with no signal blocked.
pub(crate) fn outlive_file_size_limit() {
    // It fails only for a call that makes no sense.
    let _ = SigSet::from(Number::SIGXFSZ).thread_block();
}

/// Calls this with a signal blocked. Threads that it starts keep the signal blocked.
pub(crate) fn with_blocked<T>(number: Number, work: impl FnOnce() -> T) -> io::Result<T> {
    let before = SigSet::from(number).thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let done = work();
    before.thread_set_mask()?;
    Ok(done)
}
