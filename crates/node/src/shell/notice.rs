//! What those who observe a node hear of it.

use std::sync::Arc;

use super::error::Ended;
use crate::io::{MemberId, Role};
use crate::machine::{Event, Machine};
use crate::membership::Membership;
use crate::snapshot_store::SnapshotId;

/// Something that happened to a node.
#[derive(Clone, Debug)]
pub enum Notice {
    /// An entry was applied, and this happened.
    Applied(u64, Vec<Arc<Event>>),
    /// The role of this node, or who leads, has changed.
    Role(Role),
    /// The members have changed.
    Members(Arc<Membership>),
    /// The whole state was replaced by a snapshot. Whatever was derived from it must be looked at
    /// anew.
    Installed(SnapshotId),
    /// A member is connected.
    Connected(MemberId),
    /// Something that an operator should know, in three lines: what, why, what to do. Told once
    /// until it has changed.
    Trouble(String),
    /// What a node that starts is waiting for.
    Waiting(String),
    /// The node has ended. Nothing comes after this.
    Ended(Ended),
}

/// Hears of what happens to a node.
pub trait Observer: Send {
    /// Takes all that happened in one turn of the loop, in order. Must not wait: the whole node
    /// would. `false` to hear no more.
    fn observe(&mut self, notices: &[Notice]) -> bool;

    /// As [`Observer::observe`], for those who want to look at the state. It is as it is at the end
    /// of the turn: what the first notices tell of may be in the past already. Before a node runs
    /// and after it has ended there is no state, and `observe` is called instead.
    fn observe_state(&mut self, notices: &[Notice], _machine: &Machine) -> bool {
        self.observe(notices)
    }
}
