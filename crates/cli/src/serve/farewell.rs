//! Handing leadership over before a node ends.
//!
//! Without it the others would notice the loss by themselves, and all requests would wait for that
//! long.

use std::time::Duration;

use fencepost_node::shell::{Handle, Status};

/// How long a successor may take. After that the node ends all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// Hands leadership to another voter, if this node leads and there is one that it reaches. Waits
/// until another one leads.
pub(super) fn hand_over(handle: &Handle) {
    let status = handle.status();
    let Some(successor) = successor(&status) else { return };
    handle.transfer_to(successor);
    let follows = |status: &Status| status.role.leader == Some(successor) || status.ended.is_some();
    if handle.board().wait_until(PATIENCE, follows).is_err() {
        tracing::warn!("no other member took over in time; the others will elect one");
    }
}

fn successor(status: &Status) -> Option<u64> {
    let is_reachable = |id: &u64| status.contacts.get(id).is_some_and(|one| one.is_reachable);
    let mut voters = status.members.voters().into_iter().filter(|&id| id != status.id);
    voters.find(is_reachable).filter(|_| status.role.leads)
}
