//! Backups, and the day when nothing else is left.

use fencepost_core::{Millis, Restore, State};
use fencepost_node::boot;
use fencepost_node::io::{Input, MemberId, RequestId};
use fencepost_node::membership::Membership;
use fencepost_node::replica::Replica;
use fencepost_node::snapshot_keeper::read_replica;
use fencepost_node::snapshot_store::SnapshotId;

use super::World;
use super::happening::{Happening, ToMember};
use super::operator::Step;
use super::start::person;
use crate::bug::WorldBug;
use crate::fault::FaultKind;
use crate::plan::{LAST_LOSS_AT, MS, SECOND};
use crate::seen::Seen;

/// What the wall clock shows when a world begins.
const UNIX_MS_AT_START: u64 = 1_795_000_000_000;

/// A copy of the state, kept where no fault reaches it.
#[derive(Clone)]
pub(super) struct Backup {
    made_at: u64,
    id: SnapshotId,
    replica: Replica,
}

impl World {
    /// Asks somebody for a backup, until there is one.
    pub(super) fn make_backup(&mut self) {
        let awake = self.awake();
        if self.backup.is_some() || self.now >= LAST_LOSS_AT {
            return;
        }
        if !awake.is_empty() {
            let id = *self.operator.dice.pick(&awake);
            let request = self.next_request();
            self.saving = Some(request);
            let told = ToMember::Told(self.members[&id].life, Input::Save(request));
            self.plan_in(MS, Happening::Member(id, told));
        }
        self.plan_in(2 * SECOND, Happening::Backup);
    }

    /// A member has saved its state: a copy of it is the backup.
    pub(super) fn saved(
        &mut self,
        id: MemberId,
        request: RequestId,
        result: Result<SnapshotId, String>,
    ) {
        let index = result.as_ref().map_or(0, |id| id.index);
        self.trace.note(
            self.now,
            90,
            &[id, request.number, index],
            format_args!("n{id} saved {result:?}"),
        );
        if self.saving != Some(request) || self.backup.is_some() {
            return;
        }
        let Some(process) = self.process(id) else { return };
        if let Ok(id) = result
            && let Ok(replica) = read_replica(&process.snapshots, id)
            && self.is_wait_short(replica.machine.state())
        {
            self.backup = Some(Backup { made_at: self.now, id, replica });
        }
    }

    /// Whether a cluster that is restored from this state with defaults grants again before the run
    /// is over: clients have lowered the largest TTL.
    fn is_wait_short(&self, state: &State) -> bool {
        state.limits().ttl_max.0 <= self.plan.workload.ttl.1
    }

    /// All members are lost at once. A cluster of one begins from the backup, and others join it.
    pub(super) fn disaster(&mut self) {
        let Some(backup) = self.backup.clone() else { return };
        self.count(FaultKind::Restore);
        self.end_stale();
        self.end_copied();
        let everyone: Vec<MemberId> = self.members.keys().copied().collect();
        for id in everyone {
            self.retire(id);
        }
        self.operator.forget();
        let first = self.new_member();
        let membership = Membership::founding(self.plan.seed + 1, [person(first)]);
        let id = backup.id;
        let replica = self.restored(backup, membership.clone());
        self.membership = (id.index, membership);
        let state = replica.machine.state();
        self.trace.note(
            self.now,
            91,
            &[id.index, id.term],
            format_args!("restored at {}", id.index),
        );
        self.watch.tell(self.now, &Seen::Restored { index: id.index, state });
        let disk = &self.members[&first].disk;
        boot::begin_with(disk, id, &replica).expect("the disk is sound");
        self.start(first);
        for _ in 1..self.plan.founders {
            let new = self.new_member();
            self.add_job([Step::Begin(new), Step::Add(new), Step::Promote(new)], true);
        }
    }

    /// What an operator without any flags gets.
    fn restored(&mut self, backup: Backup, membership: Membership) -> Replica {
        let Backup { made_at, replica, .. } = backup;
        if self.has(WorldBug::RestoreWithoutJump) {
            return Replica { membership, ..replica };
        }
        let restored_before = self.incarnation > 0;
        let jump = self.plan.restore.map_or(0, |restore| restore.wall_jump_ms);
        let jump = if restored_before { jump } else { 0 };
        let unix_ms = match self.has(WorldBug::RestoreSameBase) {
            true => UNIX_MS_AT_START,
            false => UNIX_MS_AT_START + self.now / MS + jump,
        };
        let elapsed = match self.has(WorldBug::RestoreDelayTooShort) {
            true => Millis((self.now - made_at) / MS),
            false => Millis::ZERO,
        };
        // Real ones are random. These grow, so that the world knows which is the later one.
        self.incarnation += 1;
        let incarnation = self.incarnation;
        let inputs = Restore { unix_ms, incarnation, elapsed, ..Restore::default() };
        replica.restored(membership, inputs).expect("revisions are not used up")
    }
}
