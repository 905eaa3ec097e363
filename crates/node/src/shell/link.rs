//! What waits to be sent to one member.
//!
//! It waits for the thread that sends to that member. While that thread sleeps and the connection
//! stands, nothing waits: whoever brings messages sends them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::edge;
use super::wire::{Tried, Wire};
use crate::io::PeerMessage;
use crate::peer::weight;

/// Messages that may wait for one member.
const MESSAGES_MAX: usize = 16_384;
/// Bytes that may wait for one member.
const BYTES_MAX: usize = 16 << 20;

/// What waits to be sent to one member.
pub(super) struct Link {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    queue: Vec<PeerMessage>,
    bytes: usize,
    address: String,
    /// Whether somebody thinks that the connection is broken.
    is_doubted: bool,
    closed: bool,
    sleeps: bool,
    /// The connection, if it stands.
    wire: Option<Wire>,
    /// Whether it was found broken.
    is_broken: bool,
    /// Whether the member has just connected by itself, so that it can be reached now.
    is_met: bool,
}

/// Why the sender was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// There is something to send.
    Some,
    /// Look whether the connection stands, or time is up.
    Look,
    /// The connection is broken.
    Broken,
    /// There is something to send, to a member that says nothing although it should.
    Silent,
    /// The link is closed.
    Closed,
}

impl State {
    /// Sends if the thread that does so sleeps, and so has nothing to send before this.
    fn try_send(&mut self, messages: &mut Vec<PeerMessage>) -> Tried {
        let is_free = self.sleeps && self.queue.is_empty() && !self.is_doubted && !self.is_broken;
        let Some(wire) = self.wire.as_mut().filter(|_| is_free) else { return Tried::Left };
        let tried = wire.try_send(messages);
        self.is_broken = tried == Tried::Broken;
        tried
    }
}

