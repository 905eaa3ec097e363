//! Acquire: the one call that may wait.
//!
//! It is bound to its request. If the client hangs up, or the wait is over, its place in the queue
//! is given up; and so is a grant that it was not told of.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use fencepost_core::event::Cause;
use fencepost_core::outcome::Denial;
use fencepost_core::query::Sight;
use fencepost_core::{ClientId, Key, LockName, Millis};
use fencepost_proto::v1;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::{Refusal, Told, answered, arrival, changed, head};
use super::numbers::{Lease, LeaseGiven, exact_or_none, signed};
use super::problem::{More, Problems};
use super::views::Mode;
use super::{body, texts};
use crate::arrival::Arrival;
use crate::error::{Failure, Wrong};
use crate::grpc::lock;
use crate::house::House;
use crate::parse::Owner;
use crate::wanted::Wanted;
use crate::{limits, parse, show};

/// A lock to take: under a `lease`, or by owner name with `client_id` and `ttl_ms`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"name": "jobs/nightly", "client_id": "me", "ttl_ms": 30_000}),
    json!({"name": "jobs/nightly", "lease": "2a", "wait_ms": 5_000})
))]
pub(super) struct AcquireRequest {
    #[schema(min_length = 1, max_length = 1007)]
    name: String,
    /// The owner, if there is no lease. Whoever knows this name can renew and release.
    #[schema(min_length = 1, max_length = 256)]
    client_id: Option<String>,
    /// With `client_id`: how long the lock is held without a renewal, from the grant on.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(minimum = 500, maximum = 86_400_000)]
    ttl_ms: Option<u64>,
    /// A lease of one's own, which holds the lock for as long as it lives.
    lease: Option<LeaseGiven>,
    /// With `lease`: which grant of it is meant. Any, if it is not given.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    epoch: Option<u64>,
    /// How long to wait if somebody else has it. Not at all, if it is not given.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(maximum = 2_592_000_000_u64)]
    wait_ms: Option<u64>,
    /// With `lease`: how the lock is shared. With nobody, if it is not given.
    mode: Option<Mode>,
    /// With the mode `permit`: how many may hold.
    #[schema(minimum = 1, maximum = 1_000_000)]
    permits: Option<u32>,
    /// Words of one's own, shown to everyone who looks at the lock.
    metadata: Option<String>,
    /// The same for what is no text.
    metadata_base64: Option<String>,
    /// If the holder is lost, nobody gets the lock for so long.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(maximum = 2_592_000_000_u64)]
    lock_delay_ms: Option<u64>,
    /// Holding for longer than this raises an event.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(maximum = 2_592_000_000_u64)]
    budget_ms: Option<u64>,
    /// After holding for so long, the lease is no longer renewed.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(maximum = 2_592_000_000_u64)]
    hold_max_ms: Option<u64>,
}

/// A lock that is held.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Held {
    pub(super) name: String,
    /// The fencing token: greater than that of every earlier holder. It goes along with every
    /// write to what the lock protects.
    pub(super) token: i64,
    /// The lease that holds it. One that was made for an owner ends with the lock.
    pub(super) lease: Lease,
    /// The holder's key in the queue of the lock.
    pub(super) key: String,
    /// How long it is still held. Count from when the request was sent, and from the latest answer,
    /// also if that says less than the one before.
    pub(super) remaining_ms: i64,
    /// When that is over, in milliseconds of Unix time by this member's clock. For people: no clock
    /// decides anything.
    pub(super) expires_unix_ms: i64,
    /// Only if an operator has asked for the lock: stop within this time. The same as `remaining_ms`;
    /// no renewal makes it longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) must_stop_in_ms: Option<i64>,
}

/// Take a lock
///
/// At once, or after waiting for at most `wait_ms`, in the order in which everybody came. If
/// somebody else has it, the answer is 409 with the code `lock_held`. A request that is given up
/// while it waits gives up its place.
#[utoipa::path(post, path = "/v1/locks/acquire", operation_id = "acquire_lock", tag = "locks",
    request_body = AcquireRequest,
    responses((status = 200, description = "The lock is held", body = Held), Problems))]
pub(super) async fn acquire(State(house): State<Arc<House>>, request: Request) -> Response {
    let arrival = arrival(&request);
    let told = match body::read::<AcquireRequest>(request).await {
        Ok(asked) => take(&house, asked, arrival).await,
        Err(failure) => Err(failure.into()),
    };
    answered(&house, "lock", told)
}

