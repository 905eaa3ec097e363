//! Faults of disks.

use fencepost_node::disk::{Disk as _, Fault};
use fencepost_node::io::MemberId;

use super::World;
use crate::plan::{MS, SECOND};
use crate::world::happening::Happening;
use crate::world::stop::Ending;

/// How many bits at most go bad at once.
const FLIPS_MAX: u64 = 3;

/// The bytes of a snapshot before this say which format it has. With a bit of these turned round
/// it looks like one of a later build, and then a member is right to refuse.
const AFTER_VERSION: u64 = 12;

impl World {
    pub(super) fn slow_disk(&mut self) -> bool {
        let Some(victim) = self.a_running() else { return false };
        let length = self.dice.faults.between(SECOND, 10 * SECOND);
        let slow = *self.dice.faults.pick(&[20 * MS, 200 * MS, 2 * SECOND]);
        let Some(member) = self.members.get_mut(&victim) else { return false };
        member.slow_disk = (self.now + length, slow);
        true
    }

    pub(super) fn trap_a_disk(&mut self, fault: Fault) -> bool {
        let Some(victim) = self.a_running() else { return false };
        if self.members[&victim].trap.is_some() {
            return false;
        }
        self.set_trap(victim, fault);
        true
    }

    /// Stops a member in good order, turns bits of its files round, and starts it again. In good
    /// order: nobody can tell damage to the last record of a log from a write that was torn by a
    /// crash, so a member that crashed could come back with less than it promised.
    pub(super) fn flip_bits(&mut self) -> bool {
        if self.dice.faults.roll(3) == 0 {
            return self.spoil_a_snapshot();
        }
        let Some(victim) = self.a_voter_to_lose() else { return false };
        self.end_process(victim, Ending::Stopped);
        let disk = self.members[&victim].disk.clone();
        let names = disk.list().unwrap_or_default();
        if names.is_empty() {
            return false;
        }
        for _ in 0..self.dice.disk.between(1, FLIPS_MAX) {
            let name = self.dice.disk.pick(&names).clone();
            self.flip(victim, &name, 0);
        }
        if let Some(member) = self.members.get_mut(&victim) {
            member.is_damaged = true;
        }
        self.start_later(victim);
        true
    }

    /// Spoils the newest snapshot of a member, and nothing else. It must get along with the one
    /// before and its log: so it may not refuse, and this may happen to everybody.
    fn spoil_a_snapshot(&mut self) -> bool {
        let Some(victim) = self.a_running() else { return false };
        let member = &self.members[&victim];
        let sound_from = member.sound_from;
        let ids = member.process.as_ref().and_then(|process| process.snapshots.ids().ok());
        let ids = ids.unwrap_or_default();
        let [.., before, newest] = ids[..] else { return false };
        let first = format!("{:016x}-", newest.index);
        if before.index < sound_from || member.is_damaged {
            return false;
        }
        self.end_process(victim, Ending::Stopped);
        let names = self.members[&victim].disk.list().unwrap_or_default();
        let Some(name) = names.iter().find(|name| name.starts_with(&first)) else { return false };
        self.flip(victim, name, AFTER_VERSION);
        if let Some(member) = self.members.get_mut(&victim) {
            member.sound_from = newest.index + 1;
        }
        self.start_later(victim);
        true
    }

    /// Turns a bit round, somewhere from this byte on.
    fn flip(&mut self, victim: MemberId, name: &str, from: u64) {
        let disk = &self.members[&victim].disk;
        let size = disk.contents(name).map_or(0, |bytes| bytes.len() as u64);
        if size <= from {
            return;
        }
        let offset = self.dice.disk.between(from, size - 1);
        let bit = u32::try_from(self.dice.disk.roll(8)).unwrap_or(0);
        disk.flip(name, offset, bit);
        let what = format_args!("n{victim}: bit {bit} of byte {offset} of {name} is bad");
        self.trace.note(self.now, 103, &[victim, offset, u64::from(bit)], what);
    }

    pub(super) fn start_later(&mut self, id: MemberId) {
        let down = self.dice.faults.roll(2 * SECOND);
        self.plan_in(down, Happening::Start(id));
    }

    pub(super) fn wipe(&mut self) -> bool {
        let Some(victim) = self.a_voter_to_lose() else { return false };
        self.lose(victim);
        true
    }

    pub(super) fn a_voter_to_lose(&mut self) -> Option<MemberId> {
        let mut running = self.running();
        running.retain(|&id| self.can_lose(id));
        (!running.is_empty()).then(|| *self.dice.faults.pick(&running))
    }
}
