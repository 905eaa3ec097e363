//! The doors of a Fencepost node.
//!
//! Owns: the gRPC services of `fencepost.v1` with health and reflection, sessions without HTTP/2,
//! WebSocket, probes and metrics on the same port, JSON over TCP on one of its own, the calls that wait for a lock, and
//! the fan-out of events to watches. Guarantees: any member serves any request; every answer of gRPC
//! carries a header; every refusal has a code with a page in `docs/errors`; what waits is bounded
//! everywhere. Refuses: rules about locks, which are the state's, and any change of the state except
//! by proposing it.

mod along;
mod answer_room;
mod arrival;
mod backups;
mod booth;
mod byte_budget;
mod calls;
mod deletion;
mod duties;
mod ears;
mod error;
mod etcd;
mod framed;
#[doc(hidden)]
pub mod fuzz;
mod grpc;
mod head;
mod hosts;
mod house;
mod http;
mod json;
mod json_tcp;
mod limits;
mod metrics;
mod opening;
mod outbox;
mod owners;
mod parse;
mod pending;
mod reads;
mod request_body;
mod requests;
mod response_body;
mod rest;
mod scans;
mod seats;
mod serve;
mod session;
mod shares;
mod show;
mod signing;
mod socket;
mod startup;
#[cfg(test)]
mod test_house;
mod unary;
mod wanted;
mod watch;
mod ws;

pub use error::{Failure, Page, page};
pub use hosts::AllowedHosts;
pub use metrics::dropped_log_lines;
pub use serve::{Listeners, Server, Tuning};
pub use startup::answer_while_starting;
