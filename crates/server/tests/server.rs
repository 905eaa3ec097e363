//! The doors of real nodes, through the sockets that clients use. Nothing here sleeps; what is
//! waited for is an answer.

#[path = "server/calls.rs"]
mod calls;
#[path = "server/cluster.rs"]
mod cluster;
#[path = "server/followers.rs"]
mod followers;
#[path = "server/malformed.rs"]
mod malformed;
#[path = "server/port.rs"]
mod port;
#[path = "server/sessions.rs"]
mod sessions;
#[path = "server/support.rs"]
mod support;
#[path = "server/waiting.rs"]
mod waiting;
#[path = "server/watches.rs"]
mod watches;
