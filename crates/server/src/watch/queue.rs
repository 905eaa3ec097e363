//! The way from the node's loop to the fan-out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::event::{Cause, EventKind};
use fencepost_core::history::Watch;
use fencepost_core::range::KeyRange;
use fencepost_core::{Event, LeaseId, LogTime, Revision};
use tokio::sync::Notify;

use super::interest::Interest;
use super::{Buffered, Cursor};
use crate::limits;
use crate::outbox::Outbox;

/// A watch that has reached the present.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// A number of its own, unique in this process.
    pub(crate) number: u64,
    pub(crate) watch: Watch,
    /// What it has seen.
    pub(crate) cursor: Cursor,
    /// Whether it wants to hear how far it is.
    pub(crate) progress: bool,
    pub(crate) buffered: Arc<Buffered>,
    pub(crate) outbox: Arc<Outbox>,
}

/// How far what was told goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reached {
    /// Up to here every event was told, or concerns nobody.
    pub(crate) cursor: Cursor,
    /// Where the state is, or was when the last of it happened.
    pub(crate) revision: Revision,
    pub(crate) now: LogTime,
}

/// What the fan-out is told, in order.
#[derive(Debug)]
pub(crate) enum Said {
    /// This happened.
    Events(Vec<Arc<Event>>, Reached),
    /// A watch begins.
    Begin(Box<Live>),
    /// A watch ends.
    End(u64),
    /// Events were left out: a snapshot took their place, or there were too many.
    Gap,
    /// Whoever reads this outbox wants to hear when the lease loses a lock.
    Named(LeaseId, Arc<Outbox>),
    /// It does not any more.
    Unnamed(LeaseId, Arc<Outbox>),
    /// Tell those who want it how far they are.
    Progress,
    /// Tell this reader how far all are, behind everything that was said before.
    Mark(Arc<Outbox>),
}

/// The way from the node's loop to the fan-out. Whoever puts something in never waits.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    some: Notify,
}

#[derive(Debug, Default)]
struct State {
    said: VecDeque<Said>,
    /// How many events wait.
    events: usize,
    /// What somebody watches, or is about to. Most other events concern nobody.
    interest: Interest,
    /// How far it has gone, if the fan-out was not told yet.
    passed: Option<Reached>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so it is never left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This has happened. Nobody is woken for what concerns nobody.
    pub(crate) fn happened(&self, events: &[Arc<Event>], revision: Revision, now: LogTime) {
        let Some(last) = events.last() else { return };
        let reached = Reached { cursor: Cursor::after(last), revision, now };
        let mut state = self.state();
        let matters =
            |event: &&Arc<Event>| state.interest.covers(event.key()) || may_be_loss(event);
        let events: Vec<Arc<Event>> = events.iter().filter(matters).cloned().collect();
        if events.is_empty() {
            state.passed = Some(reached);
            return;
        }
        drop(state);
        self.say(Said::Events(events, reached));
    }

    /// Watches of these have begun, and have ended in the fan-out.
    pub(super) fn forget(&self, ended: impl Iterator<Item = KeyRange>) {
        let mut state = self.state();
        for range in ended {
            state.interest.remove(&range);
        }
    }

    pub(crate) fn say(&self, said: Said) {
        let mut state = self.state();
        if let Some(reached) = state.passed.take() {
            state.said.push_back(Said::Events(Vec::new(), reached));
        }
        match &said {
            Said::Events(events, ..) => state.events += events.len(),
            Said::Begin(live) => state.interest.add(live.watch.range.clone()),
            _ => {}
        }
        state.said.push_back(said);
        if state.events > limits::FAN_OUT_MAX {
            // The history has them too, and is bounded.
            state.said.retain(|one| !matches!(one, Said::Events(..)));
            state.said.push_back(Said::Gap);
            state.events = 0;
        }
        drop(state);
        self.some.notify_one();
    }

    /// Takes everything; waits until there is something.
    pub(crate) async fn take(&self) -> VecDeque<Said> {
        loop {
            let said = self.take_now();
            if !said.is_empty() {
                return said;
            }
            self.some.notified().await;
        }
    }

    pub(crate) fn take_now(&self) -> VecDeque<Said> {
        let mut state = self.state();
        state.events = 0;
        std::mem::take(&mut state.said)
    }
}

/// Whether a holder may have lost its lock by this without having let go of it.
fn may_be_loss(event: &Event) -> bool {
    match &event.kind {
        EventKind::Lost(_) | EventKind::ForceAsked { .. } => true,
        EventKind::Deleted { ended: Some(ended), .. } => {
            ended.held && !matches!(ended.cause, Cause::Released | Cause::Cancelled)
        }
        _ => false,
    }
}
