//! Renew, release, force a release; list, show, explain.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use fencepost_core::outcome::Grant;
use fencepost_core::{ClientId, LockName, Millis, Token};
use fencepost_proto::v1;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::acquire::Held;
use super::answer::{Told, address, answered, arrival, change, changed, head, question};
use super::numbers::{Lease, LeaseGiven, exact, exact_or_none, signed};
use super::problem::Problems;
use super::query::Query;
use super::views::{ListedLock, Lock};
use crate::arrival::Arrival;
use crate::error::Wrong;
use crate::grpc::locks;
use crate::house::{House, unexpected};
use crate::owners::{self, Ask, GiveBack, Keep, Turn};
use crate::{limits, show};

/// A lock to keep, by owner name. One that a lease holds is kept by renewing the lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RenewRequest {
    #[schema(min_length = 1, max_length = 1007)]
    name: String,
    /// The owner.
    #[schema(min_length = 1, max_length = 256)]
    client_id: String,
    /// How long it is held from now on without a renewal. As before, if it is not given.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(minimum = 500, maximum = 86_400_000)]
    ttl_ms: Option<u64>,
    /// The token of the grant. Another holding of the same owner is not renewed.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    token: Option<u64>,
}

/// Keep a lock that was taken by owner name
///
/// Count from the `remaining_ms` of the latest answer, also if it is less than before: an operator
/// who asks for the lock ends it then, and `must_stop_in_ms` says so.
#[utoipa::path(post, path = "/v1/locks/renew", operation_id = "renew_lock", tag = "locks",
    request_body = RenewRequest,
    responses((status = 200, description = "It is held for longer", body = Held), Problems))]
pub(super) async fn renew(State(house): State<Arc<House>>, request: Request) -> Response {
    let arrival = arrival(&request);
    change(&house, "renew", request, async |house, asked: RenewRequest| {
        if asked.ttl_ms == Some(0) {
            return Err(Wrong::Invalid("ttl_ms", "must not be 0").into());
        }
        let keep = Keep {
            name: LockName::from(&*asked.name),
            client: ClientId::from(&*asked.client_id),
            ttl: Millis(asked.ttl_ms.unwrap_or_default()),
            token: token(asked.token)?,
        };
        let arrival = arrival.map(Arrival::whole);
        let ask = Ask::Renew(keep);
        let answer = owners::serve(&house, ask, arrival.as_ref(), Turn::default()).await;
        let (header, told) = answer.told?;
        match told.or_failure(false)? {
            owners::Told::Renewed(grant) => Ok((header, held(asked.name, &grant, false))),
            owners::Told::MustStop(grant) => Ok((header, held(asked.name, &grant, true))),
            _ => Err(unexpected().into()),
        }
    })
    .await
}

fn token(token: Option<u64>) -> Result<Option<Token>, Wrong> {
    match token {
        Some(0) => Err(Wrong::Invalid("token", "must not be 0")),
        token => Ok(token.map(Token)),
    }
}

fn held(name: String, grant: &Grant, must_stop: bool) -> Held {
    let remaining_ms = show::millis(grant.remaining);
    Held {
        name,
        token: show::signed(grant.token.0),
        lease: Lease(grant.lease.0),
        key: show::text(&grant.key),
        remaining_ms,
        expires_unix_ms: show::expires_unix_ms(grant.remaining),
        must_stop_in_ms: must_stop.then_some(remaining_ms),
    }
}

/// A lock to give back: with its `lease` and `token`, or by owner name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"name": "jobs/nightly", "client_id": "me", "token": 17}),
    json!({"name": "jobs/nightly", "lease": "2a", "token": 17})
))]
pub(super) struct ReleaseRequest {
    #[schema(min_length = 1, max_length = 1007)]
    name: String,
    /// The owner, if there is no lease.
    #[schema(min_length = 1, max_length = 256)]
    client_id: Option<String>,
    /// The lease that holds it.
    lease: Option<LeaseGiven>,
    /// The token of the grant: another holding of the same lease or owner is not touched. With
    /// `lease` it must be given. By owner name it should be: without it a late copy of the request
    /// can end what the owner has acquired since.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    token: Option<u64>,
    /// With `lease`: which grant of it is meant. Any, if it is not given.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    epoch: Option<u64>,
}

/// What came of a release.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Released {
    name: String,
    /// False if there was nothing to release: it was released before, or has ended.
    released: bool,
    /// The token of what was released.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    token: Option<i64>,
}

