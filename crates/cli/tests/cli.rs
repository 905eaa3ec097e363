//! The command against real servers: every verb, every way to be wrong.

#[path = "cli/signing_keys.rs"]
mod signing_keys;
#[path = "cli/support.rs"]
mod support;

#[path = "cli/backups.rs"]
mod backups;
#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/cluster.rs"]
mod cluster;
#[path = "cli/configuration.rs"]
mod configuration;
#[path = "cli/demo.rs"]
mod demo;
#[path = "cli/dev.rs"]
mod dev;
#[path = "cli/faults.rs"]
mod faults;
#[path = "cli/file_size.rs"]
mod file_size;
#[path = "cli/help.rs"]
mod help;
#[path = "cli/herd.rs"]
mod herd;
#[path = "cli/idle.rs"]
mod idle;
#[path = "cli/keys.rs"]
mod keys;
#[path = "cli/late_release.rs"]
mod late_release;
#[path = "cli/leases.rs"]
mod leases;
#[path = "cli/limits.rs"]
mod limits;
#[path = "cli/locks.rs"]
mod locks;
#[path = "cli/logs.rs"]
mod logs;
#[path = "cli/members.rs"]
mod members;
#[path = "cli/refusals.rs"]
mod refusals;
#[path = "cli/repl.rs"]
mod repl;
#[path = "cli/resources.rs"]
mod resources;
#[path = "cli/rolling.rs"]
mod rolling;
#[path = "cli/rpc.rs"]
mod rpc;
#[path = "cli/sdk.rs"]
mod sdk;
#[path = "cli/serve.rs"]
mod serve;
#[path = "cli/store.rs"]
mod store;
#[path = "cli/store_cluster.rs"]
mod store_cluster;
#[path = "cli/watch.rs"]
mod watch;
