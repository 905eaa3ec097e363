//! Keys: etcd's data model, which the queues of locks are made of.

mod compact;
mod compare;
mod delete_range;
mod put;
pub(crate) mod range;
mod range_at;
mod remove;
mod txn;
mod write;

pub(crate) use txn::{Path, check_repeats};
