//! What happened lately: a bounded ring of events, and how a watch picks from it.

mod ring;

use alloc::sync::Arc;

use crate::event::{Event, EventKind, KeyValue};
use crate::ids::Revision;
use crate::limits::Limits;
use crate::range::KeyRange;
use ring::Ring;

/// The last events, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Ring,
    bytes: usize,
    /// The first revision that is wholly kept.
    compacted: Revision,
}

impl History {
    /// A history that begins at `compacted` and is empty so far.
    pub(crate) fn starting_at(compacted: Revision) -> History {
        History { compacted, ..History::default() }
    }

    /// The first revision from which a watch can begin.
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// How many events are kept.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.events.len() == 0
    }

    /// Roughly how many bytes the events take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The place of the newest event.
    pub(crate) fn newest(&self) -> Option<(Revision, u32)> {
        self.events.newest()
    }

    /// The events from a revision on.
    pub(crate) fn from(&self, revision: Revision) -> impl Iterator<Item = Arc<Event>> {
        self.events.from(revision)
    }

    /// The events from a revision on, without the first `skipped` of them, and how many bytes each
    /// takes.
    pub(crate) fn starting_behind(
        &self,
        revision: Revision,
        skipped: usize,
    ) -> impl Iterator<Item = (Arc<Event>, usize)> {
        self.events.starting_behind(revision, skipped)
    }

    /// Every event, as it is written.
    pub(crate) fn encoded(&self) -> impl Iterator<Item = &[u8]> {
        self.events.bytes()
    }

    pub(crate) fn push(&mut self, event: &Event, limits: &Limits) {
        let (present, weight) = (event.revision, event.weight());
        self.bytes += weight;
        self.events.push(event, weight);
        // The present revision is always kept, however large it is: whoever has just read at it
        // may go on to watch from it.
        while (self.events.len() > limits.history_events_max as usize
            || self.bytes > limits.history_bytes_max as usize)
            && self.events.oldest().is_some_and(|oldest| oldest < present)
        {
            self.drop_oldest_revision();
        }
    }

    /// Drops the oldest revisions until so many bytes are left. Goes on with the next call after so many
    /// events. The present revision is always kept.
    pub(crate) fn shrink(&mut self, bytes: u64, events: usize) {
        let least = self.events.len().saturating_sub(events);
        let newest = self.events.newest().map(|(revision, _)| revision);
        while self.bytes as u64 > bytes
            && self.events.len() > least
            && self.events.oldest().is_some_and(|oldest| Some(oldest) < newest)
        {
            self.drop_oldest_revision();
        }
    }

    /// A revision is dropped whole: half a revision would let a watch see half a transaction.
    fn drop_oldest_revision(&mut self) {
        if let Some(oldest) = self.events.oldest() {
            self.compact(oldest.next());
        }
    }

    /// Hides all before `revision`. [`History::drop_compacted`] drops it.
    pub(crate) fn hide(&mut self, revision: Revision) {
        self.compacted = self.compacted.max(revision);
    }

    /// Drops events that are hidden, at most so many.
    pub(crate) fn drop_compacted(&mut self, max: u32) {
        for _ in 0..max {
            if self.events.oldest().is_none_or(|oldest| oldest >= self.compacted) {
                return;
            }
            self.bytes -= self.events.drop_oldest().unwrap_or_default();
        }
    }

    /// Forgets all before `revision`.
    pub(crate) fn compact(&mut self, revision: Revision) {
        while self.events.oldest().is_some_and(|oldest| oldest < revision) {
            self.bytes -= self.events.drop_oldest().unwrap_or_default();
        }
        self.compacted = self.compacted.max(revision);
    }

    /// All events from a revision on that a watch wants, or the revision before which history is
    /// gone. Watching from the future gives nothing yet.
    pub fn replay(&self, watch: &Watch) -> Result<impl Iterator<Item = Arc<Event>>, Compacted> {
        if watch.from < self.compacted {
            return Err(Compacted { oldest: self.compacted });
        }
        Ok(self.from(watch.from).filter(|event| watch.wants(event)))
    }
}

/// History before `oldest` is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The first revision that can be had.
    pub oldest: Revision,
}

/// What a watcher wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The keys it looks at. For a lock and its grants: the prefix `NAME/`.
    pub range: KeyRange,
    /// The first revision that it wants.
    pub from: Revision,
    /// Leave out writes.
    pub no_put: bool,
    /// Leave out removals.
    pub no_delete: bool,
    /// Leave out what is no change of a key: grants, and what else happens to locks. An etcd
    /// client must not see these.
    pub keys_only: bool,
    /// Show what stood there before.
    pub prev: bool,
}

impl Watch {
    /// A watch of everything in `range` from `from` on.
    pub fn new(range: KeyRange, from: Revision) -> Watch {
        Watch { range, from, no_put: false, no_delete: false, keys_only: false, prev: false }
    }

    /// The event as this watch sees it: with what stood there before only if it asked.
    pub fn show(&self, event: &Arc<Event>) -> Arc<Event> {
        let mut shown = Event::clone(event);
        match &mut shown.kind {
            EventKind::Put { prev, .. } if !self.prev && prev.is_some() => *prev = None,
            EventKind::Deleted { prev, .. } if !self.prev => {
                // The key, and when it went: all that the removal itself says.
                let (key, mod_revision) = (prev.key.clone(), event.revision);
                *prev = KeyValue { key, mod_revision, ..KeyValue::default() };
            }
            _ => return event.clone(),
        }
        Arc::new(shown)
    }

    /// Whether this watch should be told of `event`.
    pub fn wants(&self, event: &Event) -> bool {
        let kind = match event.kind {
            EventKind::Put { .. } => !self.no_put,
            EventKind::Deleted { .. } => !self.no_delete,
            _ => !self.keys_only,
        };
        kind && event.revision >= self.from && self.range.contains(event.key())
    }
}
