//! The doors of real nodes, through the sockets that clients use. Nothing here sleeps; what is
//! waited for is an answer.

#[path = "server/booths.rs"]
mod booths;
#[path = "server/calls.rs"]
mod calls;
#[path = "server/cluster.rs"]
mod cluster;
#[path = "server/crowded.rs"]
mod crowded;
#[path = "server/elections.rs"]
mod elections;
#[path = "server/floods.rs"]
mod floods;
#[path = "server/followers.rs"]
mod followers;
#[path = "server/framed.rs"]
mod framed;
#[path = "server/framed_support.rs"]
mod framed_support;
#[path = "server/headers.rs"]
mod headers;
#[path = "server/idle.rs"]
mod idle;
#[path = "server/lost.rs"]
mod lost;
#[path = "server/malformed.rs"]
mod malformed;
#[path = "server/noise.rs"]
mod noise;
#[path = "server/numbers.rs"]
mod numbers;
#[path = "server/port.rs"]
mod port;
#[path = "server/progress.rs"]
mod progress;
#[path = "server/proxy.rs"]
mod proxy;
#[path = "server/rest/mod.rs"]
mod rest;
#[path = "server/retries.rs"]
mod retries;
#[path = "server/sessions.rs"]
mod sessions;
#[path = "server/signing.rs"]
mod signing;
#[path = "server/support.rs"]
mod support;
#[path = "server/unread.rs"]
mod unread;
#[path = "server/waiting.rs"]
mod waiting;
#[path = "server/watches.rs"]
mod watches;
