//! Unlock, GetLock, ListLocks, Explain, DeleteLock, ForceRelease.

use fencepost_core::command::{Action, DeleteLock};
use fencepost_core::query::{Sight, Subject};
use fencepost_core::{ClientId, LeaseId, LockName, Millis, Outcome, Reason};
use fencepost_proto::v1;

use super::leases::page;
use crate::error::{Failure, Wrong};
use crate::house::{House, unexpected};
use crate::{limits, parse, reads, show, signing};

/// What a list shows of each lock.
const LISTED: Sight =
    Sight { holders_max: 16, waiters_max: 16, metadata_bytes_max: limits::RANGE_BYTES_MAX };
/// Waiters that an explanation looks at.
const EXPLAINED_MAX: usize = 32;

pub(crate) async fn unlock(
    house: &House,
    request: &v1::UnlockRequest,
) -> Result<v1::UnlockResponse, Failure> {
    let (header, outcome) = house.act(parse::unlock(request)?).await?;
    let released = match outcome {
        Outcome::Released => true,
        Outcome::NotFound => false,
        _ => return Err(unexpected()),
    };
    Ok(v1::UnlockResponse { header: Some(header), released })
}

pub(crate) async fn get(
    house: &House,
    request: &v1::GetLockRequest,
) -> Result<v1::GetLockResponse, Failure> {
    let look = reads::look(request)?;
    let ask = house.ask(request.stale, move |state| (state.now(), look(state)));
    let (header, (now, view)) = ask.await?;
    Ok(v1::GetLockResponse { header: Some(header), lock: Some(show::lock(&view, now)) })
}

pub(crate) async fn list(
    house: &House,
    request: &v1::ListLocksRequest,
) -> Result<v1::ListLocksResponse, Failure> {
    let (prefix, limit) = (request.prefix.clone().into_bytes(), page(request.limit));
    let after = (!request.after.is_empty()).then(|| LockName::from(&*request.after));
    let ask = house.ask_within(request.stale, move |state, budget| {
        (state.now(), state.locks_within(&prefix, after.as_ref(), limit, &LISTED, budget))
    });
    let (header, (now, (found, more))) = ask.await?;
    let locks = found.iter().map(|view| show::lock(view, now)).collect();
    Ok(v1::ListLocksResponse { header: Some(header), locks, more })
}

pub(crate) async fn explain(
    house: &House,
    request: &v1::ExplainRequest,
) -> Result<v1::ExplainResponse, Failure> {
    let (name, lease) = (LockName::from(&*request.name), LeaseId(request.lease_id));
    if name.is_empty() && lease.is_none() {
        return Err(Wrong::Invalid("name", "must name a lock, or lease_id a lease").into());
    }
    let asked = name.clone();
    let ask = house.ask(false, move |state| {
        let subject = if lease.is_none() { Subject::Lock(asked) } else { Subject::Lease(lease) };
        let is_known = lease.is_none() || state.lease(lease).is_some();
        (is_known, state.explain(&subject, EXPLAINED_MAX), state.now())
    });
    let (header, (is_known, mut explanation, now)) = ask.await?;
    if !is_known {
        return Err(Reason::LeaseNotFound(lease).into());
    }
    if !lease.is_none() && !name.is_empty() {
        // Only why this lease waits for this lock.
        explanation.waits.retain(|waiting| waiting.name == name);
        explanation.locks.retain(|lock| lock.name == name);
    }
    let reasons = show::explanation(&explanation, now);
    Ok(v1::ExplainResponse { header: Some(header), reasons })
}

pub(crate) async fn delete(
    house: &House,
    request: &v1::DeleteLockRequest,
) -> Result<v1::DeleteLockResponse, Failure> {
    let name = LockName::from(&*request.name);
    let (header, _) = house.act(Action::DeleteLock(DeleteLock { name })).await?;
    Ok(v1::DeleteLockResponse { header: Some(header) })
}

pub(crate) async fn force_release(
    house: &House,
    request: &v1::ForceReleaseRequest,
    address: &ClientId,
) -> Result<v1::ForceReleaseResponse, Failure> {
    let (header, outcome) = house.act(parse::force_release(request, address)?).await?;
    let (released, pending) = match outcome {
        Outcome::Released => (true, Millis::ZERO),
        Outcome::NotFound => (false, Millis::ZERO),
        Outcome::ReleasePending(until) => {
            // It is done, whether this is known or not.
            let now = house.ask(true, |state| state.now()).await;
            (false, now.map(|(_, now)| until.since(now)).unwrap_or_default())
        }
        _ => return Err(unexpected()),
    };
    let pending_ms = show::millis(pending);
    let signed_floor = if request.signed { signed_floor(house, &request.name).await } else { None };
    let signed_floor = signed_floor.unwrap_or_default();
    Ok(v1::ForceReleaseResponse { header: Some(header), released, pending_ms, signed_floor })
}

/// The release is done and cannot be undone, so it is told whatever becomes of the signature.
async fn signed_floor(house: &House, name: &str) -> Option<String> {
    match signing::floor(house, &LockName::from(name)).await {
        Ok(signed) => signed,
        Err(failure) => {
            tracing::warn!(lock = name, why = failure.message, "cannot sign a fence floor");
            None
        }
    }
}
