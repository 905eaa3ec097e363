//! Backups and snapshots on their way to clients.
//!
//! Guarantees: a bounded number is sent at once, and one is made at a time, because that takes as
//! much memory as the state; a client that takes nothing in time loses its turn, with an error
//! instead of an end that looks like success. Refuses: more of them, with an error that says to retry.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fencepost_node::io::ProposeError;
use fencepost_node::shell::DiskStatus;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::Status;

use crate::error::{Failure, Wrong};
use crate::grpc::Answers;
use crate::house::House;
use crate::limits;

/// Chunks that are read ahead of the client.
const CHUNKS_AHEAD: usize = 4;
/// A scratch file may have twice the bytes of the state, and this part of them: pages of a database
/// are not full.
const SCRATCH_GROWTH_PART: u64 = 4;
/// How long a client may take for everything, beside this time for each chunk: a connection of 64
/// KiB a second. A file that is sent keeps its room on the disk.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
const CHUNK_TIMEOUT: Duration = Duration::from_secs(4);

/// A turn to be sent one.
pub(crate) fn turn(house: &House) -> Result<OwnedSemaphorePermit, Failure> {
    let turn = Arc::clone(&house.backups).try_acquire_owned();
    turn.map_err(|_| Wrong::TooMuchOpen("backups", limits::BACKUPS_MAX).into())
}

/// A file that has no name, so that nothing is left of it whatever happens. It is where the node
/// keeps its own snapshots: other folders for such files may be memory.
pub(crate) fn scratch_file(house: &House) -> io::Result<File> {
    match house.handle.home() {
        Some(home) => tempfile::tempfile_in(home),
        None => tempfile::tempfile(),
    }
}

/// Refuses a scratch file if those of all that are being sent, each of a state of so many bytes,
/// would not leave the disk reserve to the log and the next snapshot of the node.
pub(crate) fn check_disk(house: &House, state_bytes: u64) -> Result<(), Failure> {
    let Some(disk) = house.handle.status().disk else { return Ok(()) };
    let being_sent = limits::BACKUPS_MAX - house.backups.available_permits();
    match leaves_reserve(disk, state_bytes, being_sent as u64) {
        true => Ok(()),
        false => Err(Wrong::Unproposed(ProposeError::DiskFull).into()),
    }
}

fn leaves_reserve(disk: DiskStatus, state_bytes: u64, files: u64) -> bool {
    let file = state_bytes.saturating_mul(2).saturating_add(state_bytes / SCRATCH_GROWTH_PART);
    disk.free >= disk.reserve.saturating_add(file.saturating_mul(files))
}

#[expect(clippy::disallowed_methods, reason = "a client has real time to take what it asked for")]
fn now() -> Instant {
    Instant::now()
}

/// Where chunks go.
pub(crate) struct Chunks<T> {
    sender: Sender<Result<T, Status>>,
    patience: Duration,
    runtime: Handle,
    /// Whether the client took nothing in time.
    is_cut: Cell<bool>,
    /// When all chunks until now must have been taken. The time in which it is made does not count.
    deadline: Cell<Option<Instant>>,
}

impl<T> Chunks<T> {
    /// Waits for the turn of the one that is made. An error if the client has gone meanwhile.
    pub(crate) fn wait_to_make(&self, house: &House) -> Result<OwnedSemaphorePermit, String> {
        let turn = self.runtime.block_on(Arc::clone(&house.backup_maker).acquire_owned());
        match turn {
            Ok(turn) if !self.sender.is_closed() => Ok(turn),
            _ => Err("the client has gone".to_owned()),
        }
    }

    /// Waits until there is room for a chunk. `false` if the client has gone, or takes nothing, or too
    /// little.
    pub(crate) fn send(&self, chunk: T) -> bool {
        let begun = self.deadline.get().unwrap_or_else(|| now() + TRANSFER_TIMEOUT);
        let deadline = begun + CHUNK_TIMEOUT;
        self.deadline.set(Some(deadline));
        // It is made inside of the runtime, whose timer it needs.
        let sent = async {
            let by = deadline.min(now() + self.patience);
            tokio::time::timeout_at(by, self.sender.send(Ok(chunk))).await
        };
        match self.runtime.block_on(sent) {
            Ok(sent) => sent.is_ok(),
            Err(_) => {
                self.is_cut.set(true);
                false
            }
        }
    }
}

/// Sends chunks from a thread that may wait for the node and its disk. `status` gives a failure the
/// form of the API.
pub(crate) fn serve<T: Send + 'static>(
    house: &Arc<House>,
    turn: OwnedSemaphorePermit,
    send: impl FnOnce(&House, &Chunks<T>) -> Result<(), String> + Send + 'static,
    status: impl Fn(Failure) -> Status + Send + 'static,
) -> Answers<T> {
    let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
    let (done, end) = oneshot::channel();
    let (house, runtime) = (Arc::clone(house), Handle::current());
    tokio::task::spawn_blocking(move || {
        let (patience, is_cut) = (house.body_patience, Cell::new(false));
        let chunks = Chunks { sender, patience, runtime, is_cut, deadline: Cell::new(None) };
        let end = match send(&house, &chunks) {
            Ok(()) if chunks.is_cut.get() => Err(status(Wrong::SlowReader.into())),
            Ok(()) => Ok(()),
            Err(why) => Err(status(Wrong::NoBackup(why).into())),
        };
        // The client may have gone.
        drop(done.send(end));
        drop(turn);
    });
    Box::pin(Sending { chunks, end: Some(end) })
}

/// Chunks, and behind them how it ended.
struct Sending<T> {
    chunks: Receiver<Result<T, Status>>,
    end: Option<oneshot::Receiver<Result<(), Status>>>,
}

impl<T> Stream for Sending<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(chunk) = ready!(self.chunks.poll_recv(cx)) {
            return Poll::Ready(Some(chunk));
        }
        let Some(end) = &mut self.end else { return Poll::Ready(None) };
        let end = ready!(Pin::new(end).poll(cx));
        self.end = None;
        // The thread has panicked, and said so.
        let end = end.unwrap_or_else(|_| Err(Failure::from(Wrong::Unexpected).into()));
        Poll::Ready(end.err().map(Err))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn scratch_files_leave_the_disk_reserve() {
        // A file of twice the bytes and a quarter of them.
        let disk = DiskStatus { free: 244 * MIB, reserve: 64 * MIB, is_low: false };
        assert!(leaves_reserve(disk, 80 * MIB, 1));
        assert!(!leaves_reserve(disk, 80 * MIB + 4, 1), "the reserve is not for snapshots");
        assert!(leaves_reserve(disk, 40 * MIB, 2));
        assert!(!leaves_reserve(disk, 80 * MIB, 2), "another one is being sent");
        assert!(!leaves_reserve(disk, u64::MAX, 4), "no size overflows");
    }
}
