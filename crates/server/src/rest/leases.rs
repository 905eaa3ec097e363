//! Grant, keep alive, revoke, list, show.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use fencepost_core::command::Command;
use fencepost_core::outcome::RenewResult;
use fencepost_core::{LeaseId, Millis, Outcome, Reason};
use fencepost_node::io::Class;
use fencepost_proto::v1;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::answer::{Told, address, change, head, question};
use super::numbers::{Lease, LeaseGiven, exact, exact_or_none, signed};
use super::problem::Problems;
use super::query::Query;
use super::views::LeaseView;
use crate::error::{Failure, Wrong};
use crate::grpc::leases;
use crate::house::{House, unexpected};
use crate::{parse, show as shown};

/// A lease to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"ttl_ms": 30_000, "client_id": "me"}))]
pub(super) struct GrantRequest {
    /// How long it lives without a renewal.
    #[serde(deserialize_with = "exact")]
    #[schema(minimum = 500, maximum = 86_400_000)]
    ttl_ms: u64,
    /// Who owns it. Shown to everyone who looks.
    #[schema(max_length = 256)]
    client_id: Option<String>,
    /// The lease that is wanted; the service chooses, if it is not given.
    lease: Option<LeaseGiven>,
}

/// A lease that was made.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Granted {
    lease: Lease,
    ttl_ms: i64,
    /// When it ends without a renewal, in milliseconds of Unix time by this member's clock. For
    /// people: no clock decides anything.
    expires_unix_ms: i64,
    /// Which grant of this lease it is.
    epoch: u64,
}

/// Make a lease
#[utoipa::path(post, path = "/v1/leases/grant", operation_id = "grant_lease", tag = "leases",
    request_body = GrantRequest,
    responses((status = 200, description = "It lives from now on", body = Granted), Problems))]
pub(super) async fn grant(State(house): State<Arc<House>>, request: Request) -> Response {
    let address = address(&request);
    change(&house, "lease_grant", request, async |house, asked: GrantRequest| {
        if asked.ttl_ms == 0 {
            return Err(Wrong::Invalid("ttl_ms", "must not be 0").into());
        }
        let request = v1::LeaseGrantRequest {
            id: asked.lease.map_or(0, |lease| lease.0),
            ttl_ms: signed(asked.ttl_ms),
            client_id: asked.client_id.unwrap_or_default(),
            ..v1::LeaseGrantRequest::default()
        };
        let told = leases::grant(&house, &request, address).await?;
        let expires_unix_ms = shown::expires_unix_ms(Millis(told.ttl_ms.unsigned_abs()));
        let (lease, ttl_ms, epoch) = (Lease(told.id), told.ttl_ms, told.epoch);
        let granted = Granted { lease, ttl_ms, expires_unix_ms, epoch };
        Ok((head(told.header), granted))
    })
    .await
}

/// A lease that is meant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseRequest {
    lease: LeaseGiven,
    /// Which grant of it is meant. Any, if it is not given.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    epoch: Option<u64>,
}

/// A lease that was renewed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Renewed {
    lease: Lease,
    /// How long it lives from now on without another renewal. Count from when the request was sent.
    ttl_ms: i64,
    /// How often its locks changed. A change that the client did not cause means that it should
    /// look at its locks: one of them may be gone.
    changes: u64,
    /// Only if an operator has asked for locks of this lease: these, which a renewal does not make
    /// last longer. Those that were taken at once are not here: look at `changes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    forced: Vec<ForcedLock>,
}

/// A lock that an operator has asked for.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ForcedLock {
    name: String,
    token: i64,
    /// Stop the work under this lock within this time. Count from when the request was sent.
    must_stop_in_ms: i64,
}

/// Renew a lease
#[utoipa::path(post, path = "/v1/leases/keep-alive", operation_id = "keep_lease_alive", tag = "leases",
    request_body = LeaseRequest,
    responses((status = 200, description = "It lives for longer", body = Renewed), Problems))]
pub(super) async fn keep_alive(State(house): State<Arc<House>>, request: Request) -> Response {
    change(&house, "renew", request, async |house, asked: LeaseRequest| {
        renewed(&house, &asked).await
    })
    .await
}

