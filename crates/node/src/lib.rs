//! One member of a Fencepost cluster.
//!
//! Owns: the consensus driver ([`node`]), the durable log ([`wal`]), snapshots on disk
//! ([`snapshot_store`]) and the directory that holds both ([`data_dir`]). The driver does no I/O:
//! inputs go in, outputs come out ([`io`]), and log time is counted from what it is told
//! ([`clock`]). OS calls are made in [`disk`] and nowhere else, so that all of this runs on a
//! simulated disk that crashes and lies as the caller wants. Refuses: to know what a lock is. Only
//! [`machine`] names the state machine; entries and snapshots are bytes elsewhere.

mod backup_file;
pub mod boot;
mod bytes;
pub mod clock;
pub mod config;
pub mod data_dir;
pub mod disk;
#[doc(hidden)]
pub mod fuzz;
pub mod io;
pub mod log_end;
pub mod machine;
pub mod membership;
pub mod mutant;
pub mod node;
pub mod peer;
pub mod replica;
pub mod shell;
pub mod snapshot_keeper;
pub mod snapshot_store;
pub mod store;
pub mod wal;
