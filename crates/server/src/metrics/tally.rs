//! Counts contenders by what happens to them.

use std::collections::HashMap;
use std::hash::BuildHasher;

use fencepost_core::event::{Cause, EventKind, KeyValue};
use fencepost_core::{Event, Key, LogTime, Millis, State, lease_named_by};

/// Up to so many contenders, the times of all are kept.
const TIMED_ALL_MAX: usize = 10_000;
/// Beyond that, the times of one in so many: which ones depends on the key alone, so that those who
/// hold for long do not crowd out the others.
const TIMED_OF: u64 = 16;
/// And never of more than this.
const TIMED_MAX: usize = 100_000;

/// Counts contenders.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) holders: i64,
    pub(super) waiters: i64,
    pub(super) leader: Option<u64>,
    /// Since when each contender waits, or holds.
    since: HashMap<Key, LogTime, foldhash::fast::RandomState>,
}

/// What an event means for the numbers.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Noted {
    pub(super) granted: bool,
    pub(super) ended: Option<Cause>,
    pub(super) waited: Option<Millis>,
    pub(super) held: Option<Millis>,
}

impl Tally {
    pub(super) fn recount(&mut self, state: &State) {
        let crowd = state.crowd();
        self.holders = i64::try_from(crowd.holders).unwrap_or(i64::MAX);
        self.waiters = i64::try_from(crowd.waiters).unwrap_or(i64::MAX);
    }

    /// Whether the times of a new contender are kept.
    fn is_timed(&self, key: &Key) -> bool {
        match self.since.len() {
            0..TIMED_ALL_MAX => true,
            TIMED_ALL_MAX..TIMED_MAX => self.since.hasher().hash_one(key).is_multiple_of(TIMED_OF),
            _ => false,
        }
    }

    pub(super) fn note(&mut self, event: &Event, now: LogTime) -> Noted {
        let mut noted = Noted::default();
        match &event.kind {
            EventKind::Put { kv, prev: None } if is_contender(kv) => {
                self.waiters += 1;
                if self.is_timed(&kv.key) {
                    self.since.insert(kv.key.clone(), now);
                }
            }
            EventKind::Put { kv, prev: Some(prev) } if is_contender(prev) && !is_contender(kv) => {
                self.waiters -= 1;
                self.since.remove(&kv.key);
            }
            EventKind::Granted(holding) => {
                self.waiters -= 1;
                self.holders += 1;
                noted.granted = true;
                if let Some(since) = self.since.get_mut(&holding.key) {
                    noted.waited = Some(now.since(*since));
                    *since = now;
                }
            }
            // The write that took the lease away has counted it among those who wait.
            EventKind::Lost(_) => {
                self.waiters += 1;
                self.holders -= 1;
            }
            EventKind::Deleted { prev, ended: Some(ended) } if is_contender(prev) => {
                noted.ended = Some(ended.cause);
                let since = self.since.remove(&prev.key);
                if ended.held {
                    self.holders -= 1;
                    noted.held = since.map(|since| now.since(since));
                } else {
                    self.waiters -= 1;
                }
            }
            _ => {}
        }
        noted
    }
}

/// Whether a key stands in a queue for the lease that it is named after.
fn is_contender(kv: &KeyValue) -> bool {
    lease_named_by(&kv.key) == Some(kv.lease)
}
