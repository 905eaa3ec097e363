//! Reading keys as they were.
//!
//! History keeps what every event has replaced, so a key was what the first event after that moment
//! has replaced, or is what it is now if there is none.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::event::{EventKind, KeyValue};
use crate::ids::{Key, Revision};
use crate::outcome::Reason;
use crate::range::{RangeAnswer, RangeQuery};
use crate::record::{Record, Role};
use crate::state::State;

impl State {
    /// Answers a question about a range of keys as of a revision. Costs as much as the range and
    /// what has happened since.
    pub fn range_at(&self, query: &RangeQuery, at: Revision) -> Result<RangeAnswer, Reason> {
        if at > self.revision {
            return Err(Reason::RevisionFuture(self.revision));
        }
        if at < self.history.compacted() {
            return Err(Reason::Compacted(self.history.compacted()));
        }
        let Some(bounds) = query.range.bounds() else {
            return Ok(RangeAnswer::default());
        };
        let present = self.keys.range::<[u8], _>(bounds);
        let mut then: BTreeMap<Key, Record> =
            present.map(|(key, record)| (key.clone(), Record::clone(record))).collect();
        let mut changed = BTreeSet::new();
        let later = self.history.from(at.next());
        for event in later.filter(|event| query.range.contains(event.key())) {
            let prev = match &event.kind {
                EventKind::Put { prev, .. } => prev.as_deref(),
                EventKind::Deleted { prev, .. } => Some(prev),
                _ => continue,
            };
            if !changed.insert(event.key().clone()) {
                continue;
            }
            match prev {
                Some(prev) => then.insert(prev.key.clone(), as_it_was(prev)),
                None => then.remove(event.key()),
            };
        }
        Ok(query.answer(then.iter()))
    }
}

fn as_it_was(kv: &KeyValue) -> Record {
    Record {
        value: kv.value.clone(),
        created: kv.create_revision,
        modified: kv.mod_revision,
        version: kv.version,
        lease: kv.lease,
        sub: 0,
        role: Role::Plain,
    }
}