async fn take(house: &Arc<House>, asked: AcquireRequest, arrival: Option<Arrival>) -> Told<Held> {
    let name = asked.name.clone();
    // A lease of one's own ends with its client. An owner's would last for its whole length.
    if let (None, Some(arrival)) = (&asked.lease, arrival) {
        arrival.whole().check()?;
    }
    let wait_ms = asked.wait_ms.unwrap_or_default();
    let wanted = wanted(asked)?;
    // The wait itself is bounded by the call. This bounds what comes before and after.
    let patience = Duration::from_millis(wait_ms).saturating_add(limits::REQUEST_PATIENCE);
    changed(patience, async {
        let told = lock::begin(house, wanted).await?;
        if !told.acquired {
            return Err(denied(house, &name, told.holder).await);
        }
        let lease = parse::queue_form(&Key::from(&*told.key)).map(|(_, lease)| lease.0);
        let held = Held {
            name,
            token: told.fencing_token,
            lease: Lease(lease.unwrap_or_default()),
            key: told.key,
            remaining_ms: told.remaining_ms,
            expires_unix_ms: show::expires_unix_ms(Millis(told.remaining_ms.unsigned_abs())),
            must_stop_in_ms: None,
        };
        Ok((head(told.header), held))
    })
    .await
}

fn wanted(asked: AcquireRequest) -> Result<Wanted, Failure> {
    let metadata =
        texts::given(asked.metadata, asked.metadata_base64.as_deref(), "metadata_base64")?;
    let terms = v1::LockTerms {
        lock_delay_ms: signed(asked.lock_delay_ms.unwrap_or_default()),
        budget_ms: signed(asked.budget_ms.unwrap_or_default()),
        hold_max_ms: signed(asked.hold_max_ms.unwrap_or_default()),
        ..v1::LockTerms::default()
    };
    let request = v1::LockRequest {
        name: asked.name,
        lease_id: asked.lease.map_or(0, |lease| lease.0),
        metadata,
        timeout_ms: signed(asked.wait_ms.unwrap_or_default()),
        mode: v1::LockMode::from(asked.mode.unwrap_or_default()).into(),
        permits: asked.permits.unwrap_or_default(),
        lease_epoch: asked.epoch.unwrap_or_default(),
        terms: Some(terms),
        ..v1::LockRequest::default()
    };
    match (asked.lease, asked.client_id, asked.ttl_ms) {
        (Some(_), None, None) => Ok(parse::lock(&request)?.into()),
        (None, Some(client), Some(ttl_ms)) => {
            if asked.epoch.is_some() {
                return Err(Wrong::Invalid("epoch", "is that of a lease").into());
            }
            let owner = Owner { client: &client, ttl_ms: signed(ttl_ms) };
            Ok(parse::acquire_as(&request, &owner)?.into())
        }
        (Some(_), ..) => Err(Wrong::Invalid("lease", "goes without client_id and ttl_ms").into()),
        (None, Some(_), None) => Err(Wrong::Invalid("ttl_ms", "must go with client_id").into()),
        (None, None, _) => {
            Err(Wrong::Invalid("lease", "must be given, or client_id and ttl_ms").into())
        }
    }
}

/// How many there are, and none of them.
const NOBODY: Sight = Sight { holders_max: 0, waiters_max: 0, metadata_bytes_max: 0 };

/// Somebody else has it, or it stands free for a while after its holder was lost.
async fn denied(house: &House, name: &str, holder: String) -> Refusal {
    let name = LockName::from(name);
    let ask = house.ask(true, move |state| {
        let lock = state.look(&name, &NOBODY);
        (lock.waiting, lock.delayed_until)
    });
    let (waiting, delayed) = match ask.await {
        Ok((_, (waiting, delayed))) => (Some(waiting), delayed),
        Err(_) => (None, None),
    };
    let failure = match delayed {
        // Somebody held it when this was decided, whatever has become of that since.
        _ if !holder.is_empty() => Failure::from(Denial::Held(ClientId::from(&*holder))),
        Some(until) => Denial::Delayed(until).into(),
        // It was let go of at the very moment at which the wait was over.
        None => Wrong::WaitEnded(Some(Cause::TimedOut)).into(),
    };
    let holder = Some(holder).filter(|holder| !holder.is_empty());
    Refusal { failure, more: More { holder, waiting, ..More::default() } }
}
