//! Room for the answers of calls that are not reads in steps: transactions, and the keys of a lease.
//!
//! Owns: how much memory such an answer may need, before and after it is known. Guarantees: what is
//! large takes its room from the same budget as large reads, and keeps it until the answer is sent or
//! its client is gone. Refuses: to withhold the answer of a request that was done: it waits for room.

use std::sync::Arc;

use fencepost_core::command::{Op, Txn};
use fencepost_core::event::KeyValue;
use fencepost_core::outcome::{OpAnswer, TxnAnswer};
use hyper::http::Extensions;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::Failure;
use crate::house::House;

/// Keys that one range of a transaction may answer without room of its own beforehand. Recipes read
/// one.
const FEW_KEYS: u64 = 16;
/// What a key counts for beside its own bytes and its value's.
const KEY_BYTES: usize = 64;

/// The room that an answer takes. It is given back when the last copy is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerRoom(Option<Arc<OwnedSemaphorePermit>>);

impl AnswerRoom {
    fn new(permit: Option<OwnedSemaphorePermit>) -> AnswerRoom {
        AnswerRoom(permit.map(Arc::new))
    }

    /// Lets the room be kept as long as the answer.
    pub(crate) fn attach(self, extensions: &mut Extensions) {
        if self.0.is_some() {
            extensions.insert(self);
        }
    }

    /// The room of an answer that is about to be sent.
    pub(crate) fn detach(extensions: &mut Extensions) -> AnswerRoom {
        extensions.remove().unwrap_or_default()
    }
}

impl House {
    /// Room for the answer of a transaction that may be large, before it is done. None for one that
    /// reads a few keys.
    pub(crate) async fn room_before(
        &self,
        txn: &Txn,
    ) -> Result<Option<OwnedSemaphorePermit>, Failure> {
        if reads_many(txn) { self.scans.room().await.map(Some) } else { Ok(None) }
    }

    /// Room for an answer of so many bytes, from what was taken before.
    pub(crate) async fn room_for(
        &self,
        bytes: usize,
        before: Option<OwnedSemaphorePermit>,
    ) -> Result<AnswerRoom, Failure> {
        self.scans.room_for(bytes, before).await.map(AnswerRoom::new)
    }
}

/// Whether a transaction may answer with many keys, on either of its branches.
fn reads_many(txn: &Txn) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match op {
        Op::Put(_) => false,
        Op::DeleteRange(delete) => delete.prev && !delete.range.is_one(),
        Op::Range(query) => {
            let is_limited = (1..=FEW_KEYS).contains(&query.limit);
            !(query.range.is_one() || query.count_only || is_limited)
        }
        Op::Txn(inner) => reads_many(inner),
    })
}

/// Roughly what the answer of a transaction takes.
pub(crate) fn bytes_of(answer: &TxnAnswer) -> usize {
    let kv = |kv: &KeyValue| KEY_BYTES + kv.key.len() + kv.value.len();
    let each = answer.answers.iter().map(|answer| match answer {
        OpAnswer::Put(prev) => prev.as_deref().map_or(0, kv),
        OpAnswer::Deleted(_, kvs) => kvs.iter().map(kv).sum(),
        OpAnswer::Range(range) => range.kvs.iter().map(kv).sum(),
        OpAnswer::Txn(inner) => bytes_of(inner),
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use fencepost_core::Key;
    use fencepost_core::range::{KeyRange, RangeQuery};

    use super::*;

    fn txn(op: Op) -> Txn {
        let inner = Txn { failure: vec![op], ..Txn::default() };
        Txn { success: vec![Op::Txn(Box::new(inner))], ..Txn::default() }
    }

    #[test]
    fn only_transactions_that_read_many_keys_need_room_beforehand() {
        let all = RangeQuery::from(KeyRange::prefix(b""));
        let first = RangeQuery { limit: 1, ..all.clone() };
        let count = RangeQuery { count_only: true, ..all.clone() };
        let one = RangeQuery::from(KeyRange::One(Key::from("a")));
        assert!(reads_many(&txn(Op::Range(all))));
        for query in [first, count, one] {
            assert!(!reads_many(&txn(Op::Range(query))));
        }
    }
}
