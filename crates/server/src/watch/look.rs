//! One look at the history.

use std::sync::Arc;

use fencepost_core::history::Watch;
use fencepost_core::range::KeyRange;
use fencepost_core::{Event, Key, LogTime, Revision, State};

use super::Cursor;
use crate::limits;
use crate::outbox::event_bytes;

/// What a look at the history has brought.
#[derive(Debug)]
pub(crate) struct Look {
    /// The events that the watch wants, as it wants to see them.
    pub(crate) events: Vec<Arc<Event>>,
    /// How far it went.
    pub(crate) cursor: Cursor,
    /// Whether it has reached the present.
    pub(crate) is_present: bool,
    /// The revision of the state.
    pub(crate) revision: Revision,
    /// The log time of the state.
    pub(crate) now: LogTime,
    /// If history is gone where it was to begin: where it begins.
    pub(crate) compacted: Option<Revision>,
}

impl Look {
    /// Roughly what it takes to keep.
    pub(crate) fn bytes(&self) -> usize {
        self.events.iter().map(|event| event_bytes(event)).sum()
    }
}

/// Looks for events behind `cursor`. Without one, it begins where the watch does, which is the
/// present if it names no revision.
pub(crate) fn look(state: &State, watch: &Watch, cursor: Option<Cursor>) -> Look {
    let mut found = Look {
        events: Vec::new(),
        cursor: cursor.unwrap_or_default(),
        is_present: true,
        revision: state.revision(),
        now: state.now(),
        compacted: None,
    };
    let start = match cursor {
        None if watch.from == Revision::NONE => {
            found.cursor = newest(state);
            return found;
        }
        None => watch.from,
        // Changes of keys come all at once at their revision. What happens to locks may come later
        // at the same one.
        Some(cursor) if watch.keys_only => watch.from.max(cursor.revision.next()),
        Some(cursor) => watch.from.max(cursor.revision),
    };
    let history = state.history();
    let everything = Watch::new(KeyRange::From(Key::default()), start);
    let Ok(events) = history.replay(&everything) else {
        found.compacted = Some(history.compacted());
        return found;
    };
    let (mut scanned, mut bytes) = (0, 0);
    for event in events {
        // It ends between two revisions: a revision is told whole.
        let is_enough =
            scanned >= limits::HISTORY_SCAN_MAX || bytes >= limits::HISTORY_SCAN_BYTES_MAX;
        if is_enough && event.revision > found.cursor.revision {
            found.is_present = false;
            return found;
        }
        scanned += 1;
        if !found.cursor.is_before(&event) {
            continue;
        }
        found.cursor = Cursor::after(&event);
        if watch.wants(&event) {
            bytes += event_bytes(&event);
            found.events.push(watch.show(&event));
        }
    }
    found.cursor = found.cursor.max(newest(state));
    found
}

/// Behind the newest event of all.
fn newest(state: &State) -> Cursor {
    let present = Watch::new(KeyRange::From(Key::default()), state.revision());
    let newest = state.history().replay(&present).ok().and_then(Iterator::last);
    newest.map(|event| Cursor::after(&event)).unwrap_or_default()
}
