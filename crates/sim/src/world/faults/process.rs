//! Faults of processes and clocks.

use std::collections::VecDeque;

use fencepost_node::io::{Input, MemberId};

use super::World;
use crate::client::ClientNumber;
use crate::plan::{MS, SECOND};
use crate::world::happening::{Happening, Life};
use crate::world::member::Pause;
use crate::world::start::TICK;
use crate::world::stop::Ending;

/// As many missed ticks as a timer would pile up at most.
const TICKS_MISSED_MAX: u64 = 1_000;

impl World {
    pub(super) fn crash_one(&mut self, victim: Option<MemberId>) -> bool {
        let Some(victim) = victim else { return false };
        let killed = self.dice.faults.roll(3) == 0;
        self.crash(victim, if killed { Ending::Killed } else { Ending::PowerCut });
        true
    }

    /// The leader loses power for a moment. So will the first one that votes for another.
    pub(super) fn doom_a_voter(&mut self) -> bool {
        let Some(leader) = self.leader() else { return false };
        self.a_voter_is_doomed = true;
        self.crash_briefly(leader);
        true
    }

    /// A member has voted for a candidate.
    pub(in crate::world) fn voted(&mut self, voter: MemberId, candidate: MemberId) {
        if std::mem::take(&mut self.a_voter_is_doomed) {
            self.crash_briefly(voter);
            self.isolate(Some(candidate));
        }
    }

    fn crash_briefly(&mut self, id: MemberId) {
        self.end_process(id, Ending::PowerCut);
        let down = self.dice.faults.roll(100 * MS);
        self.plan_in(down, Happening::Start(id));
    }

    pub(super) fn power_cut(&mut self) -> bool {
        let running = self.running();
        for &id in &running {
            self.crash(id, Ending::PowerCut);
        }
        !running.is_empty()
    }

    fn pause_length(&mut self) -> u64 {
        let most = *self.dice.faults.pick(&[200 * MS, 2 * SECOND, 10 * SECOND]);
        self.dice.faults.between(10 * MS, most)
    }

    pub(super) fn pause(&mut self, victim: Option<MemberId>) -> bool {
        let length = self.pause_length();
        let Some(member) = victim.and_then(|id| self.members.get_mut(&id)) else { return false };
        if !member.is_awake() {
            return false;
        }
        member.paused = Some(Pause { since: self.now, backlog: VecDeque::new() });
        let (id, life) = (victim.unwrap_or_default(), member.life);
        self.plan_in(length, Happening::Resume(id, life));
        true
    }

    /// A paused process goes on: it finds its timer and everything that came meanwhile.
    pub(in crate::world) fn resume(&mut self, id: MemberId, life: Life) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.life != life {
            return;
        }
        let Some(pause) = member.paused.take() else { return };
        let missed = ((self.now - pause.since) / TICK).min(TICKS_MISSED_MAX);
        let what = format_args!("n{id} goes on after {missed} ticks");
        self.trace.note(self.now, 102, &[id, missed], what);
        let piled = if self.plan.ticks_pile_up { missed } else { 0 };
        for _ in 0..piled {
            self.input(id, Input::Tick);
        }
        for what in pause.backlog {
            self.reach_member(id, what);
        }
    }

    pub(super) fn pause_client(&mut self) -> bool {
        let clients = u64::from(self.plan.workload.clients);
        let at = usize::try_from(self.dice.faults.roll(clients)).unwrap_or(0);
        let length = self.pause_length();
        if self.seats[at].paused.is_some() {
            return false;
        }
        self.seats[at].paused = Some(VecDeque::new());
        let number = ClientNumber(u32::try_from(at).unwrap_or(0));
        self.plan_in(length, Happening::ResumeClient(number));
        true
    }

    pub(super) fn jump_wall(&mut self) -> bool {
        let Some(victim) = self.a_running() else { return false };
        let hour = 3_600_000;
        let jump = self.dice.faults.roll(2 * hour);
        let Some(member) = self.members.get_mut(&victim) else { return false };
        // Up to an hour ahead, or up to an hour back.
        member.wall_ahead = (member.wall_ahead + jump).saturating_sub(hour);
        true
    }
}
