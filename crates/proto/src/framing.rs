//! The session without HTTP/2: eight bytes from each side, then messages with their lengths.
//!
//! Owns: what both sides say first, how a message is put behind others, and how messages are found
//! in what was read, however it was cut into pieces. Guarantees: a frame beyond the bound is refused
//! by its length, before it is read; memory grows with what has come, never with what was announced.
//! Refuses: sockets, and what the messages mean. `docs/session.md` describes it.

use std::fmt;

use prost::{DecodeError, Message};

/// How many bytes each side says first.
pub const PREFACE_BYTES: usize = 8;
/// What a client says first. No request over HTTP and no TLS begins with such a byte; the last one is
/// the version of the framing.
pub const CLIENT_PREFACE: [u8; PREFACE_BYTES] = *b"\xf0fence\n\x01";
/// What a server answers.
pub const SERVER_PREFACE: [u8; PREFACE_BYTES] = *b"\xf1fence\n\x01";
/// How many bytes a length has: little endian.
pub const LENGTH_BYTES: usize = 4;

/// How much is read at once from a connection that says little, and from one that says much.
const READ_BYTES: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;
/// What a buffer keeps while nothing is in it: a server may have ten thousand that are idle.
const IDLE_BYTES_MAX: usize = 8 << 10;

/// Puts a message behind what is there.
pub fn put<M: Message>(message: &M, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend([0; LENGTH_BYTES]);
    message.encode(out).expect("a vector grows as needed");
    let length = u32::try_from(out.len() - begin - LENGTH_BYTES);
    let length = length.expect("no message comes near 4 GiB").to_le_bytes();
    if let Some(head) = out.get_mut(begin..begin + LENGTH_BYTES) {
        head.copy_from_slice(&length);
    }
}

/// Gives back what an empty buffer has beyond what it may keep.
pub fn rest(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > IDLE_BYTES_MAX {
        *buffer = Vec::new();
    }
}

/// Why what was read is no frame. Nothing behind it can be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unframed {
    /// A frame is announced that is longer than any may be. How long.
    TooLong(usize),
    /// The bytes of a frame are no message.
    Unreadable(DecodeError),
}

impl fmt::Display for Unframed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unframed::TooLong(length) => write!(f, "a frame of {length} bytes is too long"),
            Unframed::Unreadable(why) => write!(f, "a frame is no message: {why}"),
        }
    }
}

impl std::error::Error for Unframed {}

/// What was read from a connection and is not yet understood.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Where what is not understood begins.
    begin: usize,
    message_bytes_max: usize,
}

impl Frames {
    /// With messages of at most so many bytes.
    #[must_use]
    pub fn new(message_bytes_max: usize) -> Frames {
        Frames { bytes: Vec::new(), begin: 0, message_bytes_max }
    }

    /// Where more is to be read to: behind what is there. It has room.
    pub fn room(&mut self) -> &mut Vec<u8> {
        // Whoever has filled all there was has more to say.
        let was_full = !self.bytes.is_empty() && self.bytes.len() == self.bytes.capacity();
        self.bytes.drain(..self.begin);
        self.begin = 0;
        if was_full {
            self.bytes.reserve(self.bytes.capacity().clamp(READ_BYTES, READ_BYTES_MAX));
        } else if self.bytes.capacity() - self.bytes.len() < READ_BYTES / 2 {
            self.bytes.reserve(READ_BYTES);
        }
        &mut self.bytes
    }

    /// Whether the connection begins like this. Nothing, if that cannot be told yet. What matches is
    /// taken away.
    pub fn begins_with(&mut self, preface: &[u8; PREFACE_BYTES]) -> Option<bool> {
        let read = self.unread();
        let compared = read.len().min(PREFACE_BYTES);
        if read.get(..compared) != preface.get(..compared) {
            return Some(false);
        }
        if compared < PREFACE_BYTES {
            return None;
        }
        self.begin += PREFACE_BYTES;
        Some(true)
    }

    /// The next message, if all of it is there.
    ///
    /// # Errors
    ///
    /// What is there can be no message. Nothing is taken away then.
    pub fn message<M: Message + Default>(&mut self) -> Result<Option<M>, Unframed> {
        let read = self.unread();
        let Some((head, behind)) = read.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        if length > self.message_bytes_max {
            return Err(Unframed::TooLong(length));
        }
        let Some(body) = behind.get(..length) else { return Ok(None) };
        let message = M::decode(body).map_err(Unframed::Unreadable)?;
        self.begin += LENGTH_BYTES + length;
        Ok(Some(message))
    }

