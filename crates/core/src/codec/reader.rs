//! Reads what [`super::writer`] writes, and trusts none of it.
//!
//! Guarantees: whatever the bytes are, reading ends, does not panic, and sets no memory aside
//! because of a number alone: no more at a time than a few times the bytes left to read.

use super::NESTING_MAX;
use super::error::Malformed;

/// Reads from a slice, from front to back.
pub(super) struct Reader<'a> {
    /// All the bytes from the beginning of the input to where this reader must stop.
    bytes: &'a [u8],
    at: usize,
    /// How many transactions the present one lies in.
    depth: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0, depth: 0 }
    }

    /// The complaint that `what` is wrong here.
    pub(super) fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { what, at: self.at }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Insists that everything was read.
    pub(super) fn finish(&self) -> Result<(), Malformed> {
        if self.left() == 0 { Ok(()) } else { Err(self.malformed("bytes left over")) }
    }

    /// Passes over everything that is left.
    pub(super) fn skip_rest(&mut self) {
        self.at = self.bytes.len();
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.malformed("cut short"))?;
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed("neither yes nor no")),
        }
    }

    /// One number has one spelling: a longer one is refused, or equal values would not have
    /// equal bytes.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        match self.bytes.get(self.at) {
            // Most numbers are small.
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && byte > 1 {
                return Err(self.malformed("a number beyond 64 bits"));
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                let overlong = byte == 0 && shift > 0;
                return if overlong {
                    Err(self.malformed("an overlong number"))
                } else {
                    Ok(number)
                };
            }
        }
        Err(self.malformed("a number beyond 64 bits"))
    }

    pub(super) fn zigzag(&mut self) -> Result<i64, Malformed> {
        let number = self.varint()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        let number = self.varint()?;
        u32::try_from(number).map_err(|_| self.malformed("a number beyond 32 bits"))
    }

    /// How many elements follow. Each takes at least one byte, so more than there are bytes left
    /// is a lie.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.varint()?;
        let count = usize::try_from(count).ok().filter(|&count| count <= self.left());
        count.ok_or_else(|| self.malformed("a length beyond the end"))
    }

    /// For how many of `count` elements of `size` bytes to make room at first. Elements can be
    /// larger in memory than in the input, and only those that are really there deserve it.
    pub(super) fn room(&self, count: usize, size: usize) -> usize {
        count.min(self.left() / size.max(1))
    }

    /// The next `len` bytes as they are.
    pub(super) fn raw(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let rest = self.bytes[self.at..].get(..len);
        let bytes = rest.ok_or_else(|| self.malformed("cut short"))?;
        self.at += len;
        Ok(bytes)
    }

    /// Bytes after their length.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count()?;
        self.raw(len)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.bytes()?;
        core::str::from_utf8(bytes).map_err(|_| self.malformed("text that is not UTF-8"))
    }

    /// A reader for what stands after its length. This one goes on behind it.
    pub(super) fn framed(&mut self) -> Result<Reader<'a>, Malformed> {
        let len = self.count()?;
        let start = self.at;
        self.raw(len)?;
        Ok(Reader { bytes: &self.bytes[..self.at], at: start, depth: self.depth })
    }

    /// Reads what lies one transaction deeper, unless that is too deep: the stack is finite.
    pub(super) fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Option<Result<T, Malformed>> {
        if self.depth == NESTING_MAX {
            return None;
        }
        self.depth += 1;
        let value = inner(self);
        self.depth -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::writer::Writer;
    use super::*;

    #[test]
    fn numbers_return() {
        let edges = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), 1 << 63, u64::MAX];
        for number in edges {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes).varint(number);
            let mut from = Reader::new(&bytes);
            assert_eq!((from.varint(), from.left()), (Ok(number), 0));
        }
        for number in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes).zigzag(number);
            let mut from = Reader::new(&bytes);
            assert_eq!((from.zigzag(), from.left()), (Ok(number), 0));
        }
    }

    #[test]
    fn a_number_has_one_spelling() {
        let overlong: [&[u8]; 3] = [&[0x80, 0], &[0xff, 0], &[0x81, 0x80, 0]];
        for bytes in overlong {
            assert!(Reader::new(bytes).varint().is_err(), "{bytes:?}");
        }
        let mut beyond = [0xff; 11];
        assert!(Reader::new(&beyond).varint().is_err());
        beyond[9] = 2;
        assert!(Reader::new(&beyond).varint().is_err());
        beyond[9] = 1;
        assert_eq!(Reader::new(&beyond).varint(), Ok(u64::MAX));
    }

    #[test]
    fn a_length_is_believed_only_as_far_as_there_are_bytes() {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes).varint(1 << 60);
        assert!(Reader::new(&bytes).bytes().is_err());
        assert!(Reader::new(&bytes).framed().is_err());
        assert_eq!(Reader::new(&[0; 100]).room(100, 40), 2);
    }

    #[test]
    fn frames_return_whatever_their_length() {
        for len in [0, 1, 127, 128, 20_000] {
            let mut bytes = Vec::new();
            let mut to = Writer::new(&mut bytes);
            to.framed(|to| to.raw(&[7].repeat(len)));
            to.u8(9);
            let mut from = Reader::new(&bytes);
            let mut part = from.framed().expect("it was just written");
            assert_eq!(part.raw(len), Ok(&[7].repeat(len)[..]));
            assert_eq!(part.finish(), Ok(()));
            assert_eq!((from.u8(), from.left()), (Ok(9), 0));
        }
    }
}
