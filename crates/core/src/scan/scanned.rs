//! What a scan has found.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::sum::Sum;
use crate::event::KeyValue;
use crate::ids::{Key, Revision, Value};
use crate::kv::range::Facts;
use crate::range::{RangeAnswer, RangeQuery};

/// What a scan has found, not in order yet: a large answer is put in order beside the state.
#[derive(Debug)]
pub struct Scanned {
    pub(super) revision: Revision,
    pub(super) query: RangeQuery,
    pub(super) kvs: Vec<KeyValue>,
    pub(super) changes: BTreeMap<Key, Option<KeyValue>>,
    pub(super) kept: u64,
    pub(super) bytes: u64,
    pub(super) count: u64,
    pub(super) sum: Sum,
}

impl Scanned {
    /// The revision of the state at the last step.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many keys the range holds.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many keys were collected.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Roughly how many bytes they have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the answer costs more to sort than [`Scanned::bytes`] tells.
    pub fn sorts_by_value(&self) -> bool {
        self.query.sorts_by_value()
    }

    /// The hash, if that was asked for.
    pub fn hash(&self) -> [u8; 32] {
        self.sum.hash(self.count)
    }

    /// The answer. Costs as much as sorting what was collected.
    pub fn into_answer(self) -> RangeAnswer {
        let Scanned { query, kvs, changes, count, .. } = self;
        let mut kvs = if changes.is_empty() { kvs } else { merge(kvs, changes) };
        let more = query.arrange(&mut kvs, |kv| Facts {
            version: kv.version,
            created: kv.create_revision,
            modified: kv.mod_revision,
            value: &kv.value,
        });
        if query.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value = Value::default());
        }
        RangeAnswer { kvs, more, count }
    }
}

/// What was collected, with what has changed since.
fn merge(kvs: Vec<KeyValue>, changes: BTreeMap<Key, Option<KeyValue>>) -> Vec<KeyValue> {
    let mut merged = Vec::with_capacity(kvs.len() + changes.len());
    let mut changes = changes.into_iter().peekable();
    for kv in kvs {
        while let Some((_, changed)) = changes.next_if(|(key, _)| *key < kv.key) {
            merged.extend(changed);
        }
        match changes.next_if(|(key, _)| *key == kv.key) {
            Some((_, changed)) => merged.extend(changed),
            None => merged.push(kv),
        }
    }
    merged.extend(changes.filter_map(|(_, changed)| changed));
    merged
}
