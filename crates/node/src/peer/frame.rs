//! Frames: a length, a checksum, a kind, a body.

use std::io::{self, Read};

use crc32c::{crc32c, crc32c_append};

use crate::bytes::{Reader, to_usize};

/// Length, checksum and kind.
pub const HEADER_BYTES: usize = 9;

/// How long a body may be. The longest that is ever sent is one entry of the log, or one piece of
/// a snapshot; both are shorter than half of this.
pub const FRAME_BYTES_MAX: usize = 4 << 20;

/// How much is read at a time.
const READ_BYTES: usize = 256 << 10;

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than any frame.
    #[error("a frame of {0} bytes, which is longer than any that members send")]
    TooLong(u32),
    /// Other bytes than were sent.
    #[error("a frame that fails its checksum")]
    BadSum,
}

/// Appends a frame whose body is what `write` appends. `false`, and nothing is appended, if the
/// body is longer than a frame may be.
pub fn put_frame(kind: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    out[start + 8] = kind;
    write(out);
    let body = start + HEADER_BYTES;
    let len = u32::try_from(out.len() - body).unwrap_or(u32::MAX);
    if to_usize(len.into()) > FRAME_BYTES_MAX {
        out.truncate(start);
        return false;
    }
    let sum = crc32c(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&sum.to_le_bytes());
    true
}

/// What came from a stream and was not looked at yet.
#[derive(Debug, Default)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    /// Where the first frame begins that was not taken yet.
    at: usize,
    /// Where what was read ends.
    end: usize,
}

impl FrameBuffer {
    /// Reads what is there, and waits if nothing is. Zero at the end of the stream.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn fill(&mut self, from: &mut impl Read) -> io::Result<usize> {
        self.bytes.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        // A frame that is announced needs room; how long it may be was checked.
        let room = (self.end + READ_BYTES).max(self.announced().unwrap_or(0));
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        let read = from.read(&mut self.bytes[self.end..])?;
        self.end += read;
        Ok(read)
    }

    /// Takes so many bytes that are no frame, if they are there.
    pub fn raw<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = Reader::new(&self.bytes[self.at..self.end]).array()?;
        self.at += N;
        Some(taken)
    }

    /// The next frame that is there as a whole: its kind and its body.
    ///
    /// # Errors
    ///
    /// See [`FrameError`].
    pub fn next_frame(&mut self) -> Result<Option<(u8, &[u8])>, FrameError> {
        let mut from = Reader::new(&self.bytes[self.at..self.end]);
        let (Some(len), Some(sum)) = (from.u32(), from.u32()) else { return Ok(None) };
        if to_usize(len.into()) > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(len));
        }
        let Some(kind) = from.u8() else { return Ok(None) };
        let len = to_usize(len.into());
        let Some(body) = from.raw(len) else { return Ok(None) };
        if crc32c_append(crc32c(&[kind]), body) != sum {
            return Err(FrameError::BadSum);
        }
        self.at += HEADER_BYTES + len;
        Ok(Some((kind, body)))
    }

    /// How many bytes the frame has that is being received, if that is known and allowed.
    fn announced(&self) -> Option<usize> {
        let len = to_usize(Reader::new(&self.bytes[self.at..self.end]).u32()?.into());
        (len <= FRAME_BYTES_MAX).then_some(HEADER_BYTES + len)
    }
}
