//! A connection to a member over which whoever has something for it may send.
//!
//! Owns: what of a message the system has not taken yet. Guarantees: whole messages in order,
//! whoever sends them; [`Wire::try_send`] waits for nothing. Waking the thread that sends to the
//! member takes longer than sending, so a turn of the loop sends by itself while that thread sleeps.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::edge::{self, Clock};
use crate::io::PeerMessage;
use crate::peer::{encode_message, lowest_version, weight};

/// If a member has not been heard for so long although it was sent something, its connection is
/// made anew: after a break in the network, the old one may take minutes to notice that it is over.
const SILENCE: Duration = Duration::from_secs(3);

/// More than this is left to the thread that sends: the loop has other things to do.
const SEND_BYTES_MAX: usize = 64 << 10;

/// A connection to a member.
pub(super) struct Wire {
    stream: TcpStream,
    /// The version of the protocol that both sides speak on it.
    version: u32,
    since: Instant,
    /// When the member was last heard, by the node's clock.
    heard: Arc<AtomicU64>,
    clock: Clock,
    /// Bytes that must go out before anything else.
    rest: Vec<u8>,
}

/// What came of an attempt to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// All is on its way.
    Sent,
    /// The thread that sends has to go on.
    Begun,
    /// Nothing was begun: it is for the thread that sends.
    Left,
    /// The connection is broken, and the messages are lost.
    Broken,
}

impl Wire {
    /// A connection that stands since now.
    pub(super) fn new(
        stream: TcpStream,
        version: u32,
        heard: Arc<AtomicU64>,
        clock: Clock,
    ) -> Wire {
        Wire { stream, version, since: edge::now(), heard, clock, rest: Vec::new() }
    }

    /// Sends these if the system takes them at once. They are gone unless they are left.
    pub(super) fn try_send(&mut self, messages: &mut Vec<PeerMessage>) -> Tried {
        let is_long = messages.iter().map(weight).sum::<usize>() > SEND_BYTES_MAX;
        if is_long || !self.rest.is_empty() || self.is_silent() {
            return Tried::Left;
        }
        self.drop_unknown(messages);
        for message in messages.drain(..) {
            // What is too long to be sent would be refused there: no such message is ever made.
            encode_message(&message, &mut self.rest);
        }
        match send(&self.stream, &self.rest, SendFlags::DONTWAIT) {
            Ok(sent) => drop(self.rest.drain(..sent)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Tried::Broken,
        }
        if self.rest.is_empty() { Tried::Sent } else { Tried::Begun }
    }

    /// Drops messages that the version of this connection does not have. They were meant for an
    /// earlier connection, to a newer build.
    pub(super) fn drop_unknown(&self, messages: &mut Vec<PeerMessage>) {
        messages.retain(|message| lowest_version(message) <= self.version);
    }

    /// What must go out before anything else.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }

    /// Whether the member says nothing although it should.
    pub(super) fn is_silent(&self) -> bool {
        let now = edge::now();
        if now.saturating_duration_since(self.since) < SILENCE {
            return false;
        }
        let silence = self.clock.at(now).0.saturating_sub(self.heard.load(Ordering::Relaxed));
        Duration::from_micros(silence) > SILENCE
    }

    /// The same connection, for the thread that sends.
    pub(super) fn stream(&self) -> io::Result<TcpStream> {
        self.stream.try_clone()
    }
}
