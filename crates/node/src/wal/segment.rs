//! The files of the log: their names, and how each begins.

use std::io;

use crc32c::crc32c;

use super::error::{Damaged, OpenError};
use super::item::{Head, Item};
use super::record::{self, Seeds};
use crate::bytes::{Reader, to_u64, to_usize};
use crate::disk::{Disk, DiskFile};

const MAGIC: [u8; 8] = *b"FPWALSEG";
/// The format of segments without witnesses.
pub(super) const VERSION_FIRST: u32 = 1;
/// The format of segments that may hold witnesses, and the latest that this build knows. Earlier
/// builds refuse it as one of a later build: they would take a witness for damage.
pub(super) const VERSION: u32 = 2;
/// Magic, version, sequence number, salt, end of the segment before, checksum.
pub(super) const HEADER_BYTES: usize = 40;

/// Where the first record after the head lies.
pub(super) const FIRST_RECORD_AT: usize = HEADER_BYTES + record::HEADER_BYTES + 56;

/// The highest number of a segment.
const SEQUENCE_MAX: u64 = u64::MAX >> 1;

/// The smallest segment: header, head and a little more.
pub(super) const SEGMENT_BYTES_MIN: u64 = 256;
/// The largest.
pub(super) const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// What one append can hold.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 30;

// An append that is larger than a segment gets one of its own. Offsets in it must fit 32 bits.
const _: () = assert!(RECORD_BYTES_MAX + HEADER_BYTES + 1024 < u32::MAX as usize);
const _: () = assert!(SEGMENT_BYTES_MAX < u32::MAX as u64);

const SEGMENT_SUFFIX: &str = ".wal";
const SPARE_SUFFIX: &str = ".spare";

pub(super) fn name(sequence: u64) -> String {
    format!("{sequence:016x}{SEGMENT_SUFFIX}")
}

pub(super) fn spare_name(number: u64) -> String {
    format!("{number:016x}{SPARE_SUFFIX}")
}

/// The sequence number of a segment of this name.
pub(super) fn sequence(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name.strip_suffix(SEGMENT_SUFFIX)?, 16).ok()?;
    (self::name(number) == name).then_some(number)
}

pub(super) fn is_spare(name: &str) -> bool {
    name.ends_with(SPARE_SUFFIX)
}

/// How a segment begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// The format of the segment.
    pub(super) version: u32,
    pub(super) sequence: u64,
    pub(super) salt: u64,
    /// Where the records of the segment before this one end; 0 for the first.
    pub(super) previous_end: usize,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&to_u64(self.previous_end).to_le_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Reads the header of a segment whose name says `sequence`.
    ///
    /// A header is durable before its file gets the name of a segment. So no crash can leave a
    /// bad one behind, and a bad one is damage even in the last segment.
    pub(super) fn decode(segment: &[u8], sequence: u64) -> Result<Header, OpenError> {
        let file = name(sequence);
        let damaged = |what| OpenError::Damaged(Damaged { file: name(sequence), offset: 0, what });
        let mut from = Reader::new(segment);
        let Some(magic) = from.array() else {
            return Err(damaged("a segment that is too short for its header"));
        };
        if magic != MAGIC {
            return Err(OpenError::NotALog { file });
        }
        let version = from.u32().ok_or_else(|| damaged("a header that is cut short"))?;
        // A later version keeps the length and the checksum of the header. Without the checksum,
        // a damaged version would be taken for an upgrade.
        let fields = segment.get(..HEADER_BYTES).and_then(<[u8]>::split_last_chunk);
        let (fields, sum) = fields.ok_or_else(|| damaged("a header that is cut short"))?;
        if crc32c(fields).to_le_bytes() != *sum {
            return Err(damaged("a header that fails its checksum"));
        }
        if version > VERSION {
            return Err(OpenError::LaterVersion { file, version, known: VERSION });
        }
        let header =
            read_fields(version, &mut from).ok_or_else(|| damaged("a header that is cut short"))?;
        if version < VERSION_FIRST {
            return Err(damaged("a header with an impossible version"));
        }
        if header.sequence != sequence {
            return Err(damaged("a segment under the name of another one"));
        }
        // Nothing gets there by counting, and the next number must exist.
        if sequence > SEQUENCE_MAX {
            return Err(damaged("a segment with an impossible number"));
        }
        Ok(header)
    }

    pub(super) fn seeds(&self) -> Seeds {
        Seeds::new(self.salt, self.sequence)
    }
}

fn read_fields(version: u32, from: &mut Reader<'_>) -> Option<Header> {
    let (sequence, salt) = (from.u64()?, from.u64()?);
    Some(Header { version, sequence, salt, previous_end: to_usize(from.u64()?) })
}

/// The segment that is written to.
#[derive(Debug)]
pub(super) struct Active<F> {
    pub(super) file: F,
    pub(super) header: Header,
    pub(super) capacity: usize,
    /// Where the next record goes.
    pub(super) end: usize,
    /// Everything before this is durable.
    pub(super) synced: usize,
    /// The highest index of an entry in it that may still count; 0 if there is none.
    pub(super) max_index: u64,
}

/// Turns a spare file into the segment that `header` describes.
///
/// The order matters. The header and the head are durable before the file gets the name of a
/// segment, and the name is durable before anything is appended. Otherwise a crash could leave a
/// segment without a beginning, or take one away that holds synced records.
pub(super) fn begin<D: Disk>(
    disk: &D,
    spare: &str,
    mut file: D::File,
    header: Header,
    head: Head,
) -> io::Result<Active<D::File>> {
    let capacity = to_usize(file.size()?);
    let mut first = Vec::new();
    record::begin(&mut first);
    Item::Head(head).put(&mut first);
    let len = record::pad(&mut first).expect("a head is short");
    record::seal(&mut first, len, header.seeds(), HEADER_BYTES, HEADER_BYTES);
    let mut bytes = header.encode();
    bytes.extend_from_slice(&first);
    file.write_at(0, &bytes)?;
    file.sync_data()?;
    disk.rename(spare, &name(header.sequence))?;
    disk.sync_dir()?;
    let end = bytes.len();
    assert_eq!(end, FIRST_RECORD_AT, "the head has another length than was reckoned with");
    Ok(Active { file, header, capacity, end, synced: end, max_index: 0 })
}
