//! The faults end, and the cluster must serve.

use fencepost_node::io::MemberId;
use fencepost_node::machine::FEATURE_LEVEL;
use fencepost_node::node::Node;

use super::World;
use super::happening::Happening;
use super::member::{Fate, Member, Process};
use super::stop::Ending;
use crate::client::ClientNumber;
use crate::plan::MS;
use crate::seen::Seen;

impl World {
    /// Ends every fault. Lost members are being replaced; all others run again.
    pub(super) fn heal(&mut self) {
        self.trace.note(self.now, 110, &[], format_args!("all faults end"));
        self.watch.tell(self.now, &Seen::Healed);
        self.end_stale();
        self.end_copied();
        self.network.heal();
        self.a_voter_is_doomed = false;
        let ids: Vec<MemberId> = self.members.keys().copied().collect();
        for id in ids {
            self.heal_member(id);
        }
        for number in 0..self.plan.workload.clients {
            self.resume_client(ClientNumber(number));
        }
    }

    fn heal_member(&mut self, id: MemberId) {
        self.upgrade_for_good(id);
        let Some(member) = self.members.get_mut(&id) else { return };
        member.slow_disk = (0, 0);
        let (life, trapped) = (member.life, member.trap.is_some());
        self.resume(id, life);
        // A disk that would fail later is exchanged for one that does not.
        if trapped {
            self.end_process(id, Ending::Killed);
        }
        let was_removed = self.membership.1.removed.contains(&id);
        if was_removed {
            self.plan_in(500 * MS, Happening::Retire(id));
        } else if self.members[&id].is_opened {
            let after = self.dice.faults.roll(300 * MS);
            self.plan_in(after, Happening::Start(id));
        }
    }

    /// The run is over: the checkers get a last look at everybody who belongs to the cluster.
    pub(super) fn end_run(&mut self) {
        self.finish_syncs();
        let belongs = |id: &MemberId| self.membership.1.standing(*id).is_some();
        let living = self.members.iter().filter(|(_, member)| member.fate == Fate::Lives);
        let nodes: Vec<(MemberId, &Node)> = living
            .filter(|(id, _)| belongs(id))
            .filter_map(|(&id, member)| Some((id, member.node()?)))
            .collect();
        for (id, node) in &nodes {
            let (applied, leads) = (node.machine().applied(), node.leads());
            let what = format_args!("n{id} ends at {applied}, leads: {leads}");
            self.trace.note(self.now, 111, &[*id, applied, u64::from(leads)], what);
        }
        let low = nodes.iter().find(|(_, node)| node.feature_level() != FEATURE_LEVEL);
        if let Some((id, node)) = low {
            let what = format!("member {id} ends with feature level {}", node.feature_level());
            self.watch.broken("level", what);
        }
        self.watch.tell(self.now, &Seen::Over { nodes: &nodes });
    }

    /// Members that have worked ahead of their disks stand where nobody has heard of yet.
    fn finish_syncs(&mut self) {
        let is_ahead = |member: &Member| member.process.as_ref().is_some_and(Process::is_ahead);
        while let Some((&id, _)) = self.members.iter().find(|(_, member)| is_ahead(member)) {
            self.process(id).into_iter().for_each(Process::forget_backlog);
            self.synced(id);
        }
    }
}
