//! From the wire to commands.
//!
//! Refuses: what has no meaning, before anything is proposed. Everything that depends on limits or
//! on the state is refused by the state itself, so that all doors refuse the same.

use fencepost_core::command::{
    Acquire, AcquireAs, AcquireMany, Action, Cancel, CancelTarget, Compare, CompareTarget,
    DeleteRange, ForceRelease, LeaseGrant, LeaseRef, LeaseRenew, LeaseRevoke, Mode, Op, Put,
    Relation, Release, ReleaseMany, Renewal, Terms, Txn, Wait,
};
use fencepost_core::event::KeyValue;
use fencepost_core::history::Watch;
use fencepost_core::outcome::OpAnswer;
use fencepost_core::range::{KeyRange, PageQuery};
use fencepost_core::{
    ClientId, Epoch, Key, LeaseId, Limits, LockName, Millis, Outcome, Reason, Revision, Seq, Token,
    Value, contended_name,
};
use fencepost_proto::v1;

pub(crate) use fencepost_core::{contender_key, contender_key_of, queue_form};

use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::limits;

/// What a request is turned into, or why not.
pub(crate) type Parsed<T> = Result<T, Failure>;

fn invalid(field: &'static str, why: &'static str) -> Failure {
    Failure::from(Wrong::Invalid(field, why))
}

pub(crate) fn millis(field: &'static str, length: i64) -> Parsed<Millis> {
    let length = u64::try_from(length).map_err(|_| invalid(field, "must not be negative"))?;
    Ok(Millis(length))
}

/// A token or a revision.
fn number(field: &'static str, number: i64) -> Parsed<u64> {
    u64::try_from(number).map_err(|_| invalid(field, "must not be negative"))
}

pub(crate) fn value(bytes: &[u8]) -> Value {
    Value::from(bytes)
}

fn lease(id: i64, epoch: u64) -> LeaseRef {
    LeaseRef { id: LeaseId(id), epoch: Epoch(epoch) }
}

/// A lease that must be named.
fn lease_named(id: i64, epoch: u64) -> Parsed<LeaseRef> {
    if id <= 0 {
        return Err(invalid("lease_id", "must name a lease"));
    }
    Ok(lease(id, epoch))
}

fn mode(mode: i32, permits: u32) -> Parsed<Mode> {
    let mode = v1::LockMode::try_from(mode).map_err(|_| invalid("mode", "is unknown"))?;
    match (mode, permits) {
        (v1::LockMode::Exclusive, 0) => Ok(Mode::Exclusive),
        (v1::LockMode::Shared, 0) => Ok(Mode::Shared),
        (v1::LockMode::Permit, permits) => Ok(Mode::Permit(permits)),
        _ => Err(invalid("permits", "may only be given in the mode LOCK_MODE_PERMIT")),
    }
}

fn wait(timeout_ms: i64) -> Parsed<Wait> {
    match timeout_ms {
        0 => Ok(Wait::Try),
        -1 => Ok(Wait::WhileLeased),
        length => {
            let length = u64::try_from(length);
            let length = length.map_err(|_| invalid("timeout_ms", "must not be below -1"))?;
            Ok(Wait::AtMost(Millis(length)))
        }
    }
}

fn terms(metadata: &[u8], terms: Option<&v1::LockTerms>) -> Parsed<Terms> {
    let mut parsed = Terms { metadata: value(metadata), ..Terms::default() };
    if let Some(terms) = terms {
        parsed.value = value(&terms.value);
        parsed.lock_delay = millis("terms.lock_delay_ms", terms.lock_delay_ms)?;
        parsed.budget = millis("terms.budget_ms", terms.budget_ms)?;
        parsed.hold_max = millis("terms.hold_max_ms", terms.hold_max_ms)?;
    }
    Ok(parsed)
}

pub(crate) fn lock(request: &v1::LockRequest) -> Parsed<Acquire> {
    Ok(Acquire {
        name: LockName::from(&*request.name),
        lease: lease_named(request.lease_id, request.lease_epoch)?,
        mode: mode(request.mode, request.permits)?,
        wait: wait(request.timeout_ms)?,
        terms: terms(&request.metadata, request.terms.as_ref())?,
    })
}

pub(crate) fn try_lock(request: &v1::TryLockRequest) -> Parsed<Acquire> {
    Ok(Acquire {
        name: LockName::from(&*request.name),
        lease: lease_named(request.lease_id, request.lease_epoch)?,
        mode: mode(request.mode, request.permits)?,
        wait: Wait::Try,
        terms: terms(&request.metadata, request.terms.as_ref())?,
    })
}

/// By owner name, for doors whose clients have no leases: the same request without one.
pub(crate) fn acquire_as(request: &v1::LockRequest, owner: &Owner<'_>) -> Parsed<AcquireAs> {
    if mode(request.mode, request.permits)? != Mode::Exclusive {
        return Err(invalid("mode", "must be exclusive without a lease"));
    }
    Ok(AcquireAs {
        name: LockName::from(&*request.name),
        client: ClientId::from(owner.client),
        ttl: millis("ttl_ms", owner.ttl_ms)?,
        wait: wait(request.timeout_ms)?,
        terms: terms(&request.metadata, request.terms.as_ref())?,
    })
}

