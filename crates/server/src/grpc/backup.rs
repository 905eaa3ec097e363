//! Snapshot: a backup of the state as it is now, in chunks.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use fencepost_proto::v1;

use super::Answers;
use crate::backups::{self, Chunks};
use crate::error::Failure;
use crate::house::House;
use crate::limits;

pub(super) fn serve(
    house: &Arc<House>,
    header: v1::Header,
) -> Result<Answers<v1::SnapshotChunk>, Failure> {
    let turn = backups::turn(house)?;
    let send = move |house: &House, chunks: &Chunks<_>| send(house, header, chunks);
    Ok(backups::serve(house, turn, send, |failure| failure.into()))
}

fn send(
    house: &House,
    header: v1::Header,
    chunks: &Chunks<v1::SnapshotChunk>,
) -> Result<(), String> {
    let mut file = make(house, chunks)?;
    let told = |why: io::Error| why.to_string();
    let mut left = file.metadata().map_err(told)?.len();
    let mut header = Some(header);
    let mut sum = 0;
    loop {
        let mut data = Vec::new();
        let most = limits::BACKUP_CHUNK_BYTES as u64;
        Read::by_ref(&mut file).take(most).read_to_end(&mut data).map_err(told)?;
        left = left.saturating_sub(data.len() as u64);
        sum = crc32c::crc32c_append(sum, &data);
        let is_last = left == 0 || data.is_empty();
        let crc32c = if is_last { sum } else { 0 };
        let (header, data) = (header.take(), data.into());
        let chunk = v1::SnapshotChunk { header, data, crc32c, is_last };
        if !chunks.send(chunk) || is_last {
            return Ok(());
        }
    }
}

/// A backup of this moment, in a file that its last user removes.
fn make(house: &House, chunks: &Chunks<v1::SnapshotChunk>) -> Result<File, String> {
    let _turn = chunks.wait_to_make(house)?;
    let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
    let path = folder.path().join("backup");
    house.handle.save_backup(&path).map_err(|why| why.to_string())?;
    File::open(&path).map_err(|why| why.to_string())
}
