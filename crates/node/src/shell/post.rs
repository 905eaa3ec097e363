//! Listening to one member, by whoever has time for it.
//!
//! Whoever hears something that is to be written writes it, and meanwhile leaves the connection behind. If the
//! disk takes too long, somebody else goes on listening: a disk that hangs must not make a node deaf.

use std::io;
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::edge;
use super::lookout::Lookout;
use super::question::fill;
use super::server::Door;
use crate::io::{MemberId, PeerMessage};
use crate::peer::{FrameBuffer, decode_message, weight};

/// Whoever waits for the disk for so long is relieved of listening.
pub(super) const RELIEF: Duration = Duration::from_millis(30);

/// Where whoever listens to a member leaves the connection while it waits for the disk, so that
/// somebody else can go on.
#[derive(Default)]
pub(super) struct Post(Mutex<Option<(Ear, Instant)>>);

/// One end of a connection on which a member talks.
pub(super) struct Ear {
    pub(super) from: MemberId,
    pub(super) stream: TcpStream,
    pub(super) buffer: FrameBuffer,
}

impl Post {
    fn left(&self) -> MutexGuard<'_, Option<(Ear, Instant)>> {
        // Nothing panics while it is held, so it is never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, ear: Ear) {
        *self.left() = Some((ear, edge::now()));
    }

    /// Nothing, if somebody else listens by now.
    fn come_back(&self) -> Option<Ear> {
        self.left().take().map(|(ear, _)| ear)
    }

    /// What was left too long ago.
    pub(super) fn take_over(&self, now: Instant) -> Option<Ear> {
        let is_late = |left: &mut (Ear, Instant)| now.saturating_duration_since(left.1) >= RELIEF;
        self.left().take_if(is_late).map(|(ear, _)| ear)
    }
}

/// Gives the connection back when it is over. An error, if somebody else listens instead.
pub(super) fn listen_to(door: &dyn Door, mut ear: Ear, post: &Post) -> Result<TcpStream, Relieved> {
    let (mut messages, mut lookout) = (Vec::new(), Lookout::default());
    loop {
        let work = match ear.hear(&mut messages) {
            Ok(_) if messages.is_empty() => Some(Vec::new()),
            Ok(bytes) => door.hear(ear.from, &mut messages, bytes),
            Err(_) => None,
        };
        let Some(work) = work else { return Ok(ear.stream) };
        let next = if work.is_empty() {
            fill(&mut ear.buffer, &mut ear.stream)
        } else {
            post.leave(ear);
            door.write(work);
            ear = post.come_back().ok_or(Relieved)?;
            lookout.wait(&mut ear.buffer, &ear.stream)
        };
        if next.is_err() {
            return Ok(ear.stream);
        }
    }
}

/// Somebody else listens.
pub(super) struct Relieved;

impl Ear {
    /// Takes the messages that are there whole, and says how many bytes they have.
    fn hear(&mut self, messages: &mut Vec<PeerMessage>) -> io::Result<usize> {
        let mut bytes = 0;
        while let Some((kind, body)) = self.buffer.next_frame().map_err(io::Error::other)? {
            let message = decode_message(kind, body);
            let message = message.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
            bytes += weight(&message);
            messages.push(message);
        }
        Ok(bytes)
    }
}
