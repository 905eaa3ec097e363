//! The cluster as somebody who stands outside sees it.

use fencepost_node::io::MemberId;
use fencepost_node::membership::Membership;

use super::World;
use crate::plan::SECOND;

/// What was done so long ago is on every disk.
const SLOWEST_SYNC: u64 = 3 * SECOND;

impl World {
    /// The members that run, in order.
    pub(super) fn running(&self) -> Vec<MemberId> {
        let running = self.members.iter().filter(|(_, member)| member.process.is_some());
        running.map(|(&id, _)| id).collect()
    }

    /// The members that run and are not paused.
    pub(super) fn awake(&self) -> Vec<MemberId> {
        let awake = self.members.iter().filter(|(_, member)| member.is_awake());
        awake.map(|(&id, _)| id).collect()
    }

    /// Who leads in the highest term.
    pub(super) fn leader(&self) -> Option<MemberId> {
        let nodes = self.members.iter().filter_map(|(&id, member)| Some((id, member.node()?)));
        let leaders = nodes.filter(|(_, node)| node.leads());
        leaders.max_by_key(|(_, node)| node.role().term).map(|(id, _)| id)
    }

    /// The voters, as far as anybody knows.
    pub(super) fn voters(&self) -> Vec<MemberId> {
        self.membership.1.voters().into_iter().collect()
    }

    /// A member says that the members have changed.
    pub(super) fn members_changed(&mut self, id: MemberId, membership: Membership) {
        let Some(node) = self.members.get(&id).and_then(|member| member.node()) else { return };
        let applied = node.machine().applied();
        let numbers = [id, applied, membership.members.len() as u64];
        let what = format_args!("n{id} knows the members: {:?}", membership.conf);
        self.trace.note(self.now, 70, &numbers, what);
        if applied >= self.membership.0 {
            self.membership = (applied, membership);
        }
    }

    /// Whether a member may lose its disk for good, so that those who are left can go on: nothing
    /// is on its way with the members, and the lost are a minority of the voters.
    pub(super) fn can_lose(&self, id: MemberId) -> bool {
        let voters = self.voters();
        let lost = voters.iter().filter(|one| !self.members[one].is_whole()).count();
        let settled = self.now < crate::plan::LAST_LOSS_AT && self.members_are_settled();
        settled && voters.contains(&id) && (lost + 1) * 2 < voters.len()
    }

    /// Whether all voters know the same members, and did so for long enough to have it on their
    /// disks. One that wakes up with an earlier list would need the votes of those who are gone.
    fn members_are_settled(&self) -> bool {
        let voters = self.membership.1.voters();
        let knows = |id: &MemberId| {
            let node = self.members.get(id).and_then(|member| member.node());
            node.is_some_and(|node| {
                node.membership().voters() == voters && !node.membership().is_joint()
            })
        };
        self.operator.is_idle_since(self.now.saturating_sub(SLOWEST_SYNC))
            && voters.iter().all(knows)
    }
}
