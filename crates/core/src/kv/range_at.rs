//! Reading keys as they were.
//!
//! History keeps what every event has replaced, so the state of a while ago is the present one with
//! the later events undone, newest first.

use alloc::collections::BTreeMap;

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
        let later = self.history.events.iter().rev().take_while(|event| event.revision > at);
        for event in later.filter(|event| query.range.contains(event.key())) {
            let prev = match &event.kind {
                EventKind::Put { prev, .. } => prev.as_deref(),
                EventKind::Deleted { prev, .. } => Some(prev),
                _ => continue,
            };
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
