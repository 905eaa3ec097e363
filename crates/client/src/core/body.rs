//! What a request says, kept for as long as it may have to be said again.
//!
//! Almost every request is sent once. So what is kept is what the frame is made from, shared with
//! whoever asked, and not a second copy of the frame.

use std::sync::Arc;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use super::io::{LockSpec, Mode};
use super::time::wire_ms;

#[derive(Debug)]
pub(super) enum Body {
    Acquire(Arc<LockSpec>, Under, i64),
    Release(Arc<[String]>, Under, i64),
    Other(Box<Request>),
}

/// The lease that a request is made under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Under {
    pub(super) id: i64,
    pub(super) epoch: u64,
}

impl From<Request> for Body {
    fn from(request: Request) -> Body {
        Body::Other(Box::new(request))
    }
}

impl Body {
    /// For a frame.
    pub(super) fn to_wire(&self) -> Request {
        match self {
            Body::Acquire(spec, under, timeout_ms) => {
                Request::Acquire(acquire(spec, *under, *timeout_ms))
            }
            Body::Release(names, under, token) => Request::Release(pb::SessionRelease {
                names: names.to_vec(),
                lease_id: under.id,
                lease_epoch: under.epoch,
                fencing_token: *token,
            }),
            Body::Other(request) => (**request).clone(),
        }
    }

    /// Whether its answer need not be current.
    pub(super) fn is_stale_read(&self) -> bool {
        let Body::Other(request) = self else { return false };
        match &**request {
            Request::GetLock(get) => get.stale,
            Request::Range(range) => range.stale,
            _ => false,
        }
    }
}

fn acquire(spec: &LockSpec, under: Under, timeout_ms: i64) -> pb::SessionAcquire {
    let (mode, permits) = match spec.mode {
        Mode::Exclusive => (pb::LockMode::Exclusive, 0),
        Mode::Shared => (pb::LockMode::Shared, 0),
        Mode::Permits(permits) => (pb::LockMode::Permit, permits),
    };
    let wanted = |name: &String| pb::LockWanted { name: name.clone(), mode: mode.into(), permits };
    let terms = pb::LockTerms {
        value: spec.value.clone(),
        lock_delay_ms: wire_ms(spec.lock_delay),
        budget_ms: wire_ms(spec.budget),
        hold_max_ms: wire_ms(spec.hold_max),
    };
    pb::SessionAcquire {
        locks: spec.names.iter().map(wanted).collect(),
        lease_id: under.id,
        lease_epoch: under.epoch,
        metadata: spec.metadata.clone(),
        timeout_ms,
        terms: Some(terms),
        signed: spec.signed,
        signed_if_possible: spec.signed_if_possible,
    }
}
