//! The frame around what one append writes.
//!
//! A record passes only at the offset, in the segment and in the life of the segment that it was
//! written for: all three go into its checksums. So neither the remains of a recycled segment nor
//! bytes that a client stored can be taken for one.

use crc32c::crc32c_append;

use super::segment;
use crate::bytes::{Reader, to_u64, to_usize};

/// Bytes before the body: its length, the mark, the two checksums.
pub(super) const HEADER_BYTES: usize = 16;
/// Where a record may begin.
pub(super) const ALIGN: usize = 8;

/// What the checksums of one life of one segment begin with.
///
/// For the same bytes, two seeds never give the same sum, and two sequence numbers less than 2^32
/// apart never give the same seed. So a whole record of an earlier life cannot pass, and other
/// bytes pass with a chance of 2^-64, which nobody can better without knowing the salt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds {
    header: u32,
    body: u32,
}

impl Seeds {
    pub(super) fn new(salt: u64, sequence: u64) -> Seeds {
        let [a, b, c, d, e, f, g, h] = salt.to_le_bytes();
        let sequence = sequence.to_le_bytes();
        Seeds {
            header: crc32c_append(u32::from_le_bytes([a, b, c, d]), &sequence),
            body: crc32c_append(u32::from_le_bytes([e, f, g, h]), &sequence),
        }
    }

    fn header_sum(self, fields: &[u8], at: usize) -> u32 {
        crc32c_append(crc32c_append(self.header, fields), &to_u64(at).to_le_bytes())
    }
}

/// A record as it lies in a segment.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) body: &'a [u8],
    /// Up to where the segment was durable when this was written: the mark.
    pub(super) synced: usize,
    /// Where the next record begins.
    pub(super) end: usize,
}

/// Begins a record: room for its header. The body is to be appended.
pub(super) fn begin(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.resize(HEADER_BYTES, 0);
}

/// Pads a body. Returns its length without the padding, `None` if it is too long for a record.
pub(super) fn pad(buffer: &mut Vec<u8>) -> Option<u32> {
    let len = buffer.len() - HEADER_BYTES;
    buffer.resize(buffer.len().next_multiple_of(ALIGN), 0);
    u32::try_from(len).ok().filter(|_| len <= segment::RECORD_BYTES_MAX)
}

/// Fills in the header of a padded record that is to lie at `at`.
pub(super) fn seal(buffer: &mut [u8], len: u32, seeds: Seeds, at: usize, synced: usize) {
    let synced = u32::try_from(synced).expect("a segment is shorter than 4 GiB");
    let sum = crc32c_append(seeds.body, &buffer[HEADER_BYTES..]);
    buffer[..4].copy_from_slice(&len.to_le_bytes());
    buffer[4..8].copy_from_slice(&synced.to_le_bytes());
    buffer[8..12].copy_from_slice(&sum.to_le_bytes());
    let sum = seeds.header_sum(&buffer[..12], at);
    buffer[12..16].copy_from_slice(&sum.to_le_bytes());
}

/// The record at `at`, if there is a sound one.
pub(super) fn check(segment: &[u8], at: usize, seeds: Seeds) -> Option<Record<'_>> {
    let rest = segment.get(at..)?;
    let (header, rest) = rest.split_at_checked(HEADER_BYTES)?;
    let mut from = Reader::new(header);
    let len = to_usize(from.u32()?.into());
    let synced = to_usize(from.u32()?.into());
    // This comes first: it is cheap, and zeros fail it.
    if synced < segment::HEADER_BYTES || synced > at {
        return None;
    }
    let (body_sum, header_sum) = (from.u32()?, from.u32()?);
    if seeds.header_sum(&header[..12], at) != header_sum {
        return None;
    }
    let padded = rest.get(..len.next_multiple_of(ALIGN))?;
    if crc32c_append(seeds.body, padded) != body_sum {
        return None;
    }
    Some(Record { body: &padded[..len], synced, end: at + HEADER_BYTES + padded.len() })
}
