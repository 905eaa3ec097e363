//! Fixed-width numbers from and to bytes, little-endian. Reading trusts nothing.

// Offsets in files are `u64`, offsets in memory `usize`. They are the same on every machine that
// this runs on, so that turning one into the other never loses bits.
const _: () = assert!(usize::BITS == u64::BITS);

pub(crate) fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("asserted above: both have 64 bits")
}

pub(crate) fn to_u64(number: usize) -> u64 {
    u64::try_from(number).expect("asserted above: both have 64 bits")
}

pub(crate) fn put_u32(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_u64(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Text after its length. What is longer than `max` is cut at a letter: only names and messages
/// are written like this, and a short one is better than none.
pub(crate) fn put_text(text: &str, max: usize, out: &mut Vec<u8>) {
    let text = &text[..text.floor_char_boundary(max)];
    put_u32(u32::try_from(text.len()).unwrap_or_default(), out);
    out.extend_from_slice(text.as_bytes());
}

/// Reads from a slice, from front to back. `None` means that it is cut short.
pub(crate) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { left: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    pub(crate) fn raw(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.left.split_at_checked(len)?;
        self.left = left;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, left) = self.left.split_first_chunk()?;
        self.left = left;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Has one spelling for each value, like everything here.
    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// Text after its length, which may be `max` bytes at most.
    pub(crate) fn text(&mut self, max: usize) -> Option<String> {
        let len = to_usize(self.u32()?.into());
        if len > max {
            return None;
        }
        String::from_utf8(self.raw(len)?.to_vec()).ok()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
