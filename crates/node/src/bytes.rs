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

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
