//! Logs what an operator should know, and tells when the node has ended.

use fencepost_node::shell::{Ended, Notice, Observer};
use tokio::sync::oneshot;

use crate::ids::MemberId;

/// Listens to one node.
pub(super) struct Reporter {
    ended: Option<oneshot::Sender<Ended>>,
}

impl Reporter {
    pub(super) fn new(ended: oneshot::Sender<Ended>) -> Reporter {
        Reporter { ended: Some(ended) }
    }
}

impl Observer for Reporter {
    fn observe(&mut self, notices: &[Notice]) -> bool {
        for notice in notices {
            match notice {
                Notice::Role(role) if role.leads => tracing::info!(term = role.term, "leads now"),
                Notice::Role(role) => {
                    let leader = role.leader.map(|leader| MemberId(leader).to_string());
                    tracing::info!(term = role.term, leader, "follows now");
                }
                Notice::Members(members) => {
                    tracing::info!(members = members.members.len(), "the members have changed");
                }
                Notice::Installed(id) => {
                    tracing::info!(index = id.index, "took over a snapshot from another member");
                }
                Notice::Trouble(what) => tracing::warn!("{what}"),
                Notice::Waiting(what) => tracing::info!("{what}"),
                Notice::Ended(ended) => {
                    // Nobody listens any more if the process ends anyway.
                    drop(self.ended.take().map(|tell| tell.send(ended.clone())));
                }
                Notice::Applied(..) | Notice::Connected(_) => {}
            }
        }
        true
    }
}
