//! A member's process ends: killed, without power, or for good.

use std::collections::{BTreeMap, VecDeque};

use fencepost_node::disk::{Crash, Fault, MemoryDisk, NamesKept, WritesKept};
use fencepost_node::io::{Input, MemberId, ProposeError, RequestId};
use fencepost_node::node::Node;
use fencepost_node::snapshot_keeper::{SnapshotKeeper, SnapshotTask};

use super::World;
use super::happening::{Happening, Life, ToMember};
use super::member::{Asked, Fate, Process, Trap};
use super::network::End;
use crate::client::CallResult;
use crate::dice::Dice;
use crate::plan::{HEAL_AT, MS, SECOND};

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The process stops in good order, and closes its log.
    Stopped,
    /// The process is killed; the system keeps what was written.
    Killed,
    /// The machine has no power: what was not synced may be gone.
    PowerCut,
}

impl World {
    /// Ends a process, and starts it again after a while.
    pub(super) fn crash(&mut self, id: MemberId, ending: Ending) {
        self.end_process(id, ending);
        let heals = self.now >= HEAL_AT;
        let dice = &mut self.dice.faults;
        let down = match dice.roll(3) {
            _ if heals => dice.roll(300 * MS),
            0 => 0,
            1 => dice.roll(2 * SECOND),
            _ => dice.roll(10 * SECOND),
        };
        self.plan_in(down, Happening::Start(id));
    }

    /// Ends a process. Its disk is what the next one will find.
    pub(super) fn end_process(&mut self, id: MemberId, ending: Ending) {
        let now = self.now;
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(process) = member.process.take() else { return };
        self.trace.note(now, 3, &[id, ending as u64], format_args!("n{id} ends: {ending:?}"));
        member.life = Life(member.life.0 + 1);
        member.paused = None;
        member.trap = None;
        let dice = &mut self.dice.disk;
        let Process { node, wal, keeper, tasks, asked, keeper_works, .. } = process;
        match ending {
            Ending::Stopped => {
                // What the writer had not taken yet was never promised. A log that cannot be
                // closed any more is one that was not closed.
                drop(wal.close_at(member.boot, node.commit(), node.lacking()));
                member.disk = member.disk.kill();
            }
            Ending::Killed => member.disk = member.disk.kill(),
            Ending::PowerCut => {
                if keeper_works {
                    die_in_a_task(keeper, tasks, &member.disk, dice);
                }
                let how = draw_crash(&member.disk, dice);
                member.disk = member.disk.crash(how);
            }
        }
        self.hang_up(id, &asked);
        self.tell_refused(id);
    }

    /// A process stands still, and its connections break.
    pub(super) fn hang_up_on(&mut self, id: MemberId) {
        let Some(process) = self.process(id) else { return };
        let asked = std::mem::take(&mut process.asked);
        self.hang_up(id, &asked);
        self.tell_refused(id);
    }

    /// The connections of a dead process break. Some clients notice at once, others wait.
    fn hang_up(&mut self, id: MemberId, asked: &BTreeMap<RequestId, Asked>) {
        for asked in asked.values() {
            if self.dice.clients.roll(2) == 0 {
                let (client, call) = asked.whose();
                let result = CallResult::Failed(ProposeError::Indeterminate);
                self.answer(id, client, call, result);
            }
        }
    }

    /// Those who followed it are refused a connection, and stand for election in turns.
    fn tell_refused(&mut self, gone: MemberId) {
        let follow = |node: &Node| node.role().leader == Some(gone);
        let followers: Vec<(MemberId, Life)> = self
            .members
            .iter()
            .filter(|(_, member)| member.node().is_some_and(follow))
            .map(|(&id, member)| (id, member.life))
            .collect();
        for (id, life) in followers {
            let cut = self.network.is_cut((End::Member(id), End::Member(gone)));
            if !cut && self.dice.faults.roll(2) == 0 {
                let after = self.dice.faults.between(MS, 100 * MS);
                let told = ToMember::Told(life, Input::Gone(gone));
                self.plan_in(after, Happening::Member(id, told));
            }
        }
    }

    /// The log cannot be written: the process must end, and may be started again.
    pub(super) fn fatal(&mut self, id: MemberId) {
        let Some(member) = self.members.get(&id) else { return };
        let Some(trap) = member.trap.filter(|_| member.is_trapped()) else {
            self.watch.broken("disk", format!("member {id}: a sound disk was called broken"));
            return;
        };
        let ending = if trap.kills { Ending::PowerCut } else { Ending::Killed };
        self.crash(id, ending);
    }

    /// A member's disk is gone. It never comes back; somebody else takes its place.
    pub(super) fn lose(&mut self, id: MemberId) {
        self.end_process(id, Ending::Killed);
        let Some(member) = self.members.get_mut(&id) else { return };
        member.fate = Fate::Lost;
        self.trace.note(self.now, 4, &[id], format_args!("n{id} is lost"));
        self.replace_lost(id);
    }

    /// A member that was taken out stops.
    pub(super) fn retire(&mut self, id: MemberId) {
        self.end_process(id, Ending::Killed);
        if let Some(member) = self.members.get_mut(&id) {
            member.fate = Fate::Retired;
        }
    }

    /// Makes a disk operation of a member fail, some operations from now.
    pub(super) fn set_trap(&mut self, id: MemberId, fault: Fault) {
        let ahead = self.dice.disk.between(1, 30);
        let Some(member) = self.members.get_mut(&id) else { return };
        let operation = member.disk.operations() + ahead;
        member.disk.fail_at(operation, fault);
        member.trap = Some(Trap { operation, kills: fault == Fault::Die });
    }
}

/// The power may fail in the middle of the present snapshot task.
fn die_in_a_task(
    mut keeper: SnapshotKeeper<MemoryDisk>,
    mut tasks: VecDeque<SnapshotTask>,
    disk: &MemoryDisk,
    dice: &mut Dice,
) {
    if dice.roll(2) == 0
        && let Some(task) = tasks.pop_front()
    {
        disk.fail_at(disk.operations() + dice.between(1, 12), Fault::Die);
        // What it answers, nobody hears any more.
        drop(keeper.perform(task));
    }
}

/// What a power cut leaves, in all the ways that a disk can choose.
fn draw_crash(disk: &MemoryDisk, dice: &mut Dice) -> Crash {
    let unsynced = disk.unsynced();
    let count = unsynced.len() as u64;
    let first = dice.roll(count + 1);
    let at = usize::try_from(first).unwrap_or(0);
    let writes = match dice.roll(5) {
        0 => WritesKept::None,
        1 => WritesKept::All,
        2 => WritesKept::First(at),
        3 => {
            let len = unsynced.get(at).map_or(1, |write| write.len.max(1));
            let bytes = usize::try_from(dice.roll(len)).unwrap_or(0);
            WritesKept::Torn { whole: at, bytes }
        }
        _ => WritesKept::Sectors(dice.number()),
    };
    let names = match dice.roll(4) {
        0 => NamesKept::None,
        1 => NamesKept::All,
        2 => {
            let first = dice.roll(disk.unsynced_names() as u64 + 1);
            NamesKept::First(usize::try_from(first).unwrap_or(0))
        }
        _ => NamesKept::Chosen(dice.number()),
    };
    Crash { writes, names }
}
