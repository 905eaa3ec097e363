//! The state machine of Fencepost, as a pure function of its log.
//!
//! [`State::apply`] takes one [`Entry`] (a stamp and a batch of commands) and returns what it
//! did as data: an answer for each command and the events that watchers see. Two replicas that
//! apply the same entries are byte for byte the same, because nothing in this crate can name a
//! clock, a thread, a socket or a random number: it is `no_std`.
//!
//! The model in one paragraph. A *key* has a value and revisions, as in etcd, and may be attached
//! to a *lease*. The keys `N/<lease id in hex>` form the *queue* of lock `N`, in order of
//! `create_revision`. The longest compatible prefix of the queue *holds* the lock, the others
//! *wait*. The fencing *token* of a holder is its key's `create_revision`, so tokens grow from
//! holder to holder. A lease ends when log time reaches its deadline, and takes its keys along.
//!
//! Where to start reading: [`State`] and its `apply`, then `lock/acquire.rs`, then
//! `lock/settle.rs`, which is the only place that grants.

#![no_std]
#![warn(missing_docs)]

extern crate alloc;

pub mod codec;
pub mod command;
pub mod event;
pub mod history;
pub mod ids;
pub mod limits;
pub mod outcome;
pub mod query;
pub mod quota;
pub mod range;
pub mod scan;
pub mod signing;
pub mod text;
pub mod work;

mod audit;
mod budget;
mod kv;
mod lease;
mod lock;
mod may;
mod mutant;
mod once;
mod reason;
mod record;
mod restore;
mod shape;
mod state;
mod step;
mod timer;

pub use command::{Action, Command, Entry};
pub use event::Event;
pub use ids::{
    Actor, Boot, CallId, ClientId, Epoch, Key, LeaseId, LockName, LogTime, Millis, Namespace,
    NodeId, PublicKey, Revision, Seq, Token, Value,
};
pub use limits::Limits;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use outcome::{Outcome, Reason, Reply};
pub use record::{contended_name, contender_key, contender_key_of, lease_named_by, queue_form};
pub use restore::Restore;
pub use state::{Effects, State};
