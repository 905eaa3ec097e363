//! What waits to be sent to one member.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::edge;
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
}

/// Why the sender was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// There is something to send.
    Some,
    /// Look whether the connection stands, or time is up.
    Look,
    /// The link is closed.
    Closed,
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
        };
        Link { state: Mutex::new(state), wake: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so it is never left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts messages behind those that wait. What there is no room for is given back.
    pub(super) fn push_all(&self, messages: &mut Vec<PeerMessage>) -> Vec<PeerMessage> {
        let mut refused = Vec::new();
        let mut state = self.state();
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

    /// Waits until there is something to send, or to look at, for `patience` at most.
    pub(super) fn take(&self, into: &mut Vec<PeerMessage>, patience: Option<Duration>) -> Woken {
        let until = patience.map(|patience| edge::now() + patience);
        let mut state = self.state();
        loop {
            if state.closed {
                return Woken::Closed;
            }
            if std::mem::take(&mut state.is_doubted) {
                return Woken::Look;
            }
            if !state.queue.is_empty() {
                std::mem::swap(&mut state.queue, into);
                state.bytes = 0;
                return Woken::Some;
            }
            let left = until.map(|until| until.saturating_duration_since(edge::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Woken::Look;
            }
            state.sleeps = true;
            state = match left {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.wake.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleeps = false;
        }
    }

    /// Waits before the next try. `false` if the link was closed.
    pub(super) fn rest(&self, length: Duration) -> bool {
        let until = edge::now() + length;
        let mut state = self.state();
        while !state.closed {
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

    /// Where the member is reached from now on.
    pub(super) fn set_address(&self, address: String) {
        let mut state = self.state();
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
