//! etcd's door: beside a real etcd, and beside native clients of the same node.

#[path = "etcd/differential.rs"]
mod differential;
#[path = "etcd/failover.rs"]
mod failover;
#[path = "etcd/generate.rs"]
mod generate;
#[path = "etcd/idle.rs"]
mod idle;
#[path = "etcd/limits.rs"]
mod limits;
#[path = "etcd/locks.rs"]
mod locks;
#[path = "etcd/real.rs"]
mod real;
#[path = "etcd/rust_client.rs"]
mod rust_client;
#[path = "etcd/scans.rs"]
mod scans;
#[path = "etcd/snapshots.rs"]
mod snapshots;
#[path = "server/support.rs"]
#[expect(dead_code, reason = "shared with the tests of the native door")]
mod support;
#[path = "etcd/unary.rs"]
mod unary;
#[path = "etcd/watches.rs"]
mod watches;
