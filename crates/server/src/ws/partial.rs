//! The message that a WebSocket has received in part.
//!
//! The library that cuts messages from the connection keeps their parts to itself, so they are
//! counted from outside: bytes that were read, less those of messages that came out. Guarantees:
//! what is counted too little is at most one read. Parts are charged to the server's budget.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::byte_budget::{ByteBudget, Charge};

/// What surrounds a control frame of a client: its head, and the mask.
const CONTROL_HEAD_BYTES: usize = 6;

/// The part of a message that was received.
#[derive(Debug, Default)]
pub(crate) struct PartialMessage {
    /// Set when the connection becomes a WebSocket. Before, its bytes are counted elsewhere.
    counts: AtomicBool,
    part: Mutex<Part>,
}

#[derive(Debug, Default)]
struct Part {
    bytes: usize,
    /// Messages that came out.
    messages: u64,
    charge: Option<Charge>,
}

impl Part {
    fn set(&mut self, bytes: usize) -> io::Result<()> {
        self.bytes = bytes;
        let charged =
            self.charge.as_mut().map_or(Ok(()), |charge| charge.resize_beyond_free(bytes));
        charged.map_err(|failure| io::Error::other(failure.message))
    }
}

impl PartialMessage {
    fn part(&self) -> MutexGuard<'_, Part> {
        // Nothing panics while it is held, so it is never left half changed.
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on bytes belong to messages.
    pub(super) fn begin(&self, budget: &Arc<ByteBudget>) {
        self.part().charge = Some(Charge::new(budget));
        self.counts.store(true, Ordering::Relaxed);
    }

    /// So many bytes were read. An error if there is no room for them.
    pub(crate) fn read(&self, bytes: usize) -> io::Result<()> {
        if !self.counts.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut part = self.part();
        let bytes = part.bytes + bytes;
        part.set(bytes)
    }

    /// A message came out whole.
    pub(super) fn end_message(&self) {
        let mut part = self.part();
        part.messages += 1;
        // Less always fits.
        drop(part.set(0));
    }

    /// A control frame came out. It may have come in the middle of a message.
    pub(super) fn end_control(&self, payload: usize) {
        let mut part = self.part();
        let bytes = part.bytes.saturating_sub(CONTROL_HEAD_BYTES + payload);
        drop(part.set(bytes));
    }

    /// Behind how many messages one was begun; nothing, if none was.
    pub(super) fn begun_behind(&self) -> Option<u64> {
        let part = self.part();
        (part.bytes > 0).then_some(part.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn control_frames_between_two_parts_do_not_hide_them() {
        let server = ByteBudget::for_server();
        let partial = PartialMessage::default();
        partial.read(500).expect("that was the handshake");
        partial.begin(&ByteBudget::for_connection(&server));
        assert_eq!(partial.begun_behind(), None);
        for _ in 0..4 {
            partial.read(limits::FREE_UNREAD_BYTES).expect("it fits");
            partial.read(CONTROL_HEAD_BYTES + 3).expect("it fits");
            partial.end_control(3);
        }
        assert_eq!(partial.begun_behind(), Some(0));
        assert_eq!(server.used(), 3 * limits::FREE_UNREAD_BYTES);
        partial.end_message();
        assert_eq!((partial.begun_behind(), server.used()), (None, 0));
        partial.read(1).expect("it fits");
        assert_eq!(partial.begun_behind(), Some(1));
    }
}
