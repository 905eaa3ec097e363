//! Standard output of a holder without a command.
//!
//! Guarantees: it is written by a thread of its own, so that a full pipe does not delay the release or
//! the loss of the lock.

use std::{io, thread};

use tokio::sync::oneshot;

use crate::output;

/// Begins to write a line. The future resolves when it is written, or cannot be.
pub(super) fn write(line: String) -> io::Result<impl Future<Output = anyhow::Result<()>>> {
    let (sender, written) = oneshot::channel();
    let write = move || drop(sender.send(output::line(&line)));
    thread::Builder::new().name("stdout".to_owned()).spawn(write)?;
    Ok(async { written.await? })
}
