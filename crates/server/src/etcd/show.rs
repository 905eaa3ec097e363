//! From answers to etcd's messages.

use std::sync::Arc;

use bytes::Bytes;
use fencepost_core::event::{Event, EventKind, KeyValue};
use fencepost_core::outcome::{OpAnswer, TxnAnswer};
use fencepost_core::range::RangeAnswer;
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::mvccpb;

use crate::show::signed;

pub(super) fn key_value(kv: &KeyValue) -> mvccpb::KeyValue {
    mvccpb::KeyValue {
        key: Bytes::copy_from_slice(&kv.key),
        create_revision: signed(kv.create_revision.0),
        mod_revision: signed(kv.mod_revision.0),
        version: signed(kv.version),
        value: Bytes::copy_from_slice(&kv.value),
        lease: kv.lease.0,
    }
}

pub(super) fn range(answer: &RangeAnswer, header: Option<pb::ResponseHeader>) -> pb::RangeResponse {
    pb::RangeResponse {
        header,
        kvs: answer.kvs.iter().map(key_value).collect(),
        more: answer.more,
        count: signed(answer.count),
    }
}

pub(super) fn txn(answer: &TxnAnswer, header: pb::ResponseHeader) -> pb::TxnResponse {
    let mut steps = Steps { last: header.revision, has_written: !writes(answer) };
    let responses = answer.answers.iter().map(|one| steps.op(one)).collect();
    pb::TxnResponse { header: Some(header), succeeded: answer.succeeded, responses }
}

/// Whether a transaction has changed a key.
fn writes(answer: &TxnAnswer) -> bool {
    answer.answers.iter().any(|one| match one {
        OpAnswer::Put(_) => true,
        OpAnswer::Deleted(deleted, _) => *deleted > 0,
        OpAnswer::Range(_) => false,
        OpAnswer::Txn(inner) => writes(inner),
    })
}

/// Goes through a transaction as it was done: what comes before its first write still stands at the
/// revision before it.
struct Steps {
    last: i64,
    has_written: bool,
}

impl Steps {
    fn header(&self) -> Option<pb::ResponseHeader> {
        let revision = if self.has_written { self.last } else { self.last - 1 };
        Some(pb::ResponseHeader { revision, ..pb::ResponseHeader::default() })
    }

    fn op(&mut self, answer: &OpAnswer) -> pb::ResponseOp {
        use pb::response_op::Response;
        let response = match answer {
            OpAnswer::Put(prev) => {
                self.has_written = true;
                let prev_kv = prev.as_deref().map(key_value);
                Response::ResponsePut(pb::PutResponse { header: self.header(), prev_kv })
            }
            OpAnswer::Deleted(deleted, prev) => {
                self.has_written |= *deleted > 0;
                Response::ResponseDeleteRange(pb::DeleteRangeResponse {
                    header: self.header(),
                    deleted: signed(*deleted),
                    prev_kvs: prev.iter().map(key_value).collect(),
                })
            }
            OpAnswer::Range(answer) => Response::ResponseRange(range(answer, self.header())),
            OpAnswer::Txn(answer) => Response::ResponseTxn(pb::TxnResponse {
                // etcd leaves this one empty.
                header: Some(pb::ResponseHeader::default()),
                succeeded: answer.succeeded,
                responses: answer.answers.iter().map(|one| self.op(one)).collect(),
            }),
        };
        pb::ResponseOp { response: Some(response) }
    }
}

/// Events of whole revisions, as far as they are events of keys.
pub(super) fn events(events: &[Arc<Event>], shows_prev: bool) -> Vec<mvccpb::Event> {
    let mut shown = Vec::with_capacity(events.len());
    for (place, event) in events.iter().enumerate() {
        let before = shows_prev.then(|| before_revision(events, place)).flatten();
        shown.extend(one_event(event, before));
    }
    shown
}

fn one_event(event: &Event, before: Option<&KeyValue>) -> Option<mvccpb::Event> {
    use mvccpb::event::EventType;
    let (kind, kv) = match &event.kind {
        EventKind::Put { kv, .. } => (EventType::Put, key_value(kv)),
        // The key, and when it went.
        EventKind::Deleted { prev, .. } => {
            let key = Bytes::copy_from_slice(&prev.key);
            let mod_revision = signed(event.revision.0);
            let gone = mvccpb::KeyValue { key, mod_revision, ..mvccpb::KeyValue::default() };
            (EventType::Delete, gone)
        }
        _ => return None,
    };
    Some(mvccpb::Event { r#type: kind.into(), kv: Some(kv), prev_kv: before.map(key_value) })
}

fn prev(event: &Event) -> Option<&KeyValue> {
    match &event.kind {
        EventKind::Put { prev, .. } => prev.as_deref(),
        EventKind::Deleted { prev, .. } => Some(prev),
        _ => None,
    }
}

/// What stood at a key before the revision of an event. One transaction may change a key twice.
fn before_revision(events: &[Arc<Event>], place: usize) -> Option<&KeyValue> {
    let event = &events[place];
    let before = prev(event)?;
    if before.mod_revision < event.revision {
        return Some(before);
    }
    let is_of_it = |one: &&Arc<Event>| one.revision == event.revision && one.key() == event.key();
    let first = events[..place].iter().find(is_of_it).unwrap_or(event);
    prev(first).filter(|prev| prev.mod_revision < event.revision)
}
