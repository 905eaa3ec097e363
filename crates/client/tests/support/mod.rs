//! A small but honest model of the service, as `docs/session.md` describes it.
//!
//! Owns: leases, queues, tokens, repeats, watches, in one thread and with time as an input. Knows
//! nothing of clusters: a leader change is every stream breaking, and time standing still.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod claims;
pub(crate) mod door;
mod framed;
pub(crate) mod grpc;
pub(crate) mod keys;
pub(crate) mod store;
