//! The thread that sends to one member.
//!
//! It connects, says who it is, and then writes whatever waits as one buffer; while it sleeps, others
//! send over its connection (see [`Wire`]). If that fails, it connects anew. What waited while nobody could be reached is dropped: the engine repeats what it
//! needs, and commands that were certainly not sent are given back as not done.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use super::board::{Board, LinkStatus};
use super::edge::{self, Clock};
use super::inbox::{Happening, Inbox, Lane};
use super::link::{Link, Woken};
use super::notice::Notice;
use super::question::{self, Failed};
use super::wire::Wire;
use crate::data_dir::Identity;
use crate::io::{Input, MemberId, PeerMessage, ProposeError};
use crate::peer::{FrameBuffer, Hello, Refusal, decode_message, encode_message};

/// The first and the last pause between two tries.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_LAST: Duration = Duration::from_secs(1);

/// Where a buffer is written out although more waits.
const WRITE_BYTES: usize = 1 << 20;

pub(super) struct Sender {
    pub(super) to: MemberId,
    pub(super) link: Arc<Link>,
    pub(super) identity: Identity,
    /// Where this node is reached.
    pub(super) peer: String,
    pub(super) inbox: Arc<Inbox>,
    pub(super) board: Arc<Board>,
    pub(super) clock: Clock,
}

/// How a connection ended.
enum Over {
    Closed,
    Broken,
}

