//! Watches: who is told of which events.
//!
//! A watch first goes through the history, one bounded look at a time, each on the node's loop. The
//! look that reaches the present registers the watch there and then, so that between history and
//! what follows nothing is missed; and each watch knows the last event that it has seen, so that
//! nothing comes twice. From then on the fan-out hands it what happens.
//!
//! Guarantees: events come in order, none is missed, none comes twice on one watch. A reader that is
//! too slow, and a history that is gone, end the watch with where to go on from. Refuses: to keep
//! events for anybody beyond a bound.

mod hub;
mod index;
mod interest;
mod look;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};

use fencepost_core::{Event, Revision};

pub(crate) use hub::Hub;
pub(crate) use look::{Look, look};
pub(crate) use queue::{Live, Queue, Said};

use crate::outbox::event_bytes;

/// The last event that was seen. Events have unique places that grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cursor {
    pub(crate) revision: Revision,
    /// One more than the event's own number, so that the default is before every event.
    after: u64,
}

impl Cursor {
    /// Right behind this event.
    pub(crate) fn after(event: &Event) -> Cursor {
        Cursor { revision: event.revision, after: u64::from(event.sub) + 1 }
    }

    /// Right before the first event of this revision.
    pub(crate) fn before(revision: Revision) -> Cursor {
        Cursor { revision: Revision(revision.0.saturating_sub(1)), after: u64::MAX }
    }

    /// Whether the event is new.
    pub(crate) fn is_before(self, event: &Event) -> bool {
        self < Cursor::after(event)
    }
}

/// How much waits for the reader of one watch.
#[derive(Debug, Default)]
pub(crate) struct Buffered {
    events: AtomicUsize,
    bytes: AtomicUsize,
}

impl Buffered {
    pub(crate) fn add(&self, event: &Event) -> (usize, usize) {
        let events = self.events.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = event_bytes(event);
        (events, self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes)
    }

    pub(crate) fn remove(&self, event: &Event) {
        self.events.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(event_bytes(event), Ordering::Relaxed);
    }
}
