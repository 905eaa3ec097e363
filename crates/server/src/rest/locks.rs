//! Renew, release, force a release; list, show, explain.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use fencepost_core::outcome::Grant;
use fencepost_core::{Outcome, Reason};
use fencepost_proto::v1;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::acquire::Held;
use super::answer::{Told, change, head, question};
use super::numbers::{Lease, LeaseGiven, exact, exact_or_none, signed};
use super::problem::Problems;
use super::query::Query;
use super::views::{ListedLock, Lock};
use crate::error::Wrong;
use crate::grpc::locks;
use crate::house::{House, unexpected};
use crate::parse::Owner;
use crate::{limits, parse, show};

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
}

/// Keep a lock that was taken by owner name
#[utoipa::path(post, path = "/v1/locks/renew", operation_id = "renew_lock", tag = "locks",
    request_body = RenewRequest,
    responses((status = 200, description = "It is held for longer", body = Held), Problems))]
pub(super) async fn renew(State(house): State<Arc<House>>, request: Request) -> Response {
    change(&house, "renew", request, async |house, asked: RenewRequest| {
        let ttl_ms = match asked.ttl_ms {
            Some(0) => return Err(Wrong::Invalid("ttl_ms", "must not be 0").into()),
            ttl_ms => signed(ttl_ms.unwrap_or_default()),
        };
        let owner = Owner { client: &asked.client_id, ttl_ms };
        let (header, outcome) = house.act(parse::renew_as(&asked.name, &owner)?).await?;
        match outcome {
            Outcome::Renewed(grant) => Ok((header, held(asked.name, &grant))),
            Outcome::Denied(denial) => Err(denial.into()),
            // It has ended, or was never taken.
            Outcome::NotFound => Err(Reason::NotHolder.into()),
            _ => Err(unexpected().into()),
        }
    })
    .await
}

fn held(name: String, grant: &Grant) -> Held {
    Held {
        name,
        token: show::signed(grant.token.0),
        lease: Lease(grant.lease.0),
        key: show::text(&grant.key),
        remaining_ms: show::millis(grant.remaining),
    }
}

/// A lock to give back: with its `lease` and `token`, or by owner name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"name": "jobs/nightly", "client_id": "me"}),
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
    /// With `lease`: the token of the grant. Another grant of the same lease is not touched.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
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
}

/// Give a lock back
///
/// Repeating it does no harm. By owner name it also gives up a place in the queue.
#[utoipa::path(post, path = "/v1/locks/release", operation_id = "release_lock", tag = "locks",
    request_body = ReleaseRequest,
    responses((status = 200, description = "It is not held any more", body = Released), Problems))]
pub(super) async fn release(State(house): State<Arc<House>>, request: Request) -> Response {
    change(&house, "unlock", request, async |house, asked: ReleaseRequest| {
        let name = asked.name.clone();
        match (asked.lease, &asked.client_id) {
            (Some(lease), None) => release_leased(&house, asked, lease).await,
            (None, Some(client)) if asked.token.is_none() && asked.epoch.is_none() => {
                let (header, outcome) = house.act(parse::release_as(&name, client)).await?;
                let released = match outcome {
                    Outcome::Released => true,
                    Outcome::NotFound => false,
                    Outcome::Denied(denial) => return Err(denial.into()),
                    _ => return Err(unexpected().into()),
                };
                Ok((header, Released { name, released }))
            }
            (None, Some(_)) => Err(Wrong::Invalid("token", "goes with a lease").into()),
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
    Ok((head(told.header), Released { name: asked.name, released: told.released }))
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
    change(&house, "force_release", request, async |house, asked: ForceRequest| {
        let force = v1::ForceReleaseRequest {
            name: asked.name.clone(),
            fencing_token: signed(asked.token),
            reason: asked.reason,
            now: asked.now,
            signed: false,
        };
        let told = locks::force_release(&house, &force).await?;
        let (released, pending_ms) = (told.released, told.pending_ms);
        Ok((head(told.header), Forced { name: asked.name, released, pending_ms }))
    })
    .await
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
        query.end()?;
        let told = locks::get(&house, &request).await?;
        let lock = told.lock.ok_or_else(unexpected)?;
        Ok((head(told.header), Lock::from(lock)))
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
