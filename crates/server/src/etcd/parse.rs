//! From etcd's messages to commands.

use fencepost_core::command::{Compare, CompareTarget, DeleteRange, Op, Put, Relation, Txn};
use fencepost_core::range::{KeyRange, Order, RangeQuery, SortBy};
use fencepost_core::{Key, LeaseId, Millis, Reason, Revision, Value};
use fencepost_proto::etcd::etcdserverpb as pb;

use crate::error::{Failure, Wrong};

type Parsed<T> = Result<T, Failure>;

/// A revision, or a count. etcd takes a negative one for none.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn revision(number: i64) -> Revision {
    Revision(count(number))
}

fn named(key: &[u8]) -> Parsed<()> {
    if key.is_empty() { Err(Reason::KeyEmpty.into()) } else { Ok(()) }
}

/// The shortest lease on this door: so long an election may take, and etcd's clients know it so.
const TTL_SECS_MIN: i64 = 2;
/// The longest one that etcd takes.
const TTL_SECS_MAX: i64 = 9_000_000_000;

/// The length of a lease. What is longer than a lease may be here is made as long as it may be:
/// the answer says how long that is.
pub(super) fn ttl(secs: i64, longest: Millis) -> Parsed<Millis> {
    if secs > TTL_SECS_MAX {
        return Err(Reason::TtlTooLong(Millis::from_secs(count(secs)), longest).into());
    }
    Ok(Millis::from_secs(count(secs.max(TTL_SECS_MIN))).min(longest))
}

/// A question, and the revision that it is about; none means the present.
pub(super) fn range(request: &pb::RangeRequest) -> Parsed<(RangeQuery, Revision)> {
    use pb::range_request::{SortOrder, SortTarget};
    named(&request.key)?;
    let invalid = |field| move |_| Failure::from(Wrong::Invalid(field, "is unknown"));
    let order = SortOrder::try_from(request.sort_order).map_err(invalid("sort_order"))?;
    let target = SortTarget::try_from(request.sort_target).map_err(invalid("sort_target"))?;
    let query = RangeQuery {
        range: KeyRange::from_etcd(&request.key, &request.range_end),
        limit: count(request.limit),
        order: match order {
            SortOrder::None => Order::Unsorted,
            SortOrder::Ascend => Order::Ascending,
            SortOrder::Descend => Order::Descending,
        },
        sort_by: match target {
            SortTarget::Key => SortBy::Key,
            SortTarget::Version => SortBy::Version,
            SortTarget::Create => SortBy::Create,
            SortTarget::Mod => SortBy::Mod,
            SortTarget::Value => SortBy::Value,
        },
        mod_min: revision(request.min_mod_revision),
        mod_max: revision(request.max_mod_revision),
        create_min: revision(request.min_create_revision),
        create_max: revision(request.max_create_revision),
        keys_only: request.keys_only,
        count_only: request.count_only,
    };
    Ok((query, revision(request.revision)))
}

pub(super) fn put(request: &pb::PutRequest) -> Parsed<Put> {
    named(&request.key)?;
    if request.ignore_value && !request.value.is_empty() {
        return Err(Reason::ValueGiven.into());
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Reason::LeaseGiven.into());
    }
    Ok(Put {
        key: Key::from(&*request.key),
        value: Value::from(&*request.value),
        lease: LeaseId(request.lease),
        prev: request.prev_kv,
        ignore_value: request.ignore_value,
        ignore_lease: request.ignore_lease,
    })
}

pub(super) fn delete_range(request: &pb::DeleteRangeRequest) -> Parsed<DeleteRange> {
    named(&request.key)?;
    let range = KeyRange::from_etcd(&request.key, &request.range_end);
    Ok(DeleteRange { range, prev: request.prev_kv })
}

pub(super) fn txn(request: &pb::TxnRequest) -> Parsed<Txn> {
    let ops = |list: &[pb::RequestOp]| list.iter().map(op).collect::<Parsed<Vec<Op>>>();
    Ok(Txn {
        compares: request.compare.iter().map(compare).collect::<Parsed<_>>()?,
        success: ops(&request.success)?,
        failure: ops(&request.failure)?,
    })
}

fn op(request: &pb::RequestOp) -> Parsed<Op> {
    use pb::request_op::Request;
    match &request.request {
        Some(Request::RequestRange(range)) => {
            let (query, at) = self::range(range)?;
            if at != Revision::NONE {
                let why = "must be 0 inside a transaction: it reads what it has written";
                return Err(Wrong::Invalid("revision", why).into());
            }
            Ok(Op::Range(query))
        }
        Some(Request::RequestPut(put)) => Ok(Op::Put(self::put(put)?)),
        Some(Request::RequestDeleteRange(range)) => Ok(Op::DeleteRange(delete_range(range)?)),
        Some(Request::RequestTxn(txn)) => Ok(Op::Txn(Box::new(self::txn(txn)?))),
        None => Err(Reason::KeyNotFound.into()),
    }
}

fn compare(request: &pb::Compare) -> Parsed<Compare> {
    use pb::compare::{CompareResult, CompareTarget as Target, TargetUnion};
    named(&request.key)?;
    let invalid = |field| move |_| Failure::from(Wrong::Invalid(field, "is unknown"));
    let result = CompareResult::try_from(request.result).map_err(invalid("result"))?;
    let target = Target::try_from(request.target).map_err(invalid("target"))?;
    let number = match &request.target_union {
        Some(
            TargetUnion::Version(number)
            | TargetUnion::CreateRevision(number)
            | TargetUnion::ModRevision(number)
            | TargetUnion::Lease(number),
        ) => *number,
        _ => 0,
    };
    let target = match (target, &request.target_union) {
        (Target::Version, _) => CompareTarget::Version(count(number)),
        (Target::Create, _) => CompareTarget::Create(revision(number)),
        (Target::Mod, _) => CompareTarget::Mod(revision(number)),
        (Target::Lease, _) => CompareTarget::Lease(LeaseId(number)),
        (Target::Value, Some(TargetUnion::Value(value))) => {
            CompareTarget::Value(Value::from(&**value))
        }
        (Target::Value, _) => CompareTarget::Value(Value::default()),
    };
    let relation = match result {
        CompareResult::Equal => Relation::Equal,
        CompareResult::Greater => Relation::Greater,
        CompareResult::Less => Relation::Less,
        CompareResult::NotEqual => Relation::NotEqual,
    };
    let range = KeyRange::from_etcd(&request.key, &request.range_end);
    Ok(Compare { range, relation, target })
}
