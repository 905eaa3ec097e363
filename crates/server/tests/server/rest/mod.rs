//! The HTTP door, byte by byte over a socket.

mod bodies;
mod calls;
mod client;
mod holdings;
mod limits;
mod nodes;
mod waiting;
mod watches;