impl Link {
    pub(super) fn to(address: String) -> Link {
        let state = State {
            queue: Vec::new(),
            bytes: 0,
            address,
            is_doubted: false,
            closed: false,
            sleeps: false,
            wire: None,
            is_broken: false,
            is_met: false,
        };
        Link { state: Mutex::new(state), wake: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so it is never left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends messages, or puts them behind those that wait. What there is no room for is given back.
    pub(super) fn push_all(&self, messages: &mut Vec<PeerMessage>) -> Vec<PeerMessage> {
        let mut refused = Vec::new();
        let mut state = self.state();
        if state.try_send(messages) == Tried::Sent {
            return refused;
        }
        for message in messages.drain(..) {
            let bytes = weight(&message);
            if state.queue.len() >= MESSAGES_MAX || state.bytes + bytes > BYTES_MAX {
                refused.push(message);
            } else {
                state.bytes += bytes;
                state.queue.push(message);
            }
        }
        if std::mem::take(&mut state.sleeps) {
            self.wake.notify_one();
        }
        refused
    }

    /// Waits until there is something to send, or to look at. `rest` comes before the messages.
    pub(super) fn take(&self, rest: &mut Vec<u8>, into: &mut Vec<PeerMessage>) -> Woken {
        let mut state = self.state();
        loop {
            if state.closed {
                return Woken::Closed;
            }
            if state.is_broken {
                return Woken::Broken;
            }
            if std::mem::take(&mut state.is_doubted) {
                return Woken::Look;
            }
            *rest = state.wire.as_mut().map(Wire::take_rest).unwrap_or_default();
            if !state.queue.is_empty() || !rest.is_empty() {
                if state.wire.as_ref().is_some_and(Wire::is_silent) {
                    return Woken::Silent;
                }
                std::mem::swap(&mut state.queue, into);
                state.bytes = 0;
                if let Some(wire) = &state.wire {
                    wire.drop_unknown(into);
                }
                return Woken::Some;
            }
            state.sleeps = true;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeps = false;
        }
    }

    /// The connection stands, or is given up.
    pub(super) fn set_wire(&self, wire: Option<Wire>) {
        let mut state = self.state();
        state.wire = wire;
        state.is_broken = false;
    }

    /// Waits before the next try, or until the member connects by itself. `false` if the link was
    /// closed.
    pub(super) fn rest(&self, length: Duration) -> bool {
        let until = edge::now() + length;
        let mut state = self.state();
        while !state.closed {
            if std::mem::take(&mut state.is_met) {
                return true;
            }
            let left = until.saturating_duration_since(edge::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.wake.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Takes out all that waits: the connection cannot be made.
    pub(super) fn give_up(&self) -> Vec<PeerMessage> {
        let mut state = self.state();
        state.bytes = 0;
        std::mem::take(&mut state.queue)
    }

    /// Makes the sender look whether its connection stands.
    pub(super) fn doubt(&self) {
        self.state().is_doubted = true;
        self.wake.notify_one();
    }

    pub(super) fn address(&self) -> String {
        self.state().address.clone()
    }

    /// The member has connected. This is where it is reached from now on.
    pub(super) fn set_address(&self, address: String) {
        let mut state = self.state();
        if state.wire.is_none() {
            state.is_met = true;
            self.wake.notify_one();
        }
        if state.address != address {
            state.address = address;
            state.is_doubted = true;
            self.wake.notify_one();
        }
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread::JoinHandle;

    use super::super::edge::Clock;
    use super::super::question::fill;
    use super::*;
    use crate::peer::{FrameBuffer, VERSION_HIGHEST, decode_message};

    /// A link with a connection, the other end of which is in our hands.
    fn linked() -> (Arc<Link>, TcpStream, TcpStream) {
        linked_at(VERSION_HIGHEST)
    }

    /// The same, with a version of the protocol.
    fn linked_at(version: u32) -> (Arc<Link>, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let stream = TcpStream::connect(address).expect("it is there");
        let (theirs, _) = listener.accept().expect("somebody connects");
        let link = Arc::new(Link::to(address.to_string()));
        let wire = Wire::new(stream, version, Arc::default(), Clock::start());
        let stream = wire.stream().expect("it is open");
        link.set_wire(Some(wire));
        (link, stream, theirs)
    }

    /// The thread that sends. It ends when the link is closed or broken, and says which of these it
    /// was and how often it had something to send.
    fn sender(link: &Arc<Link>, mut stream: TcpStream) -> JoinHandle<(Woken, usize)> {
        let link = Arc::clone(link);
        std::thread::spawn(move || {
            let (mut rest, mut messages, mut count) = (Vec::new(), Vec::new(), 0);
            loop {
                match link.take(&mut rest, &mut messages) {
                    Woken::Some => {
                        count += 1;
                        for message in messages.drain(..) {
                            crate::peer::encode_message(&message, &mut rest);
                        }
                        stream.write_all(&rest).expect("the other end is open");
                    }
                    Woken::Look => {}
                    over => return (over, count),
                }
            }
        })
    }

    fn until_it_sleeps(link: &Link) {
        while !link.state().sleeps {
            std::thread::yield_now();
        }
    }

    fn message(number: u64) -> PeerMessage {
        let mut bytes = vec![7; 1_000];
        bytes.extend(number.to_le_bytes());
        PeerMessage::Raft(bytes)
    }

    /// Reads so many messages, and says which ones they are.
    fn numbers(theirs: &mut TcpStream, count: usize) -> Vec<u64> {
        let (mut buffer, mut numbers) = (FrameBuffer::default(), Vec::new());
        while numbers.len() < count {
            fill(&mut buffer, theirs).expect("it is open");
            while let Some((kind, body)) = buffer.next_frame().expect("whole frames") {
                let Some(PeerMessage::Raft(bytes)) = decode_message(kind, body) else {
                    panic!("something else came");
                };
                let last = bytes.last_chunk().expect("it ends with its number");
                numbers.push(u64::from_le_bytes(*last));
            }
        }
        numbers
    }

    #[test]
    fn while_the_sender_sleeps_others_send() {
        let (link, stream, mut theirs) = linked();
        let sender = sender(&link, stream);
        until_it_sleeps(&link);
        for number in 0..3 {
            assert!(link.push_all(&mut vec![message(number)]).is_empty());
            assert_eq!(numbers(&mut theirs, 1), [number]);
        }
        link.close();
        let (over, woken) = sender.join().expect("it ends");
        assert_eq!((over, woken), (Woken::Closed, 0), "it was not woken for any of them");
    }

    #[test]
    fn connection_of_version_1_carries_no_introduction() {
        let (link, stream, mut theirs) = linked_at(1);
        let pair = |number| vec![PeerMessage::Introduction(Box::default()), message(number)];
        // Once from the queue, once directly.
        assert!(link.push_all(&mut pair(0)).is_empty());
        let sender = sender(&link, stream);
        assert_eq!(numbers(&mut theirs, 1), [0]);
        until_it_sleeps(&link);
        assert!(link.push_all(&mut pair(1)).is_empty());
        assert_eq!(numbers(&mut theirs, 1), [1]);
        link.close();
        assert_eq!(sender.join().expect("it ends").0, Woken::Closed);
    }

    #[test]
    fn what_the_system_does_not_take_at_once_comes_whole_and_in_order() {
        let (link, stream, mut theirs) = linked();
        let sender = sender(&link, stream);
        until_it_sleeps(&link);
        let mut count = 0;
        let push = |number| assert!(link.push_all(&mut vec![message(number)]).is_empty());
        // Nobody reads, so one day the system takes only a part of a message, or nothing. Then the
        // sender is woken.
        while link.state().sleeps {
            push(count);
            count += 1;
        }
        for _ in 0..10 {
            push(count);
            count += 1;
        }
        let all: Vec<u64> = (0..count).collect();
        assert!(numbers(&mut theirs, all.len()) == all, "each one once, in order");
        link.close();
        let (over, woken) = sender.join().expect("it ends");
        assert!(over == Woken::Closed && woken > 0, "it had to go on with what was begun");
    }

    #[test]
    fn a_connection_that_others_find_broken_is_given_up() {
        let (link, stream, theirs) = linked();
        let sender = sender(&link, stream);
        until_it_sleeps(&link);
        drop(theirs);
        // The first one may still be taken by the system, which then learns that nobody is there.
        while !sender.is_finished() {
            link.push_all(&mut vec![message(0)]);
        }
        let (over, _) = sender.join().expect("it must not have written itself");
        assert_eq!(over, Woken::Broken);
    }
}
