//! Writes the few shapes that everything else is made of.

use alloc::vec::Vec;

use super::NESTING_MAX;

/// Appends to a buffer.
/// Takes bytes, piece by piece.
type Sink<'a> = dyn FnMut(&[u8]) + 'a;

/// So many bytes go to a sink at once.
const DRAINED_AT: usize = 64 << 10;

pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Takes what was written so far, whenever that is enough; without it everything is kept.
    sink: Option<&'a mut Sink<'a>>,
    /// How many lengths are still to be written before bytes that are there already.
    frames: u32,
    /// How many transactions the present one lies in.
    depth: u32,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out, sink: None, frames: 0, depth: 0 }
    }

    /// Writes into `sink`, and keeps little in `out` meanwhile.
    pub(super) fn into_sink(out: &'a mut Vec<u8>, sink: &'a mut Sink<'a>) -> Writer<'a> {
        Writer { sink: Some(sink), ..Writer::new(out) }
    }

    /// Hands over what was written, if that is enough and nothing before it is to be filled in.
    pub(super) fn drain(&mut self) {
        if self.out.len() >= DRAINED_AT {
            self.flush();
        }
    }

    /// Hands over what was written.
    pub(super) fn flush(&mut self) {
        if let (Some(sink), 0) = (&mut self.sink, self.frames) {
            sink(self.out);
            self.out.clear();
        }
    }

    pub(super) fn u8(&mut self, byte: u8) {
        self.out.push(byte);
    }

    pub(super) fn bool(&mut self, yes: bool) {
        self.u8(u8::from(yes));
    }

    /// Seven bits a byte, the lowest first; the top bit says that more follow.
    pub(super) fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.u8(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.u8(low_bits(number));
    }

    /// Numbers near zero are short, whatever their sign.
    pub(super) fn zigzag(&mut self, number: i64) {
        self.varint((number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
    }

    pub(super) fn count(&mut self, count: usize) {
        self.varint(count as u64);
    }

    /// Bytes as they are, without their length.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Bytes after their length.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// What `body` writes, after its length. Most bodies are short enough for a length of one
    /// byte, so room for one is left, and only a longer body has to be moved.
    pub(super) fn framed(&mut self, body: impl FnOnce(&mut Writer<'a>)) {
        let start = self.out.len();
        self.u8(0);
        self.frames += 1;
        body(self);
        self.frames -= 1;
        let len = self.out.len() - start - 1;
        if let Ok(short @ 0..0x80) = u8::try_from(len) {
            self.out[start] = short;
            return;
        }
        let mut prefix = Vec::new();
        Writer::new(&mut prefix).count(len);
        self.out.splice(start..=start, prefix);
    }

    /// Writes what lies one transaction deeper, unless that is too deep to be read again.
    pub(super) fn nested(&mut self, inner: impl FnOnce(&mut Writer<'a>)) -> bool {
        let fits = self.depth < NESTING_MAX;
        if fits {
            self.depth += 1;
            inner(self);
            self.depth -= 1;
        }
        fits
    }
}

fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}
