//! What a run leaves behind: a mark of everything that happened, and, if asked, a text of it.
//!
//! Guarantees: two runs that did the same have the same mark, and two that differ anywhere differ
//! in it. The mark covers numbers and bytes, never text, so a run without printing is fast.

use std::fmt::Arguments;
use std::io::Write as _;

/// So much is gathered before it is hashed: many small pieces cost more than one large one.
const BUFFER_BYTES: usize = 1 << 16;

/// The record of one run.
pub struct Trace {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
    prints: bool,
}

impl Trace {
    /// An empty record. `prints` writes every event to the standard output as well.
    #[must_use]
    pub fn new(prints: bool) -> Trace {
        Trace {
            hasher: blake3::Hasher::new(),
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
            prints,
        }
    }

    /// Notes an event: when, what kind, its numbers, and how it reads.
    pub fn note(&mut self, at: u64, kind: u8, numbers: &[u64], text: Arguments<'_>) {
        self.buffer.extend_from_slice(&at.to_le_bytes());
        self.buffer.push(kind);
        for number in numbers {
            self.buffer.extend_from_slice(&number.to_le_bytes());
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
        if self.prints {
            self.print(at, text);
        }
    }

    /// Adds bytes to the event that was noted last.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The mark of everything so far.
    #[must_use]
    pub fn mark(&mut self) -> [u8; 32] {
        self.flush();
        self.hasher.finalize().into()
    }

    fn flush(&mut self) {
        self.hasher.update(&self.buffer);
        self.buffer.clear();
    }

    /// A reader that went away is no reason to stop: the run goes on to its end.
    fn print(&self, at: u64, text: Arguments<'_>) {
        let (seconds, micros) = (at / 1_000_000, at % 1_000_000);
        drop(writeln!(std::io::stdout(), "{seconds:2}.{micros:06} {text}"));
    }
}
