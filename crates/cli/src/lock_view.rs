//! A lock as JSON, with the fields of `docs/cli.md`.

use fencepost_client::proto;
use serde::Serialize;

use crate::ids::LeaseId;

/// One lock, as `show` tells it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LockView {
    pub(crate) name: String,
    pub(crate) mode: &'static str,
    /// Only for locks that count.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) permits: u32,
    pub(crate) holders: Vec<HolderView>,
    pub(crate) waiters: Vec<WaiterView>,
    /// Only if there are more than are listed: how many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiters_total: Option<u64>,
    pub(crate) foreign: Vec<String>,
    pub(crate) fence_floor: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct HolderView {
    pub(crate) client: String,
    pub(crate) lease: LeaseId,
    pub(crate) token: i64,
    pub(crate) since_ms: i64,
    pub(crate) remaining_ms: i64,
    pub(crate) expires_unix_ms: i64,
    pub(crate) create_revision: i64,
    pub(crate) mod_revision: i64,
    pub(crate) version: i64,
    pub(crate) metadata: String,
    /// Only if an operator has asked for the lock: how long this holder still has it.
    #[serde(skip_serializing_if = "is_none_left")]
    pub(crate) until_ms: i64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct WaiterView {
    pub(crate) position: u64,
    pub(crate) client: String,
    pub(crate) lease: LeaseId,
    pub(crate) mode: &'static str,
    pub(crate) waiting_ms: i64,
    pub(crate) create_revision: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_none_left(number: &i64) -> bool {
    *number == 0
}

/// A mode in one word.
pub(crate) fn mode(mode: i32) -> &'static str {
    match proto::LockMode::try_from(mode) {
        Ok(proto::LockMode::Exclusive) => "exclusive",
        Ok(proto::LockMode::Shared) => "shared",
        Ok(proto::LockMode::Permit) => "permit",
        // Of a server that is newer than this.
        Err(_) => "unknown",
    }
}

impl From<proto::Lock> for LockView {
    fn from(lock: proto::Lock) -> LockView {
        let listed = lock.waiters.len() as u64;
        LockView {
            name: lock.name,
            mode: mode(lock.mode),
            permits: lock.permits,
            holders: lock.holders.into_iter().map(HolderView::from).collect(),
            waiters: lock.waiters.into_iter().map(WaiterView::from).collect(),
            waiters_total: Some(lock.waiters_total).filter(|&total| total > listed),
            foreign: lock.foreign,
            fence_floor: lock.fence_floor,
        }
    }
}

impl From<proto::Holder> for HolderView {
    fn from(holder: proto::Holder) -> HolderView {
        HolderView {
            client: holder.client_id,
            lease: LeaseId(holder.lease_id),
            token: holder.fencing_token,
            since_ms: holder.since_ms,
            remaining_ms: holder.remaining_ms,
            expires_unix_ms: holder.expires_unix_ms,
            create_revision: holder.create_revision,
            mod_revision: holder.mod_revision,
            version: holder.version,
            metadata: String::from_utf8_lossy(&holder.metadata).into_owned(),
            until_ms: holder.until_ms,
        }
    }
}

impl From<proto::Waiter> for WaiterView {
    fn from(waiter: proto::Waiter) -> WaiterView {
        WaiterView {
            position: waiter.position,
            client: waiter.client_id,
            lease: LeaseId(waiter.lease_id),
            mode: mode(waiter.mode),
            waiting_ms: waiter.waiting_ms,
            create_revision: waiter.create_revision,
        }
    }
}
