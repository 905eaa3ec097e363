//! A data directory that is copied, so that two processes of one member exist.
//!
//! The first process stands still, as a virtual machine does that was suspended, while one from the
//! copy votes and confirms in its place. Then the second is cut off and the first goes on. Whatever it
//! would vote for or confirm now, the other may have promised otherwise: it must stop before.

use fencepost_node::disk::MemoryDisk;
use fencepost_node::io::{MemberId, PeerMessage};

use super::World;
use crate::fault::FaultKind;
use crate::plan::{LAST_LOSS_AT, MS, SECOND};
use crate::seen::Seen;
use crate::world::clock::Clock;
use crate::world::happening::{Happening, Life, ToMember};
use crate::world::member::Process;
use crate::world::stop::Ending;

/// By then the first process has met the others again.
const MEETING: u64 = 1_500 * MS;

/// A data directory that was copied.
pub(in crate::world) struct Copied {
    victim: MemberId,
    /// What does not run at the moment.
    aside: Aside,
    /// Whether the first process goes on.
    is_back: bool,
    /// Whether one of the others has told it that there is another process.
    is_told: bool,
}

enum Aside {
    /// The first process, which stands still.
    First(Box<Process>, MemoryDisk, Clock, Life),
    /// The directory of the second one, and its last life.
    Second(MemoryDisk, Life),
}

/// A step of such a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum CopiedStep {
    /// The first process goes on.
    GoOn,
    /// It has met the others.
    Over,
}

impl World {
    /// Copies the directory of a member, suspends its process, and starts another from the copy.
    pub(super) fn copy_a_directory(&mut self) -> bool {
        let voters = self.voters();
        let is_well = |id: &MemberId| {
            let member = &self.members[id];
            let level = member.node().map_or(0, |node| node.feature_level());
            member.is_awake() && member.is_whole() && member.trap.is_none() && level == 2
        };
        if self.now >= LAST_LOSS_AT || voters.len() < 3 || !voters.iter().all(is_well) {
            return false;
        }
        let victim = *self.dice.faults.pick(&voters);
        if !self.can_lose(victim) || !self.is_idle(victim) {
            return false;
        }
        self.a_voter_is_doomed = false;
        self.network.calm();
        self.hang_up_on(victim);
        let member = self.members.get_mut(&victim).expect("it is a voter");
        let Some(process) = member.process.take() else { return false };
        let copy = member.disk.fork();
        let disk = std::mem::replace(&mut member.disk, copy);
        let aside = Aside::First(Box::new(process), disk, member.clock, member.life);
        self.copied = Some(Copied { victim, aside, is_back: false, is_told: false });
        self.start(victim);
        let wait = self.dice.faults.between(SECOND, 3 * SECOND);
        self.plan_in(wait, Happening::Copied(CopiedStep::GoOn));
        true
    }

    /// Whether a process waits for nothing, so that it can stand still.
    fn is_idle(&self, id: MemberId) -> bool {
        self.members[&id].process.as_ref().is_some_and(|process| {
            process.writes.is_empty()
                && process.tasks.is_empty()
                && process.syncing.is_none()
                && process.ahead.is_none()
                && process.spare.is_none()
                && !process.keeper_works
        })
    }

    /// Goes on with a directory that was copied.
    pub(in crate::world) fn go_on_with_copied(&mut self, step: CopiedStep) {
        let Some(&Copied { victim, is_back, is_told, .. }) = self.copied.as_ref() else { return };
        match step {
            CopiedStep::GoOn if self.others_know(victim) => self.first_goes_on(victim),
            CopiedStep::GoOn => self.end_copied(),
            CopiedStep::Over => {
                if is_back {
                    let what = format!("two processes of member {victim} go on");
                    self.watch.broken("copied-directory", what);
                } else if !is_told {
                    let what = format!("nobody tells member {victim} that it runs twice");
                    self.watch.broken("copied-directory", what);
                }
                self.end_copied();
            }
        }
    }

    /// Whether all others run, and know the second process.
    fn others_know(&self, victim: MemberId) -> bool {
        let member = &self.members[&victim];
        let knows = |id: &MemberId| {
            let other = &self.members[id];
            let info = other.node().and_then(|node| node.peer_info(victim));
            let known = info.and_then(|info| info.introduction);
            other.is_awake() && known.is_some_and(|known| known.boot == member.boot)
        };
        member.is_awake() && self.voters().iter().filter(|&&id| id != victim).all(knows)
    }

    fn first_goes_on(&mut self, victim: MemberId) {
        let life = self.members[&victim].life;
        self.end_process(victim, Ending::Killed);
        let Some(copied) = &mut self.copied else { return };
        let member = self.members.get_mut(&victim).expect("it was just stopped");
        let second = Aside::Second(member.disk.clone(), life);
        let Aside::First(process, disk, clock, life) = std::mem::replace(&mut copied.aside, second)
        else {
            return;
        };
        copied.is_back = true;
        (member.disk, member.clock, member.life) = (disk, clock, life);
        let node = &member.process.insert(*process).node;
        let index = node.machine().applied();
        let what = format_args!("n{victim} goes on beside its copy, at {index}");
        self.trace.note(self.now, 105, &[victim, index], what);
        self.watch.tell(self.now, &Seen::Started { member: victim, index });
        self.watch.tell_standing(self.now, victim, node);
        self.plan_in(0, Happening::Member(victim, ToMember::Tick(life)));
        self.connect(victim);
        self.plan_in(MEETING, Happening::Copied(CopiedStep::Over));
    }

    /// A member halts. Whether that was the first of two processes; the second goes on then.
    pub(in crate::world) fn first_has_halted(&mut self, id: MemberId) -> bool {
        if !self.copied.as_ref().is_some_and(|copied| copied.victim == id && copied.is_back) {
            return false;
        }
        self.count(FaultKind::CopiedDirectory);
        self.second_goes_on(id);
        true
    }

    fn second_goes_on(&mut self, victim: MemberId) {
        self.end_process(victim, Ending::Killed);
        let Some(copied) = &mut self.copied else { return };
        let Aside::Second(disk, life) = &copied.aside else { return };
        copied.is_back = false;
        let member = self.members.get_mut(&victim).expect("it was just stopped");
        (member.disk, member.life) = (disk.clone(), Life(life.0 + 1));
        self.plan_in(0, Happening::Start(victim));
    }

    /// One of the others says that there are two processes.
    pub(in crate::world) fn note_told(&mut self, to: MemberId, sent: &PeerMessage) {
        if let (Some(copied), PeerMessage::CopiedDirectory { .. }) = (&mut self.copied, sent) {
            copied.is_told |= copied.victim == to;
        }
    }

    /// Lets everything else go wrong again. The second process is the one that stays.
    pub(in crate::world) fn end_copied(&mut self) {
        let Some(&Copied { victim, is_back, .. }) = self.copied.as_ref() else { return };
        if is_back {
            self.second_goes_on(victim);
        }
        self.copied = None;
        self.network.storm();
    }
}
