//! Locks and leases as JSON, with the fields that the command line writes: `docs/cli.md`.

use fencepost_proto::v1;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::numbers::Lease;
use super::texts;

/// How a lock is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    /// With nobody.
    #[default]
    Exclusive,
    /// With every other one who shares.
    Shared,
    /// With others that ask for the same number of permits, up to that number.
    Permit,
}

impl From<v1::LockMode> for Mode {
    fn from(mode: v1::LockMode) -> Mode {
        match mode {
            v1::LockMode::Exclusive => Mode::Exclusive,
            v1::LockMode::Shared => Mode::Shared,
            v1::LockMode::Permit => Mode::Permit,
        }
    }
}

impl From<Mode> for v1::LockMode {
    fn from(mode: Mode) -> v1::LockMode {
        match mode {
            Mode::Exclusive => v1::LockMode::Exclusive,
            Mode::Shared => v1::LockMode::Shared,
            Mode::Permit => v1::LockMode::Permit,
        }
    }
}

/// One lock, with everyone who holds it or waits for it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Lock {
    name: String,
    mode: Mode,
    /// Only with the mode `permit`: how many may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    permits: Option<u32>,
    /// At most 1,000.
    holders: Vec<Holder>,
    /// Only if there are more than are listed: how many hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    holders_total: Option<u64>,
    /// In order; at most 1,000.
    waiters: Vec<Waiter>,
    /// Only if there are more than are listed: how many wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    waiters_total: Option<u64>,
    /// Keys in the queue that are no contenders: they block, and are never granted.
    foreign: Vec<String>,
    /// Tokens below this were taken away by an operator; 0 if none.
    fence_floor: i64,
    /// Only if a token was named: whether the lock is held with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    is_current: Option<bool>,
}

impl Lock {
    /// Says whether the lock is held with this token, if one is given.
    pub(super) fn compared(mut self, token: Option<i64>) -> Lock {
        self.is_current =
            token.map(|token| self.holders.iter().any(|holder| holder.token == token));
        self
    }
}

/// One lock of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ListedLock {
    pub(super) name: String,
    mode: Mode,
    /// Only with the mode `permit`: how many may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    permits: Option<u32>,
    /// At most 16.
    holders: Vec<Holder>,
    /// Only if there are more than are listed: how many hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    holders_total: Option<u64>,
    /// How many wait.
    waiting: u64,
    /// Keys in the queue that are no contenders: they block, and are never granted.
    foreign: Vec<String>,
    /// Tokens below this were taken away by an operator; 0 if none.
    fence_floor: i64,
}

/// Who holds a lock.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Holder {
    client: String,
    lease: Lease,
    /// The fencing token.
    token: i64,
    /// For how long it has held.
    since_ms: i64,
    /// How long its lease lives without a renewal.
    remaining_ms: i64,
    /// When that is over, in milliseconds of Unix time by this member's clock. For people: no clock
    /// decides anything.
    expires_unix_ms: i64,
    /// When it joined the queue: the same number as the token.
    create_revision: i64,
    /// When it was granted, or its key was written since.
    mod_revision: i64,
    /// How often its key was written.
    version: i64,
    /// The holder's own words. Null if they are no text.
    metadata: Option<String>,
    /// Only if the metadata is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    metadata_base64: Option<String>,
    /// Only if there is metadata that this answer has no room for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    metadata_cut: bool,
    /// Only if an operator has asked for the lock: how long this holder still has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    until_ms: Option<i64>,
}

/// Who waits for a lock.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Waiter {
    /// 1 is next.
    position: u64,
    client: String,
    lease: Lease,
    mode: Mode,
    waiting_ms: i64,
    /// When it joined the queue, which is its place in the order.
    create_revision: i64,
}

fn permits(permits: u32) -> Option<u32> {
    Some(permits).filter(|&permits| permits > 0)
}

/// How many hold, if not all are listed.
fn unlisted(lock: &v1::Lock) -> Option<u64> {
    Some(lock.holders_total).filter(|&total| total > lock.holders.len() as u64)
}

impl From<v1::Lock> for Lock {
    fn from(lock: v1::Lock) -> Lock {
        let listed = lock.waiters.len() as u64;
        let holders_total = unlisted(&lock);
        Lock {
            holders_total,
            mode: lock.mode().into(),
            name: lock.name,
            permits: permits(lock.permits),
            holders: lock.holders.into_iter().map(Holder::from).collect(),
            waiters: lock.waiters.iter().map(Waiter::from).collect(),
            waiters_total: Some(lock.waiters_total).filter(|&total| total > listed),
            foreign: lock.foreign,
            fence_floor: lock.fence_floor,
            is_current: None,
        }
    }
}

impl From<v1::Lock> for ListedLock {
    fn from(lock: v1::Lock) -> ListedLock {
        let holders_total = unlisted(&lock);
        ListedLock {
            holders_total,
            mode: lock.mode().into(),
            name: lock.name,
            permits: permits(lock.permits),
            holders: lock.holders.into_iter().map(Holder::from).collect(),
            waiting: lock.waiters_total,
            foreign: lock.foreign,
            fence_floor: lock.fence_floor,
        }
    }
}

impl From<v1::Holder> for Holder {
    fn from(holder: v1::Holder) -> Holder {
        let (metadata, metadata_base64) = texts::told(&holder.metadata);
        Holder {
            client: holder.client_id,
            lease: Lease(holder.lease_id),
            token: holder.fencing_token,
            since_ms: holder.since_ms,
            remaining_ms: holder.remaining_ms,
            expires_unix_ms: holder.expires_unix_ms,
            create_revision: holder.create_revision,
            mod_revision: holder.mod_revision,
            version: holder.version,
            metadata,
            metadata_base64,
            metadata_cut: holder.metadata_cut,
            until_ms: Some(holder.until_ms).filter(|&until| until > 0),
        }
    }
}

impl From<&v1::Waiter> for Waiter {
    fn from(waiter: &v1::Waiter) -> Waiter {
        Waiter {
            position: waiter.position,
            client: waiter.client_id.clone(),
            lease: Lease(waiter.lease_id),
            mode: waiter.mode().into(),
            waiting_ms: waiter.waiting_ms,
            create_revision: waiter.create_revision,
        }
    }
}

/// One lease.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LeaseView {
    pub(super) lease: Lease,
    client: String,
    /// The length that a renewal gives it.
    ttl_ms: i64,
    /// How long it lives without a renewal.
    remaining_ms: i64,
    /// When that is over, in milliseconds of Unix time by this member's clock. For people: no clock
    /// decides anything. Only if it runs already.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    expires_unix_ms: Option<i64>,
    /// Which grant of this lease it is.
    epoch: u64,
    /// The keys that go with it.
    keys: Vec<String>,
}

impl From<v1::Lease> for LeaseView {
    fn from(lease: v1::Lease) -> LeaseView {
        LeaseView {
            lease: Lease(lease.id),
            client: lease.client_id,
            ttl_ms: lease.ttl_ms,
            remaining_ms: lease.remaining_ms,
            expires_unix_ms: Some(lease.expires_unix_ms).filter(|&at| at > 0),
            epoch: lease.epoch,
            keys: lease.keys,
        }
    }
}
