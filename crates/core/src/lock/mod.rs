//! Locks: queues of leased keys. `settle.rs` is the only place that grants.

mod acquire;
mod acquire_as;
mod acquire_many;
mod calls;
mod cancel;
mod delete;
mod due;
mod enter;
mod force;
mod leave;
mod queue;
mod release;
mod release_as;
mod release_many;
mod renew_as;
mod settle;

use alloc::vec::Vec;

use crate::ids::{ClientId, LogTime, Token};

pub(crate) use enter::Then;
pub(crate) use queue::{Many, Queue};

/// A lock that stands free for a while after its last holder was lost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delay {
    pub(crate) until: LogTime,
    /// The client that was lost. It may come back at once: the delay protects its own work.
    pub(crate) client: ClientId,
}

/// The tokens of a lock that forced releases have fenced off.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Floor {
    /// Every token below this one.
    pub(crate) below: Token,
    /// And these, of shared holders and permits, in ascending order.
    pub(crate) tokens: Vec<Token>,
    /// When this is forgotten.
    pub(crate) until: LogTime,
}
