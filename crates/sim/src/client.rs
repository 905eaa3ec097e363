//! The clients: what they want, what they are told, and what they believe.
//!
//! A client is a state machine without I/O, like the node. The world carries its calls, which may
//! be lost, doubled and late, and wakes it by its own clock, which may be fast or slow.

use fencepost_core::event::Event;
use fencepost_core::query::LockView;
use fencepost_core::{Command, LockName, Reply, Token};
use fencepost_node::io::{Class, Micros, ProposeError};
use std::sync::Arc;

mod acts;
mod agent;
mod answers;
mod counter;
mod hold;
mod job;
mod ops;
mod plan;
mod session;

pub use agent::Client;
pub use plan::WorkloadPlan;

/// Counts the clients from zero. Client `n` calls itself `c<n>` in its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientNumber(pub u32);

/// Counts the calls of one client. A call that is sent for the first time has a higher number than
/// all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallNumber(pub u64);

/// What a client asks a member for.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all requests are commands")]
pub enum Request {
    /// A command for the log.
    Command(Class, Command),
    /// The lock as it is now.
    Read(LockName),
    /// The lock as the member that is asked happens to know it.
    ReadStale(LockName),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallResult {
    /// The command was done.
    Done(Reply),
    /// The lock that was asked for.
    View(Box<LockView>),
    /// The member could not serve it. Only `Indeterminate` leaves open whether it was done.
    Failed(ProposeError),
    /// The client has given up waiting. It may have been done, and may still be.
    GaveUp,
}

/// Something that happens to a client.
#[derive(Clone, Debug)]
pub enum ClientEvent {
    /// It is time: it had asked to be woken.
    Wake,
    /// The answer to a call.
    Answered(CallNumber, CallResult),
    /// The cluster was restored from a backup: what it granted before has ended.
    Restored,
    /// Something happened to a contender of one of its leases, as the member that it talks to
    /// saw it. May be lost.
    Notified(Arc<Event>),
    /// The fenced store has answered a write with this token.
    Written(LockName, Token, bool),
}

/// Something that a client does.
#[derive(Clone, Debug)]
pub enum ClientAction {
    /// Send a call. Sending the same number and request again is a repeat.
    Call(CallNumber, Request),
    /// Talk to another member from now on.
    Reconnect,
    /// It will not wait for this call any longer.
    GiveUp(CallNumber),
    /// Be woken when its own clock shows this.
    WakeAt(Micros),
    /// Write to the fenced store. May take long.
    Write(LockName, Token),
    /// Believe something new.
    Believe(Belief),
}

/// What a client believes about one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Belief {
    /// It holds the lock until its own clock shows this, unless it learns otherwise.
    Holds {
        /// Which lock.
        lock: LockName,
        /// With which token.
        token: Token,
        /// Until when, by its own clock.
        until: Micros,
        /// Whether it holds it alone.
        exclusive: bool,
    },
    /// It does not hold the lock any more.
    HoldsNot {
        /// Which lock.
        lock: LockName,
        /// With which token it did.
        token: Token,
    },
}