/// Give a lock back
///
/// With a token, repeating it does no harm, however late a copy comes. By owner name it also gives up
/// a place in the queue.
#[utoipa::path(post, path = "/v1/locks/release", operation_id = "release_lock", tag = "locks",
    request_body = ReleaseRequest,
    responses((status = 200, description = "It is not held any more", body = Released), Problems))]
pub(super) async fn release(State(house): State<Arc<House>>, request: Request) -> Response {
    let arrival = arrival(&request);
    change(&house, "unlock", request, async |house, asked: ReleaseRequest| {
        match (asked.lease, &asked.client_id) {
            (Some(lease), None) => release_leased(&house, asked, lease).await,
            (None, Some(client)) if asked.epoch.is_none() => {
                let name = LockName::from(&*asked.name);
                let (client, token) = (ClientId::from(&**client), token(asked.token)?);
                let ask = Ask::Release(GiveBack { name, client, token });
                let arrival = arrival.map(Arrival::whole);
                let answer = owners::serve(&house, ask, arrival.as_ref(), Turn::default()).await;
                let (header, told) = answer.told?;
                let (released, token) = match told.or_failure(true)? {
                    owners::Told::Released(token) => (true, token),
                    _ => (false, None),
                };
                let token = token.map(|token| show::signed(token.0));
                Ok((header, Released { name: asked.name, released, token }))
            }
            (None, Some(_)) => Err(Wrong::Invalid("epoch", "goes with a lease").into()),
            _ => Err(Wrong::Invalid("lease", "must be given, or client_id, not both").into()),
        }
    })
    .await
}

async fn release_leased(house: &House, asked: ReleaseRequest, lease: LeaseGiven) -> Told<Released> {
    let token = asked.token.ok_or(Wrong::Invalid("token", "must go with a lease"))?;
    let unlock = v1::UnlockRequest {
        name: asked.name.clone(),
        lease_id: lease.0,
        fencing_token: signed(token),
        lease_epoch: asked.epoch.unwrap_or_default(),
    };
    let told = locks::unlock(house, &unlock).await?;
    let token = told.released.then(|| signed(token));
    Ok((head(told.header), Released { name: asked.name, released: told.released, token }))
}

/// A lock to take from its holder, as an operator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForceRequest {
    #[schema(min_length = 1, max_length = 1007)]
    name: String,
    /// The token of the holding that is meant, so that a successor is safe.
    #[serde(deserialize_with = "exact")]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    token: u64,
    /// Why. The holder is told.
    #[schema(min_length = 1, max_length = 256)]
    reason: String,
    /// Does not wait for the holder: only resources that check tokens are safe then.
    #[serde(default)]
    now: bool,
}

/// What came of a forced release.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Forced {
    name: String,
    /// Whether the lock has passed on already.
    released: bool,
    /// Within how long it will. With `released` false and 0, nobody held it.
    pending_ms: i64,
}

/// Take a lock from its holder, as an operator
#[utoipa::path(post, path = "/v1/locks/force-release", operation_id = "force_release_lock", tag = "locks",
    request_body = ForceRequest,
    responses((status = 200, description = "It is taken, or will be", body = Forced), Problems))]
pub(super) async fn force_release(State(house): State<Arc<House>>, request: Request) -> Response {
    let address = address(&request);
    change(&house, "force_release", request, async move |house, asked: ForceRequest| {
        let force = v1::ForceReleaseRequest {
            name: asked.name.clone(),
            fencing_token: signed(asked.token),
            reason: asked.reason,
            now: asked.now,
            signed: false,
            client_id: String::new(),
        };
        let told = locks::force_release(&house, &force, &address).await?;
        let (released, pending_ms) = (told.released, told.pending_ms);
        Ok((head(told.header), Forced { name: asked.name, released, pending_ms }))
    })
    .await
}

/// Which lock is forgotten.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct DeleteQuery {
    name: String,
}

/// A lock that is not remembered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ForgottenLock {
    name: String,
}

/// Forget a free lock without waiters
///
/// One that is held or waited for is refused with `lock_in_use`. A fence floor stays: no token of
/// before becomes valid again. A lock-delay ends.
#[utoipa::path(delete, path = "/v1/locks", operation_id = "delete_lock", tag = "locks",
    params(DeleteQuery),
    responses((status = 200, description = "Nothing is left of it", body = ForgottenLock), Problems))]
