//! Changes of members, and of who leads.

use fencepost_node::io::{Input, MemberId};
use fencepost_node::membership::Standing;

use super::World;
use crate::plan::{LAST_LOSS_AT, MS};
use crate::world::happening::{Happening, ToMember};
use crate::world::operator::Step;

/// Voters that a cluster grows to at most.
const VOTERS_MAX: usize = 5;

impl World {
    /// One thing at a time: a change on top of a lost member could leave no majority.
    fn may_change(&self) -> bool {
        let whole = |id: &MemberId| self.members[id].is_whole();
        self.operator.is_idle() && self.now < LAST_LOSS_AT && self.voters().iter().all(whole)
    }

    pub(super) fn grow(&mut self) -> bool {
        if !self.may_change() || self.voters().len() >= VOTERS_MAX {
            return false;
        }
        let new = self.new_member();
        self.add_job([Step::Begin(new), Step::Add(new), Step::Promote(new)], false);
        true
    }

    /// Takes a member out, as long as enough are left that run.
    pub(super) fn shrink(&mut self, victim: Option<MemberId>) -> bool {
        let Some(victim) = victim else { return false };
        let mut left = self.voters();
        let least = if self.plan.founders == 1 { 1 } else { 2 };
        left.retain(|&id| id != victim);
        let running = left.iter().filter(|&&id| self.members[&id].process.is_some()).count();
        let known = self.membership.1.standing(victim) == Some(Standing::Voter);
        if !self.may_change() || !known || left.len() < least || running * 2 <= left.len() {
            return false;
        }
        self.add_job([Step::Remove(victim)], false);
        true
    }

    /// A new member takes the place of one that is well.
    pub(super) fn exchange(&mut self) -> bool {
        let Some(old) = self.a_running() else { return false };
        if !self.may_change() || self.membership.1.standing(old) != Some(Standing::Voter) {
            return false;
        }
        let new = self.new_member();
        let (begin, add) = (Step::Begin(new), Step::Add(new));
        // A single voter has nobody to hand over to, so it cannot be replaced in one step.
        let steps = match self.voters().len() {
            1 => vec![begin, add, Step::Promote(new), Step::Remove(old)],
            _ => vec![begin, add, Step::Replace(old, new)],
        };
        self.add_job(steps, false);
        true
    }

    pub(super) fn transfer(&mut self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let mut others = self.voters();
        others.retain(|&id| id != leader);
        if others.is_empty() {
            return false;
        }
        let to = *self.dice.faults.pick(&others);
        let told = ToMember::Told(self.members[&leader].life, Input::TransferTo(to));
        self.plan_in(MS, Happening::Member(leader, told));
        true
    }
}
