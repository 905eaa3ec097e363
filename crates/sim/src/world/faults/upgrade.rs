//! Members of two builds: an older one of feature level 1, and the present one.

use fencepost_node::io::MemberId;
use fencepost_node::peer::{VERSION_HIGHEST, VERSION_LOWEST};

use super::World;
use crate::plan::{HEAL_AT, MS, SECOND};
use crate::world::happening::Happening;
use crate::world::member::Fate;
use crate::world::stop::Ending;

/// A leader may raise the level while a member is on its way back to the older build: it was there
/// a moment ago, with the newer one.
const RACE: u64 = 3 * SECOND;

impl World {
    /// The version of the peer protocol that two members speak.
    pub(in crate::world) fn version_between(&self, a: MemberId, b: MemberId) -> u32 {
        let is_old = |id| self.members.get(&id).is_some_and(|member| member.is_old);
        if is_old(a) || is_old(b) { VERSION_LOWEST } else { VERSION_HIGHEST }
    }

    /// Restarts a member with the newer build, or with the older one as long as the level is not
    /// raised.
    pub(super) fn change_a_build(&mut self) -> bool {
        let Some(victim) = self.a_running() else { return false };
        let is_old = self.members[&victim].is_old;
        let goes_back = self.raised_at.is_none() && self.dice.faults.roll(3) == 0;
        if !is_old && !goes_back {
            return false;
        }
        let ending = *self.dice.faults.pick(&[Ending::Stopped, Ending::Killed, Ending::PowerCut]);
        self.end_process(victim, ending);
        let down = self.dice.faults.roll(2 * SECOND);
        self.plan_in(down, Happening::Rebuild(victim, !is_old));
        true
    }

    /// Starts a member with another build. In the end all have the newer one.
    pub(in crate::world) fn rebuild(&mut self, id: MemberId, is_old: bool) {
        let is_old = is_old && self.now < HEAL_AT;
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.process.is_some() || member.fate != Fate::Lives {
            return;
        }
        member.is_old = is_old;
        let what = format_args!("n{id} has another build, older: {is_old}");
        self.trace.note(self.now, 105, &[id, u64::from(is_old)], what);
        self.start(id);
    }

    /// A member of the older build cannot go on after the level was raised. The operator starts the
    /// newer one. That is right only for a member that has gone back to the older build.
    pub(in crate::world) fn upgrade_if_too_old(&mut self, id: MemberId, why: &str) -> bool {
        let member = &self.members[&id];
        if !member.is_old || !why.contains("feature level") {
            return false;
        }
        // The entry may have waited in the log for a majority since before this process started.
        let proposed = member.process.as_ref().and_then(|process| {
            let entry = process.node.machine().applied() + 1;
            self.raises.get(&process.node.log_term(entry)?).copied()
        });
        if proposed.is_some_and(|proposed| member.started + RACE < proposed) {
            let what = format!("member {id} cannot apply the level that was raised");
            self.watch.broken("level", what);
        }
        self.end_process(id, Ending::Killed);
        self.upgrade_for_good(id);
        self.plan_in(100 * MS, Happening::Start(id));
        true
    }

    /// A node of the older build is not let in after the level was raised.
    pub(in crate::world) fn upgrade_newcomer(&mut self, id: MemberId) {
        if self.raised_at.is_some() && self.members[&id].is_old {
            self.upgrade_for_good(id);
            self.start(id);
        }
    }

    /// From here on a member has the newer build.
    pub(in crate::world) fn upgrade_for_good(&mut self, id: MemberId) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.is_old {
            member.is_old = false;
            self.end_process(id, Ending::Stopped);
        }
    }
}