/// Who owns a lock without a lease, and for how long without a renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) client: &'a str,
    pub(crate) ttl_ms: i64,
}

pub(crate) fn unlock(request: &v1::UnlockRequest) -> Parsed<Action> {
    Ok(Action::Release(Release {
        name: LockName::from(&*request.name),
        lease: lease_named(request.lease_id, request.lease_epoch)?,
        token: Token(number("fencing_token", request.fencing_token)?),
    }))
}

/// `client` is used if the request names none.
pub(crate) fn lease_grant(
    request: &v1::LeaseGrantRequest,
    client: &ClientId,
    address: ClientId,
) -> Parsed<LeaseGrant> {
    let ttl = match request.ttl_ms {
        0 => Millis::from_secs(number("ttl", request.ttl)?),
        length => millis("ttl_ms", length)?,
    };
    let grace = millis("revoke_on_disconnect_ms", request.revoke_on_disconnect_ms)?;
    let named = ClientId::from(&*request.client_id);
    Ok(LeaseGrant {
        id: LeaseId(request.id),
        ttl,
        client: if named.is_empty() { client.clone() } else { named },
        address,
        revoke_on_disconnect: Some(grace).filter(|&grace| grace > Millis::ZERO),
    })
}

pub(crate) fn lease_revoke(request: &v1::LeaseRevokeRequest) -> Parsed<Action> {
    Ok(Action::LeaseRevoke(LeaseRevoke { lease: lease_named(request.id, request.epoch)? }))
}

pub(crate) fn renewals(requests: &[v1::LeaseKeepAliveRequest]) -> Parsed<Action> {
    if requests.is_empty() {
        return Err(Wrong::Empty.into());
    }
    let renewal = |one: &v1::LeaseKeepAliveRequest| Renewal {
        lease: lease(one.id, one.epoch),
        number: one.number,
    };
    Ok(Action::LeaseRenew(LeaseRenew { renewals: requests.iter().map(renewal).collect() }))
}

/// One lock or several: what is proposed, for which locks, and with which lease.
pub(crate) fn acquire(request: &v1::SessionAcquire) -> Parsed<(Action, Vec<LockName>, LeaseId)> {
    let lease = lease_named(request.lease_id, request.lease_epoch)?;
    let wait = wait(request.timeout_ms)?;
    let terms = terms(&request.metadata, request.terms.as_ref())?;
    let named = |lock: &v1::LockWanted| contended_name(lock.name.as_bytes(), lease.id);
    match &request.locks[..] {
        [] => Err(Failure::from(Reason::NamesEmpty)),
        [lock] => {
            let (name, mode) = (named(lock), mode(lock.mode, lock.permits)?);
            let names = vec![name.clone()];
            Ok((Action::Acquire(Acquire { name, lease, mode, wait, terms }), names, lease.id))
        }
        wanted => {
            let modes = wanted.iter().map(|lock| mode(lock.mode, lock.permits));
            let modes = modes.collect::<Parsed<Vec<_>>>()?;
            let names: Vec<LockName> = wanted.iter().map(named).collect();
            let locks = names.iter().cloned().zip(modes).collect();
            let acquire = AcquireMany { locks, lease, wait, terms };
            Ok((Action::AcquireMany(acquire), names, lease.id))
        }
    }
}

pub(crate) fn cancel(request: &v1::SessionCancel) -> Parsed<Action> {
    let lease = lease_named(request.lease_id, request.lease_epoch)?;
    Ok(Action::Cancel(Cancel { lease, target: CancelTarget::Seq(Seq(request.seq)) }))
}

pub(crate) fn release(request: &v1::SessionRelease) -> Parsed<Action> {
    let lease = lease_named(request.lease_id, request.lease_epoch)?;
    let token = Token(number("fencing_token", request.fencing_token)?);
    let named = |name: &String| contended_name(name.as_bytes(), lease.id);
    Ok(match &request.names[..] {
        [name] => Action::Release(Release { name: named(name), lease, token }),
        names => {
            let names = names.iter().map(named).collect();
            Action::ReleaseMany(ReleaseMany { names, lease, token })
        }
    })
}

pub(crate) fn force_release(
    request: &v1::ForceReleaseRequest,
    address: &ClientId,
) -> Parsed<Action> {
    Ok(Action::ForceRelease(ForceRelease {
        name: LockName::from(&*request.name),
        token: Token(number("fencing_token", request.fencing_token)?),
        reason: ClientId::from(&*with_origin(&request.reason, &request.client_id, address)),
        now: request.now,
    }))
}

/// The reason, with who gave it as far as that is known. What would not fit beside the reason is left
/// out, and so is everything if there is no reason: it is refused then.
fn with_origin(reason: &str, client: &str, address: &ClientId) -> String {
    let origin = match (client, address.as_str()) {
        ("", "") => return reason.to_owned(),
        (client, "") => client.to_owned(),
        ("", address) => address.to_owned(),
        (client, address) => format!("{client} at {address}"),
    };
    let whole = format!("{reason} (by {origin})");
    let max = usize::try_from(Limits::default().text_len_max).unwrap_or(usize::MAX);
    if reason.is_empty() || whole.len() > max { reason.to_owned() } else { whole }
}