impl Sender {
    pub(super) fn run(self) {
        let mut pause = PAUSE_FIRST;
        let mut told = None;
        loop {
            match question::greet(&self.link.address(), &self.hello()) {
                Ok((stream, version)) => {
                    told = None;
                    pause = PAUSE_FIRST;
                    self.connected(version);
                    let over = self.serve(stream, version);
                    self.link.set_wire(None);
                    if let Over::Closed = over {
                        return;
                    }
                    let since = self.clock.micros();
                    self.board.update(|status| {
                        let link = status.links.entry(self.to).or_default();
                        (link.is_connected, link.since) = (false, since);
                    });
                    continue;
                }
                Err(failed) => {
                    if self.failed(&failed, &mut told) && failed.is_nobody_there() {
                        self.tell(Happening::Input(Input::Gone(self.to)));
                    }
                }
            }
            self.drop_what_waits();
            if !self.link.rest(edge::jittered(pause)) {
                return;
            }
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }

    fn hello(&self) -> Hello {
        let Identity { cluster_id, incarnation, node_id, ref name, .. } = self.identity;
        let (name, peer) = (name.clone(), self.peer.clone());
        Hello { cluster_id, incarnation, member: node_id, name, peer, to: self.to }
    }

    fn connected(&self, version: u32) {
        let since = self.clock.micros();
        let connected = LinkStatus { is_connected: true, since, version, trouble: None };
        self.board.update(|status| drop(status.links.insert(self.to, connected)));
        self.tell(Happening::Tell(Notice::Connected(self.to)));
        self.tell(Happening::Input(Input::Connected(self.to, version)));
    }

    fn tell(&self, happening: Happening) {
        self.inbox.push_waiting(Lane::Own, happening);
    }

    /// Says what is wrong, once until it has changed. Whether it has.
    fn failed(&self, failed: &Failed, told: &mut Option<String>) -> bool {
        let trouble = self.trouble(failed);
        if told.as_ref() == Some(&trouble) {
            return false;
        }
        if let Failed::Refused(Refusal::Removed { .. }) = failed {
            let removed = Input::Peer(self.to, PeerMessage::YouWereRemoved);
            self.tell(Happening::Input(removed));
        }
        self.board.update(|status| {
            let link = status.links.entry(self.to).or_default();
            (link.is_connected, link.trouble) = (false, Some(trouble.clone()));
        });
        self.tell(Happening::Tell(Notice::Trouble(trouble.clone())));
        *told = Some(trouble);
        true
    }

    fn trouble(&self, failed: &Failed) -> String {
        let members = self.board.members();
        let name = members.members.get(&self.to).map_or("an unknown member", |one| &one.name);
        let address = self.link.address();
        match failed {
            Failed::Io(error) => format!(
                "cannot reach {name} at {address}\n\
                 the system says: {error}\n\
                 start it, or look at the network between here and there; the cluster works as \
                 long as most of its voters reach each other"
            ),
            Failed::Refused(refusal) => format!("{name} at {address} refuses to talk: {refusal}"),
        }
    }

    /// What waits will not be sent. The node is told of the commands: they are certainly not done.
    fn drop_what_waits(&self) {
        let dropped = self.link.give_up();
        bounce(self.to, dropped, ProposeError::NoLeader, &self.inbox);
    }

    /// Sends until the connection breaks or the link is closed.
    fn serve(&self, stream: TcpStream, version: u32) -> Over {
        let address = self.link.address();
        let wire = Wire::new(stream, version, self.board.heard(self.to), self.clock);
        let Ok(mut stream) = wire.stream() else { return Over::Broken };
        self.link.set_wire(Some(wire));
        let mut messages = Vec::new();
        let mut buffer = Vec::new();
        loop {
            match self.link.take(&mut buffer, &mut messages) {
                Woken::Closed => return Over::Closed,
                Woken::Broken => break,
                Woken::Silent => {
                    self.drop_what_waits();
                    break;
                }
                Woken::Look => {
                    if self.link.address() != address || self.is_over(&mut stream) {
                        break;
                    }
                }
                Woken::Some => {
                    if write(&mut stream, &mut messages, &mut buffer).is_err() {
                        break;
                    }
                }
            }
        }
        self.is_over(&mut stream);
        Over::Broken
    }

    /// Whether the other side has closed the connection. It hardly ever says anything on it after
    /// the welcome: only what this very process has to know, when another one may listen at the
    /// address of this member.
    fn is_over(&self, stream: &mut TcpStream) -> bool {
        if stream.set_nonblocking(true).is_err() {
            return true;
        }
        let mut buffer = FrameBuffer::default();
        let is_over = match buffer.fill(stream) {
            Ok(read) => read == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        while let Ok(Some((kind, body))) = buffer.next_frame() {
            let message = decode_message(kind, body);
            let about_this = |message: &PeerMessage| {
                matches!(
                    message,
                    PeerMessage::Introduction(_) | PeerMessage::CopiedDirectory { .. }
                )
            };
            if let Some(message) = message.filter(about_this) {
                self.tell(Happening::Input(Input::Peer(self.to, message)));
            }
        }
        is_over || stream.set_nonblocking(false).is_err()
    }
}

/// Gives commands back to the node that were certainly not sent.
pub(super) fn bounce(
    to: MemberId,
    messages: Vec<PeerMessage>,
    why: ProposeError,
    inbox: &Arc<Inbox>,
) {
    for message in messages {
        if let PeerMessage::Forward(forward) = message {
            let answer = Box::new(Err(why.clone()));
            let answer = PeerMessage::Forwarded(forward.number, answer);
            inbox.push_waiting(Lane::Own, Happening::Input(Input::Peer(to, answer)));
        }
    }
}

/// Writes what is in the buffer, and all messages. Pieces of snapshots come last: they are long, and a heartbeat must not wait
/// behind them.
fn write(
    stream: &mut TcpStream,
    messages: &mut Vec<PeerMessage>,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let is_piece = |message: &PeerMessage| matches!(message, PeerMessage::SnapshotPiece(_));
    let pieces: Vec<PeerMessage> = messages.extract_if(.., |message| is_piece(message)).collect();
    for message in messages.drain(..).chain(pieces) {
        // What is too long to be sent would be refused there: no such message is ever made.
        encode_message(&message, buffer);
        if buffer.len() >= WRITE_BYTES {
            stream.write_all(buffer)?;
            buffer.clear();
        }
    }
    stream.write_all(buffer)?;
    buffer.clear();
    Ok(())
}