pub(super) async fn delete(State(house): State<Arc<House>>, uri: Uri) -> Response {
    let delete = changed(limits::REQUEST_PATIENCE, async {
        let mut query = Query::of(&uri)?;
        let name = query.text("name").ok_or(Wrong::Invalid("name", "must name a lock"))?;
        query.end()?;
        let told = locks::delete(&house, &v1::DeleteLockRequest { name: name.clone() }).await?;
        Ok((head(told.header), ForgottenLock { name }))
    });
    let told = delete.await;
    answered(&house, "delete_lock", told)
}

/// Which locks are listed.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct ListQuery {
    /// Locks whose names begin with this; all, if it is not given.
    prefix: Option<String>,
    /// At most so many; 1,000 if it is not given, or more is asked for.
    #[param(maximum = 4_294_967_295_u64)]
    limit: Option<u64>,
    /// Only names behind this one: the `next` of the page before.
    after: Option<String>,
    /// The answering member may not have heard of the newest changes.
    stale: Option<bool>,
}

/// Some of the locks that are held or waited for.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Locks {
    locks: Vec<ListedLock>,
    /// Where the next page begins, for `after`. Null if this is the last one.
    next: Option<String>,
}

/// The locks that are held or waited for
#[utoipa::path(get, path = "/v1/locks", operation_id = "list_locks", tag = "locks",
    params(ListQuery),
    responses((status = 200, description = "The locks, by name", body = Locks), Problems))]
pub(super) async fn list(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "list_locks", async {
        let mut query = Query::of(&uri)?;
        let request = v1::ListLocksRequest {
            prefix: query.text("prefix").unwrap_or_default(),
            limit: query.limit()?,
            after: query.text("after").unwrap_or_default(),
            stale: query.flag("stale")?,
        };
        query.end()?;
        let told = locks::list(&house, &request).await?;
        let locks: Vec<ListedLock> = told.locks.into_iter().map(ListedLock::from).collect();
        let next = locks.last().filter(|_| told.more).map(|last| last.name.clone());
        Ok((head(told.header), Locks { locks, next }))
    })
    .await
}

/// Which lock is shown.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct ShowQuery {
    #[param(min_length = 1)]
    name: String,
    /// Only what concerns this lease: whether it holds, or where it waits.
    #[param(pattern = "^(0x)?[0-9a-fA-F]{1,16}$")]
    lease: Option<String>,
    /// Is the lock held with this token? `is_current` says so.
    #[param(minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    token: Option<u64>,
    /// The answering member may not have heard of the newest changes.
    stale: Option<bool>,
}

/// Who holds a lock and who waits for it
///
/// Every name can be shown: a lock that nobody has ever taken is free.
#[utoipa::path(get, path = "/v1/locks/show", operation_id = "show_lock", tag = "locks",
    params(ShowQuery),
    responses((status = 200, description = "The lock as it is now", body = Lock), Problems))]
pub(super) async fn show(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "get_lock", async {
        let mut query = Query::of(&uri)?;
        let request = v1::GetLockRequest {
            name: query.text("name").ok_or(Wrong::Invalid("name", "must name a lock"))?,
            waiters_max: u32::try_from(limits::WAITERS_MAX).unwrap_or(u32::MAX),
            stale: query.flag("stale")?,
            lease_id: query.lease("lease")?,
        };
        let token = query.number("token")?;
        query.end()?;
        let told = locks::get(&house, &request).await?;
        let lock = told.lock.ok_or_else(unexpected)?;
        let token = Some(signed(token)).filter(|&token| token > 0);
        Ok((head(told.header), Lock::from(lock).compared(token)))
    })
    .await
}

/// What is explained: a lock, a lease, or why this lease waits for this lock.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct ExplainQuery {
    name: Option<String>,
    #[param(pattern = "^(0x)?[0-9a-fA-F]{1,16}$")]
    lease: Option<String>,
}

/// Why a lock is not granted.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Explained {
    /// Sentences, the most important one first.
    reasons: Vec<String>,
}

/// Why a lock is not granted
#[utoipa::path(get, path = "/v1/locks/explain", operation_id = "explain_lock", tag = "locks",
    params(ExplainQuery),
    responses((status = 200, description = "Why", body = Explained), Problems))]
pub(super) async fn explain(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "explain", async {
        let mut query = Query::of(&uri)?;
        let request = v1::ExplainRequest {
            name: query.text("name").unwrap_or_default(),
            lease_id: query.lease("lease")?,
        };
        query.end()?;
        let told = locks::explain(&house, &request).await?;
        Ok::<_, super::answer::Refusal>((head(told.header), Explained { reasons: told.reasons }))
    })
    .await
}