/// The command for a key that its writer means as a plain one. Where members do not know it, any key
/// is written.
pub(crate) fn plain_put(house: &House, put: Put) -> Action {
    if house.handle.board().feature_level() < 2 { Action::Put(put) } else { Action::PutPlain(put) }
}

pub(crate) fn put(house: &House, request: &v1::PutRequest) -> Parsed<Action> {
    if request.lease_id < 0 {
        return Err(invalid("lease_id", "must not be negative"));
    }
    let created = Revision(number("create_revision", request.create_revision)?);
    let key = Key::from(&*request.key);
    let put = Put {
        key: key.clone(),
        value: value(&request.value),
        lease: LeaseId(request.lease_id),
        prev: request.prev_kv,
        ..Put::default()
    };
    if created == Revision::NONE {
        return Ok(plain_put(house, put));
    }
    // The key may have been removed, and made anew by somebody else, since its writer saw it.
    let is_the_same = Compare {
        range: KeyRange::One(key),
        relation: Relation::Equal,
        target: CompareTarget::Create(created),
    };
    let mut compares = vec![is_the_same];
    if queue_form(&put.key).is_some() {
        // A place in a queue that is taken away from its lease would block the lock.
        compares.push(Compare {
            range: KeyRange::One(put.key.clone()),
            relation: Relation::Equal,
            target: CompareTarget::Lease(put.lease),
        });
    }
    let success = vec![Op::Put(put)];
    Ok(Action::Txn(Txn { compares, success, failure: Vec::new() }.into()))
}

/// What came of a put: the value before, if that was asked for.
pub(crate) fn put_outcome(outcome: Outcome) -> Result<Option<Box<KeyValue>>, Failure> {
    match outcome {
        Outcome::Put(prev) => Ok(prev),
        Outcome::Txn(mut txn) if txn.succeeded => match txn.answers.pop() {
            Some(OpAnswer::Put(prev)) => Ok(prev),
            _ => Err(Wrong::Unexpected.into()),
        },
        Outcome::Txn(_) => Err(Reason::KeyNotFound.into()),
        _ => Err(Wrong::Unexpected.into()),
    }
}

fn key_range(key: &str, prefix: bool) -> KeyRange {
    if prefix { KeyRange::prefix(key.as_bytes()) } else { KeyRange::One(Key::from(key)) }
}

/// A single key must be named. No prefix at all means every key.
fn key_range_named(key: &str, prefix: bool) -> Parsed<KeyRange> {
    if key.is_empty() && !prefix {
        return Err(Failure::from(Reason::KeyEmpty));
    }
    Ok(key_range(key, prefix))
}

pub(crate) fn delete_range(request: &v1::DeleteRangeRequest) -> Parsed<DeleteRange> {
    let range = key_range_named(&request.key, request.prefix)?;
    Ok(DeleteRange { range, prev: request.prev_kv })
}

pub(crate) fn range(request: &v1::RangeRequest) -> Parsed<PageQuery> {
    let range = key_range_named(&request.key, request.prefix)?;
    let limit = match usize::try_from(request.limit).unwrap_or(usize::MAX) {
        0 => limits::RANGE_KEYS_MAX,
        limit => limit.min(limits::RANGE_KEYS_MAX),
    };
    let after = (!request.after.is_empty()).then(|| Key::from(&*request.after));
    let (bytes_max, keys_only) = (limits::RANGE_BYTES_MAX, request.keys_only);
    Ok(PageQuery { range, after, limit, bytes_max, keys_only })
}

pub(crate) fn watch(request: &v1::WatchRequest) -> Parsed<Watch> {
    let range = key_range_named(&request.key, request.prefix)?;
    let from = Revision(number("start_revision", request.start_revision)?);
    Ok(Watch {
        no_put: request.no_put,
        no_delete: request.no_delete,
        keys_only: !request.lock_events,
        prev: request.prev_kv,
        ..Watch::new(range, from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_mean_nothing_are_refused() {
        let request = |change: fn(&mut v1::LockRequest)| {
            let mut request =
                v1::LockRequest { name: "a".into(), lease_id: 1, ..v1::LockRequest::default() };
            change(&mut request);
            lock(&request)
        };
        assert!(request(|_| {}).is_ok());
        type Change = fn(&mut v1::LockRequest);
        let wrong: [(Change, &str); 6] = [
            (|one| one.lease_id = 0, "field_invalid"),
            (|one| one.lease_id = -7, "field_invalid"),
            (|one| one.timeout_ms = -2, "field_invalid"),
            (|one| one.mode = 9, "field_invalid"),
            (|one| one.permits = 1, "field_invalid"),
            (
                |one| {
                    one.terms = Some(v1::LockTerms { budget_ms: -1, ..v1::LockTerms::default() });
                },
                "field_invalid",
            ),
        ];
        for (change, code) in wrong {
            assert_eq!(request(change).expect_err("it makes no sense").code, code);
        }
    }
}
