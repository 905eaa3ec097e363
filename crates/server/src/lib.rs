//! The doors of a Fencepost node.
//!
//! Owns: the gRPC services of `fencepost.v1` with health and reflection, probes and metrics on the
//! same port, the calls that wait for a lock, and the fan-out of events to watches. Guarantees: any
//! member serves any request; every answer carries a header; every refusal has a code with a page
//! in `docs/errors`; what waits is bounded everywhere. Refuses: rules about locks, which are the
//! state's, and any change of the state except by proposing it.

mod calls;
mod duties;
mod ears;
mod error;
mod etcd;
mod grpc;
mod head;
mod house;
mod http;
mod limits;
mod metrics;
mod opening;
mod outbox;
mod parse;
mod pending;
mod reads;
mod rest;
mod serve;
mod session;
mod shares;
mod show;
mod signing;
mod wanted;
mod watch;

pub use error::{Failure, Page, page};
pub use serve::{Server, Tuning};
