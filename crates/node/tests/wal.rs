//! The write-ahead log: beside a naive one, through crashes and faults, and against damage.

#[path = "wal/crash.rs"]
mod crash;
#[path = "wal/damage.rs"]
mod damage;
#[path = "wal/full_disk.rs"]
mod full_disk;
#[path = "wal/recycle.rs"]
mod recycle;
#[path = "wal/support.rs"]
mod support;
