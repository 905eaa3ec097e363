//! The two workers beside a node: its log writer and its snapshot keeper.
//!
//! The log writer takes everything that waits, appends it, syncs once, and then says how far all
//! is durable. What comes meanwhile waits for the next round. The keeper does one task at a time.

use fencepost_core::Mutant;
use fencepost_node::io::{Input, MemberId};
use fencepost_node::snapshot_keeper::{NotMade, SnapshotDone, SnapshotTask, Source, read_replica};
use fencepost_node::wal::Fatal;

use super::World;
use super::happening::{Happening, ToMember};
use super::member::{Ahead, Process, Write};
use crate::bug::{Bug, WorldBug};

impl World {
    /// Lets both workers begin with what waits for them.
    pub(super) fn wake_workers(&mut self, id: MemberId) {
        self.wake_writer(id);
        self.wake_keeper(id);
    }

    fn wake_writer(&mut self, id: MemberId) {
        let goes_ahead = self.plan.goes_ahead;
        let Some(process) = self.process(id) else { return };
        if process.syncing.is_some() || process.writes.is_empty() {
            return;
        }
        let goes_ahead = goes_ahead && process.may_go_ahead();
        match process.write_all() {
            Ok(None) => {}
            Ok(Some(number)) => {
                process.syncing = Some(number);
                let life = self.members[&id].life;
                let takes = self.sync_time(id);
                self.plan_in(takes, Happening::Member(id, ToMember::Synced(life)));
                if goes_ahead {
                    self.go_ahead(id, number);
                }
            }
            Err(_) => self.fatal(id),
        }
    }

    /// Lets a member that is alone work out what follows from what its disk is at.
    fn go_ahead(&mut self, id: MemberId, number: u64) {
        let (now, tells) = (self.now, self.has(WorldBug::ToldAhead));
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(process) = &mut member.process else { return };
        let before = process.node.machine().applied();
        let outputs = process.node.handle(member.clock.local(now), Input::Persisted(number));
        if tells {
            return self.come_of(id, before, outputs);
        }
        process.ahead = Some(Ahead { before, outputs, backlog: Vec::new() });
    }

    fn sync_time(&mut self, id: MemberId) -> u64 {
        let (low, high) = self.plan.disk.sync;
        let (until, slow) = self.members[&id].slow_disk;
        let takes = self.dice.disk.between(low, high);
        if self.now < until { takes + self.dice.disk.between(slow / 2, slow) } else { takes }
    }

    /// The log writer has done its round.
    pub(super) fn synced(&mut self, id: MemberId) {
        let skips = self.has(WorldBug::SyncSkipped);
        let ignores = self.has(WorldBug::SyncErrorIgnored);
        let Some(process) = self.process(id) else { return };
        let synced = if skips { Ok(()) } else { process.wal.sync() };
        let Some(number) = process.syncing.take() else { return };
        match synced {
            Err(Fatal::Io { .. } | Fatal::Poisoned { .. }) if ignores => {}
            Err(_) => return self.fatal(id),
            Ok(()) => {}
        }
        match process.ahead.take() {
            None => self.input(id, Input::Persisted(number)),
            Some(Ahead { before, outputs, backlog }) => {
                let life = self.members[&id].life;
                self.come_of(id, before, outputs);
                for input in backlog {
                    if self.members[&id].life == life {
                        self.input(id, input);
                    }
                }
            }
        }
    }

    fn wake_keeper(&mut self, id: MemberId) {
        let Some(process) = self.process(id) else { return };
        if process.keeper_works {
            return;
        }
        let Some(task) = process.tasks.front() else { return };
        let is_long = matches!(task, SnapshotTask::Make { .. } | SnapshotTask::Load { .. });
        process.keeper_works = true;
        let life = self.members[&id].life;
        let most = if is_long { self.plan.disk.snapshot_max } else { 1_000 };
        let takes = self.dice.disk.between(100, most);
        self.plan_in(takes, Happening::Member(id, ToMember::Kept(life)));
    }

    /// The snapshot keeper has done its task.
    pub(super) fn kept(&mut self, id: MemberId) {
        let bug = match self.bug {
            Some(Bug::Core(mutant)) => Some(mutant),
            _ => None,
        };
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(process) = &mut member.process else { return };
        process.keeper_works = false;
        let Some(task) = process.tasks.pop_front() else { return };
        // The log begins anew after a snapshot from another member.
        if let SnapshotTask::Load { id, .. } = &task {
            member.sound_from = member.sound_from.max(id.index);
        }
        let done = match bug {
            None => process.keeper.perform(task),
            Some(mutant) => process.perform_with(mutant, task),
        };
        let member = &self.members[&id];
        if member.trap.is_some_and(|trap| trap.kills) && member.is_trapped() {
            return self.fatal(id);
        }
        self.input(id, Input::Snapshot(done));
    }

    pub(super) fn process(&mut self, id: MemberId) -> Option<&mut Process> {
        self.members.get_mut(&id)?.process.as_mut()
    }
}

impl Process {
    /// Whether it has worked out what follows from what its disk is at.
    pub(super) fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Leaves what has come while its disk was busy.
    pub(super) fn forget_backlog(&mut self) {
        self.ahead.iter_mut().for_each(|ahead| ahead.backlog.clear());
    }

    /// Whether what follows from the writes that wait may be worked out before they are durable.
    fn may_go_ahead(&self) -> bool {
        let is_plain = |write: &Write| matches!(write, Write::Persist(it) if it.is_plain());
        self.node.leads() && self.node.is_alone() && self.writes.iter().all(is_plain)
    }

    /// Appends all that waits. Says how far all is durable after the next sync.
    fn write_all(&mut self) -> Result<Option<u64>, Fatal> {
        let mut highest = None;
        for write in self.writes.drain(..) {
            match write {
                Write::Persist(persist) => {
                    self.wal.append(&persist.batch())?;
                    highest = Some(persist.number);
                }
                Write::Purge(start) => self.wal.purge(start)?,
            }
        }
        // A spare is made beside the log, so that it may come later than the log needs it.
        if let Some(order) = self.spare.take() {
            self.wal.put_spare(order.make());
        }
        self.spare = self.wal.order_spare();
        Ok(highest)
    }

    /// Carries out a task with a bug planted in the states that it works on. Snapshots carry no
    /// bugs: without this, a member with one would differ from its own snapshots, and every bug
    /// would be caught by that alone.
    fn perform_with(&mut self, mutant: Mutant, task: SnapshotTask) -> SnapshotDone {
        let task = match task {
            SnapshotTask::Make { id, membership, source: Source::Replay { base, entries } } => {
                let lost = |why| SnapshotDone::Made(id, Err(NotMade { why, base_is_lost: true }));
                let mut replica = match read_replica(&self.snapshots, base) {
                    Ok(replica) => replica,
                    Err(why) => return lost(why),
                };
                replica.machine.plant(mutant);
                for entry in &entries {
                    if let Err(why) = replica.machine.replay(entry) {
                        return lost(why);
                    }
                }
                SnapshotTask::Make { id, membership, source: Source::Copy(Box::new(replica)) }
            }
            task => task,
        };
        match self.keeper.perform(task) {
            SnapshotDone::Loaded(id, Ok(mut replica)) => {
                replica.machine.plant(mutant);
                SnapshotDone::Loaded(id, Ok(replica))
            }
            done => done,
        }
    }
}
