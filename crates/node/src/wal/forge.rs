//! A segment with any contents and right checksums, so that a fuzzer gets past them.

use super::item::{Head, Item};
use super::record;
use super::segment::{HEADER_BYTES, Header};

/// The first segment of a log whose records after the head have these bodies. Each one vouches
/// for nothing but the header.
pub(crate) fn segment_of<'a>(bodies: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let header = Header {
        version: super::segment::VERSION_FIRST,
        sequence: super::FIRST_SEQUENCE,
        salt: 0,
        previous_end: 0,
    };
    let mut segment = header.encode();
    let mut buffer = Vec::new();
    record::begin(&mut buffer);
    Item::Head(Head::default()).put(&mut buffer);
    put(&mut segment, &mut buffer, header);
    for body in bodies {
        record::begin(&mut buffer);
        buffer.extend_from_slice(body);
        put(&mut segment, &mut buffer, header);
    }
    segment
}

fn put(segment: &mut Vec<u8>, buffer: &mut Vec<u8>, header: Header) {
    if let Some(len) = record::pad(buffer) {
        record::seal(buffer, len, header.seeds(), segment.len(), HEADER_BYTES);
        segment.extend_from_slice(buffer);
    }
}
