//! Snapshot: a backup of the state as it is now, in chunks.

use std::io::Read;
use std::sync::Arc;

use fencepost_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Answers;
use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::limits;

/// Chunks that are read ahead of the client.
const CHUNKS_AHEAD: usize = 4;

pub(super) fn serve(
    house: &Arc<House>,
    header: v1::Header,
) -> Result<Answers<v1::SnapshotChunk>, Failure> {
    // Each is a copy on the disk and a thread that waits for a client.
    let Ok(turn) = Arc::clone(&house.backups).try_acquire_owned() else {
        return Err(Wrong::TooMuchOpen("backups", limits::BACKUPS_MAX).into());
    };
    let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
    let house = Arc::clone(house);
    // The node and its disk are waited for, so this is done beside the tasks.
    tokio::task::spawn_blocking(move || {
        if let Err(why) = send(&house, header, &sender) {
            let failure = Failure::from(Wrong::NoBackup(why));
            // The client may have gone.
            drop(sender.blocking_send(Err(failure.into())));
        }
        drop(turn);
    });
    Ok(Box::pin(ReceiverStream::new(chunks)))
}

fn send(
    house: &House,
    header: v1::Header,
    sender: &mpsc::Sender<Result<v1::SnapshotChunk, Status>>,
) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
    let path = folder.path().join("backup");
    house.handle.save_backup(&path).map_err(|why| why.to_string())?;
    let mut file = std::fs::File::open(&path).map_err(|why| why.to_string())?;
    let mut left = file.metadata().map_err(|why| why.to_string())?.len();
    let mut header = Some(header);
    let mut sum = 0;
    loop {
        let mut data = Vec::new();
        let most = limits::BACKUP_CHUNK_BYTES as u64;
        let read = Read::by_ref(&mut file).take(most).read_to_end(&mut data);
        read.map_err(|why| why.to_string())?;
        left = left.saturating_sub(data.len() as u64);
        sum = crc32c::crc32c_append(sum, &data);
        let is_last = left == 0 || data.is_empty();
        let crc32c = if is_last { sum } else { 0 };
        let (header, data) = (header.take(), data.into());
        let chunk = v1::SnapshotChunk { header, data, crc32c, is_last };
        if sender.blocking_send(Ok(chunk)).is_err() || is_last {
            return Ok(());
        }
    }
}