async fn renewed(house: &House, asked: &LeaseRequest) -> Told<Renewed> {
    let lease = asked.lease.0;
    let epoch = asked.epoch.unwrap_or_default();
    let renewal = v1::LeaseKeepAliveRequest { id: lease, epoch, number: 0 };
    let command = Command::from(parse::renewals(&[renewal])?);
    let (header, outcome) = house.act_as(Class::Renewal, &command).await?;
    let Outcome::LeasesRenewed(mut all) = outcome else { return Err(unexpected().into()) };
    let one = all.pop().ok_or_else(unexpected)?;
    let is_gone = one.result == RenewResult::Gone;
    house.metrics.renewed(u64::from(!is_gone), u64::from(is_gone));
    match one.result {
        RenewResult::Alive { ttl, changes } => {
            let forced = forced(house, LeaseId(lease)).await?;
            let (lease, ttl_ms) = (Lease(lease), shown::millis(ttl));
            Ok((header, Renewed { lease, ttl_ms, changes, forced }))
        }
        RenewResult::Gone => Err(Reason::LeaseNotFound(LeaseId(lease)).into()),
        RenewResult::HeldTooLong => Err(Reason::HeldTooLong.into()),
    }
}

/// The locks of a lease that an operator has asked for. Its client would go on with them until it is
/// told, so an answer that does not know of the newest ones will not do.
async fn forced(house: &House, lease: LeaseId) -> Result<Vec<ForcedLock>, Failure> {
    let (_, found) = house.ask(false, move |state| state.forced_of(lease)).await?;
    let forced = found.into_iter().map(|(name, token, left)| ForcedLock {
        name: shown::text(&name),
        token: shown::signed(token.0),
        must_stop_in_ms: shown::millis(left),
    });
    Ok(forced.collect())
}

/// A lease that was ended.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Revoked {
    lease: Lease,
    /// How many keys went with it.
    keys: u64,
}

/// End a lease, and with it everything that it holds
#[utoipa::path(post, path = "/v1/leases/revoke", operation_id = "revoke_lease", tag = "leases",
    request_body = LeaseRequest,
    responses((status = 200, description = "It has ended", body = Revoked), Problems))]
pub(super) async fn revoke(State(house): State<Arc<House>>, request: Request) -> Response {
    change(&house, "lease_revoke", request, async |house, asked: LeaseRequest| {
        let (id, epoch) = (asked.lease.0, asked.epoch.unwrap_or_default());
        let told = leases::revoke(&house, &v1::LeaseRevokeRequest { id, epoch }).await?;
        Ok((head(told.header), Revoked { lease: Lease(id), keys: told.keys }))
    })
    .await
}

/// Which leases are listed.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct ListQuery {
    /// At most so many; 1,000 if it is not given, or more is asked for.
    #[param(maximum = 4_294_967_295_u64)]
    limit: Option<u64>,
    /// Only leases behind this one: the `next` of the page before.
    #[param(pattern = "^(0x)?[0-9a-fA-F]{1,16}$")]
    after: Option<String>,
}

/// Some of the leases that are alive.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Leases {
    leases: Vec<LeaseView>,
    /// Where the next page begins, for `after`. Null if this is the last one.
    next: Option<Lease>,
}

/// The leases that are alive
#[utoipa::path(get, path = "/v1/leases", operation_id = "list_leases", tag = "leases",
    params(ListQuery),
    responses((status = 200, description = "The leases, by number", body = Leases), Problems))]
pub(super) async fn list(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "list_leases", async {
        let mut query = Query::of(&uri)?;
        let request = v1::ListLeasesRequest { limit: query.limit()?, after: query.lease("after")? };
        query.end()?;
        let told = leases::list(&house, &request).await?;
        let leases: Vec<LeaseView> = told.leases.into_iter().map(LeaseView::from).collect();
        let next = leases.last().filter(|_| told.more).map(|last| last.lease);
        Ok((head(told.header), Leases { leases, next }))
    })
    .await
}

/// Which lease is shown.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct ShowQuery {
    #[param(pattern = "^(0x)?[0-9a-fA-F]{1,16}$")]
    lease: String,
}

/// One lease
#[utoipa::path(get, path = "/v1/leases/show", operation_id = "show_lease", tag = "leases",
    params(ShowQuery),
    responses((status = 200, description = "The lease as it is now", body = LeaseView), Problems))]
pub(super) async fn show(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "get_lease", async {
        let mut query = Query::of(&uri)?;
        let id = query.lease("lease")?;
        query.end()?;
        if id == 0 {
            return Err(Wrong::Invalid("lease", "must name a lease").into());
        }
        let told = leases::get(&house, &v1::GetLeaseRequest { id }).await?;
        let lease = told.lease.ok_or_else(unexpected)?;
        Ok((head(told.header), LeaseView::from(lease)))
    })
    .await
}
