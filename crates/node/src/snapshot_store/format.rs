//! The bytes of a snapshot file: header, chunks, trailer.

use crc32c::{crc32c, crc32c_append};

use super::SnapshotId;
use crate::bytes::{Reader, to_u64};

pub(crate) const MAGIC: [u8; 8] = *b"FPSNAPFL";
/// The format that this build writes, and the only one that it reads.
pub(super) const VERSION: u32 = 1;
/// Magic, version, index, term, checksum.
pub(super) const HEADER_BYTES: usize = 32;
/// Length and checksum before each chunk.
pub(super) const CHUNK_HEADER_BYTES: usize = 8;
/// A length of zero, the length and the number of chunks, two checksums.
pub(super) const TRAILER_BYTES: usize = 28;

/// How many bytes of a snapshot a chunk holds; the last one may hold less. A reader sets no more
/// aside at a time.
pub const CHUNK_BYTES: usize = 256 * 1024;

const SUFFIX: &str = ".snapshot";
const UNFINISHED_SUFFIX: &str = ".snapshot.tmp";

pub(super) fn name(id: SnapshotId) -> String {
    format!("{:016x}-{:016x}{SUFFIX}", id.index, id.term)
}

pub(super) fn unfinished_name(id: SnapshotId) -> String {
    format!("{:016x}-{:016x}{UNFINISHED_SUFFIX}", id.index, id.term)
}

pub(super) fn is_unfinished(name: &str) -> bool {
    name.ends_with(UNFINISHED_SUFFIX)
}

/// The snapshot that a file of this name holds.
pub(super) fn id(name: &str) -> Option<SnapshotId> {
    let (index, term) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    let index = u64::from_str_radix(index, 16).ok()?;
    let id = SnapshotId { index, term: u64::from_str_radix(term, 16).ok()? };
    (self::name(id) == name).then_some(id)
}

pub(super) fn header(id: SnapshotId) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&id.index.to_le_bytes());
    bytes[20..28].copy_from_slice(&id.term.to_le_bytes());
    let sum = crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// What is wrong with a header.
pub(super) enum BadHeader {
    Damaged(&'static str),
    LaterVersion(u32),
}

pub(super) fn check_header(bytes: &[u8; HEADER_BYTES], id: SnapshotId) -> Result<(), BadHeader> {
    let mut from = Reader::new(bytes);
    if from.array() != Some(MAGIC) {
        return Err(BadHeader::Damaged("a beginning that is not that of a snapshot"));
    }
    let is_whole = bytes[28..] == crc32c(&bytes[..28]).to_le_bytes();
    match from.u32() {
        Some(version) if version > VERSION && is_whole => Err(BadHeader::LaterVersion(version)),
        _ if *bytes != header(id) => {
            Err(BadHeader::Damaged("a header that fails its checksum or names another snapshot"))
        }
        _ => Ok(()),
    }
}

/// The checksum of a chunk. It depends on the snapshot and on the place in it, so that a chunk of
/// another file or from another place does not pass.
pub(super) fn chunk_sum(id: SnapshotId, number: u64, data: &[u8]) -> u32 {
    crc32c_append(crc32c_append(seed(id), &number.to_le_bytes()), data)
}

fn seed(id: SnapshotId) -> u32 {
    crc32c_append(crc32c(&id.index.to_le_bytes()), &id.term.to_le_bytes())
}

/// What a snapshot adds up to.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Totals {
    pub(super) bytes: u64,
    pub(super) chunks: u64,
    /// The checksum of all bytes.
    pub(super) sum: u32,
}

impl Totals {
    pub(super) fn add(&mut self, data: &[u8]) {
        self.bytes += to_u64(data.len());
        self.chunks += 1;
        self.sum = crc32c_append(self.sum, data);
    }

    pub(super) fn trailer(&self, id: SnapshotId) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[4..12].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.chunks.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.sum.to_le_bytes());
        let sum = crc32c_append(seed(id), &bytes[..24]);
        bytes[24..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn from_trailer(bytes: &[u8; TRAILER_BYTES], id: SnapshotId) -> Option<Totals> {
        let mut from = Reader::new(bytes);
        from.u32()?;
        let totals = Totals { bytes: from.u64()?, chunks: from.u64()?, sum: from.u32()? };
        (totals.trailer(id) == *bytes).then_some(totals)
    }
}