    /// Nothing is expected soon: gives back memory, if nothing is in it.
    pub fn rest(&mut self) {
        if self.unread().is_empty() {
            self.bytes.clear();
            self.begin = 0;
            rest(&mut self.bytes);
        }
    }

    /// How many bytes were read and are not understood yet.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.unread().len()
    }

    fn unread(&self) -> &[u8] {
        self.bytes.get(self.begin..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;

    const MAX: usize = 1_000;

    fn request(request_id: u64) -> v1::SessionRequest {
        let request = v1::session_request::Request::Ping(v1::Ping {});
        v1::SessionRequest { request_id, once: None, request: Some(request) }
    }

    fn all(frames: &mut Frames) -> Vec<u64> {
        let mut found = Vec::new();
        while let Some(message) = frames.message::<v1::SessionRequest>().unwrap() {
            found.push(message.request_id);
        }
        found
    }

    #[test]
    fn many_messages_in_one_piece_are_all_found() {
        let mut frames = Frames::new(MAX);
        for id in 1..=100 {
            put(&request(id), frames.room());
        }
        assert_eq!(all(&mut frames), (1..=100).collect::<Vec<_>>());
    }

    #[test]
    fn pieces_of_every_size_give_the_same_messages() {
        let mut said = Vec::new();
        for id in [1, 1 << 20, u64::MAX] {
            put(&request(id), &mut said);
        }
        for size in 1..=said.len() {
            let (mut frames, mut found) = (Frames::new(MAX), Vec::new());
            for piece in said.chunks(size) {
                frames.room().extend(piece);
                found.extend(all(&mut frames));
            }
            assert_eq!(found, [1, 1 << 20, u64::MAX], "pieces of {size}");
        }
    }

    #[test]
    fn an_empty_message_is_a_message() {
        let mut frames = Frames::new(MAX);
        frames.room().extend([0; LENGTH_BYTES]);
        assert_eq!(frames.message(), Ok(Some(v1::SessionRequest::default())));
        assert_eq!(frames.message::<v1::SessionRequest>(), Ok(None));
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_comes() {
        let mut frames = Frames::new(MAX);
        frames.room().extend(1_001_u32.to_le_bytes());
        assert_eq!(frames.message::<v1::SessionRequest>(), Err(Unframed::TooLong(1_001)));
        let mut frames = Frames::new(MAX);
        frames.room().extend(1_000_u32.to_le_bytes());
        assert_eq!(frames.message::<v1::SessionRequest>(), Ok(None), "it may still come");
    }

    #[test]
    fn what_is_no_message_is_refused_and_so_is_everything_behind() {
        let mut frames = Frames::new(MAX);
        put(&request(7), frames.room());
        frames.room().extend([3, 0, 0, 0, 0xff, 0xff, 0xff]);
        put(&request(8), frames.room());
        assert_eq!(frames.message(), Ok(Some(request(7))));
        for _ in 0..2 {
            let next = frames.message::<v1::SessionRequest>();
            assert!(matches!(next, Err(Unframed::Unreadable(_))), "{next:?}");
        }
    }

    #[test]
    fn a_preface_is_told_from_anything_else_by_its_first_wrong_byte() {
        let mut frames = Frames::new(MAX);
        for byte in &CLIENT_PREFACE[..PREFACE_BYTES - 1] {
            frames.room().push(*byte);
            assert_eq!(frames.begins_with(&CLIENT_PREFACE), None);
            assert_eq!(frames.begins_with(&SERVER_PREFACE), Some(false));
        }
        frames.room().push(1);
        put(&request(9), frames.room());
        assert_eq!(frames.begins_with(&CLIENT_PREFACE), Some(true));
        assert_eq!(all(&mut frames), [9]);
        let mut frames = Frames::new(MAX);
        frames.room().extend(b"HTTP/1.1 400 Bad Request");
        assert_eq!(frames.begins_with(&SERVER_PREFACE), Some(false));
    }

    #[test]
    fn memory_follows_what_has_come_and_is_given_back() {
        let mut frames = Frames::new(1 << 20);
        frames.room().extend((1_u32 << 20).to_le_bytes());
        assert_eq!(frames.message::<v1::SessionRequest>(), Ok(None));
        assert!(frames.room().capacity() <= READ_BYTES, "what was announced costs nothing");
        let mut frames = Frames::new(1 << 20);
        for id in 1..=100_000 {
            put(&request(id), frames.room());
        }
        assert_eq!(all(&mut frames).len(), 100_000);
        assert!(frames.bytes.capacity() > IDLE_BYTES_MAX);
        frames.rest();
        assert!(frames.bytes.capacity() <= IDLE_BYTES_MAX);
    }
}
