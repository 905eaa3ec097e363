//! One member of a Fencepost cluster.
//!
//! Owns: the durable log ([`wal`]), snapshots on disk ([`snapshot_store`]) and the directory that
//! holds both ([`data_dir`]). OS calls are made in [`disk`] and nowhere else, so that all of this
//! runs on a simulated disk that crashes and lies as the caller wants. Refuses: to know what a
//! lock is. Entries and snapshots are bytes here.

mod bytes;
pub mod data_dir;
pub mod disk;
#[doc(hidden)]
pub mod fuzz;
pub mod snapshot_store;
pub mod wal;
