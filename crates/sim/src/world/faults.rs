//! What goes wrong, and when.

mod copied;
mod disk;
mod links;
mod members;
mod process;
mod stale;
mod upgrade;

pub(super) use copied::{Copied, CopiedStep};
pub(super) use stale::{Stale, StaleStep};

use super::World;
use super::happening::Happening;
use crate::fault::FaultKind;
use crate::plan::{HEAL_AT, MS};

impl World {
    /// Plans the faults of the run.
    pub(super) fn plan_faults(&mut self) {
        for kind in self.plan.weather.clone() {
            self.count(kind);
        }
        if let Some(restore) = self.plan.restore {
            self.plan_in(restore.backup, Happening::Backup);
            for at in [Some(restore.first), restore.second].into_iter().flatten() {
                self.plan_in(at, Happening::Disaster);
            }
        }
        if !self.plan.faults.is_empty() {
            let wait = self.next_fault();
            self.plan_in(wait, Happening::Fault);
        }
    }

    fn next_fault(&mut self) -> u64 {
        self.dice.faults.between(self.plan.fault_every / 4, self.plan.fault_every * 7 / 4)
    }

    /// Does one fault, and plans the next.
    pub(super) fn do_harm(&mut self) {
        if self.now + 500 * MS >= HEAL_AT {
            return;
        }
        let kind = *self.dice.faults.pick(&self.plan.faults);
        // While a disk is being set back or a directory is copied, nothing else goes wrong: see there.
        let is_alone = self.stale.is_none() && self.copied.is_none();
        if is_alone && self.inflict(kind) && !kind.takes_steps() {
            self.count(kind);
        }
        let wait = self.next_fault();
        self.plan_in(wait, Happening::Fault);
    }

    /// Counts a fault that was done.
    pub(super) fn count(&mut self, kind: FaultKind) {
        self.trace.note(self.now, 100, &[kind as u64], format_args!("fault: {kind:?}"));
        self.faults.count(kind);
    }

    /// Does a fault. Says whether there was anything to do it to.
    fn inflict(&mut self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::Loss | FaultKind::Duplicate | FaultKind::Delay | FaultKind::Reorder => false,
            FaultKind::Partition => self.partition(),
            FaultKind::OneWay => self.one_way(),
            FaultKind::IsolateLeader => self.isolate(self.leader()),
            FaultKind::IsolateFollower => {
                let follower = self.a_follower();
                self.isolate(follower)
            }
            FaultKind::Bridge => self.bridge(),
            FaultKind::Flap => self.flap(),
            FaultKind::SlowLink => self.slow_link(),
            FaultKind::Swizzle => self.swizzle(),
            FaultKind::Crash => {
                let victim = self.a_running();
                self.crash_one(victim)
            }
            FaultKind::CrashLeader => self.crash_one(self.leader()),
            FaultKind::PowerCut => self.power_cut(),
            FaultKind::Pause => {
                let victim = self.a_running();
                self.pause(victim)
            }
            FaultKind::PauseLeader => self.pause(self.leader()),
            FaultKind::PauseClient => self.pause_client(),
            FaultKind::SlowDisk => self.slow_disk(),
            FaultKind::DiskError => self.trap_a_disk(fencepost_node::disk::Fault::Error),
            FaultKind::DiskFull => self.trap_a_disk(fencepost_node::disk::Fault::NoSpace),
            FaultKind::DieInside => self.trap_a_disk(fencepost_node::disk::Fault::Die),
            FaultKind::BitFlip => self.flip_bits(),
            FaultKind::WallJump => self.jump_wall(),
            FaultKind::Wipe => self.wipe(),
            FaultKind::Grow => self.grow(),
            FaultKind::Shrink => {
                let victim = self.a_running();
                self.shrink(victim)
            }
            FaultKind::RemoveLeader => self.shrink(self.leader()),
            FaultKind::Replace => self.exchange(),
            FaultKind::Transfer => self.transfer(),
            FaultKind::Restore => false,
            FaultKind::CrashVoter => self.doom_a_voter(),
            FaultKind::OlderDisk => self.set_a_disk_back(),
            FaultKind::CutLog => self.cut_a_log(),
            FaultKind::Upgrade => self.change_a_build(),
            FaultKind::CopiedDirectory => self.copy_a_directory(),
        }
    }

    fn a_running(&mut self) -> Option<u64> {
        let running = self.running();
        (!running.is_empty()).then(|| *self.dice.faults.pick(&running))
    }

    fn a_follower(&mut self) -> Option<u64> {
        let leader = self.leader();
        let mut others = self.running();
        others.retain(|&id| Some(id) != leader);
        (!others.is_empty()).then(|| *self.dice.faults.pick(&others))
    }
}
