//! Writes that take effect only while a lock is held.
//!
//! Guarantees: whether the lock is held and the write are one step of the state machine. Between the
//! look at the lock and the write no other holder can come.

use bytes::Bytes;
use fencepost_proto::etcd::etcdserverpb as etcd;
use fencepost_proto::etcd::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
use fencepost_proto::etcd::etcdserverpb::request_op::Request;
use fencepost_proto::etcd::etcdserverpb::response_op::Response;
use fencepost_proto::v1 as pb;

use super::Kv;
use crate::error::Error;

/// What a member says when it refuses a transaction before anything was done: that it has no leader,
/// too much to do, or ends.
const WITHOUT_EFFECT: [&str; 4] = [
    "etcdserver: no leader",
    "etcdserver: leader changed",
    "etcdserver: server stopped",
    "etcdserver: too many requests",
];

/// What came of a write under a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the write may have been refused"]
pub enum HeldPut {
    /// It is written, at this revision.
    Written(i64),
    /// The lock is not held by this holder any more. Nothing was written.
    NotHeld,
    /// The key was written by another request meanwhile. Nothing was written.
    Changed,
}

impl Kv {
    /// Writes a key if `holder`, as [`Client::get_lock`](crate::Client::get_lock) shows it, still holds
    /// its lock, and if the key was last written at the revision `replaces` (0: it is not there).
    ///
    /// # Errors
    ///
    /// [`Error::Indeterminate`] if the answer did not come: it may have been written.
    pub async fn put_held(
        &self,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
        replaces: i64,
        holder: &pb::Holder,
    ) -> Result<HeldPut, Error> {
        let request = transaction(key.into(), value.into(), replaces, holder);
        let answer = self.shell.unary(false, move |channel| {
            let request = request.clone();
            async move { KvClient::new(channel).txn(request).await }
        });
        outcome(&answer.await.map_err(without_effect)?, holder)
    }
}

fn transaction(key: Bytes, value: Bytes, replaces: i64, holder: &pb::Holder) -> etcd::TxnRequest {
    let contender = Bytes::copy_from_slice(holder.key.as_bytes());
    let equal = |key: &Bytes, target: CompareTarget, union: TargetUnion| etcd::Compare {
        result: CompareResult::Equal.into(),
        target: target.into(),
        key: key.clone(),
        target_union: Some(union),
        range_end: Bytes::new(),
    };
    let created = TargetUnion::CreateRevision(holder.create_revision);
    // A key under another lease is no contender, also if it was created then.
    let leased = TargetUnion::Lease(holder.lease_id);
    let compare = vec![
        equal(&contender, CompareTarget::Create, created),
        equal(&contender, CompareTarget::Lease, leased),
        equal(&key, CompareTarget::Mod, TargetUnion::ModRevision(replaces)),
    ];
    let put = etcd::PutRequest { key, value, ..Default::default() };
    // Says which of the comparisons has failed.
    let look = etcd::RangeRequest { key: contender, ..Default::default() };
    let op = |request| vec![etcd::RequestOp { request: Some(request) }];
    etcd::TxnRequest {
        compare,
        success: op(Request::RequestPut(put)),
        failure: op(Request::RequestRange(look)),
    }
}

fn outcome(answer: &etcd::TxnResponse, holder: &pb::Holder) -> Result<HeldPut, Error> {
    let revision = answer.header.as_ref().map(|header| header.revision);
    match (answer.responses.first().and_then(|one| one.response.as_ref()), revision) {
        (Some(Response::ResponsePut(_)), Some(revision)) if answer.succeeded => {
            Ok(HeldPut::Written(revision))
        }
        (Some(Response::ResponseRange(found)), _) if !answer.succeeded => {
            let is_holder = |kv: &fencepost_proto::etcd::mvccpb::KeyValue| {
                (kv.create_revision, kv.lease) == (holder.create_revision, holder.lease_id)
            };
            match found.kvs.first().is_some_and(is_holder) {
                true => Ok(HeldPut::Changed),
                false => Ok(HeldPut::NotHeld),
            }
        }
        // The member has done something else than it was asked for.
        _ => Err(Error::unknown("an answer of the wrong kind")),
    }
}

/// An unknown outcome is a certain refusal if the member said why it did nothing.
fn without_effect(error: Error) -> Error {
    match error {
        Error::Indeterminate { message } if WITHOUT_EFFECT.contains(&message.as_str()) => {
            Error::Unavailable { message }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use fencepost_proto::etcd::mvccpb::KeyValue;

    use super::*;

    fn holder() -> pb::Holder {
        let key = "jobs/2a".to_owned();
        pb::Holder { key, lease_id: 42, create_revision: 7, ..Default::default() }
    }

    fn refused(kvs: Vec<KeyValue>) -> etcd::TxnResponse {
        let range = etcd::RangeResponse { kvs, ..Default::default() };
        let response = Some(Response::ResponseRange(range));
        let responses = vec![etcd::ResponseOp { response }];
        etcd::TxnResponse { succeeded: false, responses, ..Default::default() }
    }

    #[test]
    fn a_refused_write_says_which_comparison_failed() {
        let found =
            |create_revision, lease| KeyValue { create_revision, lease, ..Default::default() };
        let of = |kvs| outcome(&refused(kvs), &holder());
        assert_eq!(of(vec![found(7, 42)]), Ok(HeldPut::Changed));
        assert_eq!(of(vec![found(8, 42)]), Ok(HeldPut::NotHeld));
        assert_eq!(of(vec![found(7, 43)]), Ok(HeldPut::NotHeld));
        assert_eq!(of(vec![]), Ok(HeldPut::NotHeld));
    }

    #[test]
    fn an_odd_answer_is_an_unknown_outcome() {
        let odd = etcd::TxnResponse { succeeded: true, ..Default::default() };
        assert!(outcome(&odd, &holder()).expect_err("it is odd").is_indeterminate());
    }

    #[test]
    fn only_a_known_refusal_is_without_effect() {
        let of = |message: &str| without_effect(Error::unknown(message)).is_indeterminate();
        assert!(!of("etcdserver: no leader"));
        assert!(of("etcdserver: request timed out"));
        assert!(of("the answer did not come in time"));
    }
}
