//! Decides when a snapshot is made, and lets go of the log before it.

use raft::Storage as _;
use raft::prelude::ConfState;

use super::drain::log_entry;
use super::{Node, mix};
use crate::bytes::to_u64;
use crate::io::{Output, RequestId};
use crate::machine::Machine;
use crate::mutant::Mutant;
use crate::replica::Replica;
use crate::snapshot_keeper::{NotMade, SnapshotTask, Source};
use crate::snapshot_store::SnapshotId;
use crate::wal::Start;

/// The snapshots that this node makes.
#[derive(Debug, Default)]
pub(super) struct Making {
    /// The one that is being made, and who the members are there.
    now: Option<(SnapshotId, ConfState)>,
    /// Bytes of entries that were applied since the last one was begun.
    bytes: u64,
    /// How many have failed in a row, and when to try again.
    failures: u32,
    not_before: u64,
    /// The newest one on disk cannot be read.
    base_is_lost: bool,
    /// Who wants one for a backup, and what it must cover.
    saves: Vec<(RequestId, u64)>,
    /// The one that is being made, and what is on disk: the older one and the newest.
    next: Size,
    kept: [Size; 2],
}

/// What a snapshot takes on disk, roughly.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    state: u64,
    /// The log between the one before and this one, which stays as long as the one before.
    log: u64,
}

/// While the disk is low, a snapshot is made after so many bytes of entries: few are written then.
const LOW_DISK_BYTES: u64 = 1 << 20;

/// After a failure the next try waits longer, up to so many doublings.
const DOUBLINGS_MAX: u32 = 6;

impl Making {
    /// At the start the older one is taken to be as large as the newest.
    pub(super) fn of(machine: &Machine) -> Making {
        let newest = Size { state: size(machine), log: 0 };
        Making { kept: [newest; 2], ..Making::default() }
    }

    /// A snapshot came from another member.
    pub(super) fn installed(&mut self, machine: &Machine) {
        self.next = Size { state: size(machine), log: 0 };
        self.keep_next();
    }

    fn keep_next(&mut self) {
        self.kept = [self.kept[1], self.next];
    }

    pub(super) fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The newest snapshot cannot be read. Another one is needed soon, and not made from it.
    pub(super) fn base_is_lost(&mut self) {
        self.base_is_lost = true;
    }
}

/// How large a snapshot of this state is, roughly.
fn size(machine: &Machine) -> u64 {
    let state = machine.state();
    state.used_bytes() + to_u64(state.history().bytes())
}

impl Node {
    /// An operator wants a snapshot of the state as it is now.
    pub(super) fn save(&mut self, request: RequestId) {
        self.making.saves.push((request, self.machine.applied()));
    }

    /// Begins a snapshot if it is time for one and none is being made.
    pub(super) fn make_if_due(&mut self, outputs: &mut Vec<Output>) {
        if self.making.now.is_some() || !self.snapshot_is_due() {
            return;
        }
        let index = self.machine.applied();
        if index == self.snapshot_id().index && !self.making.base_is_lost {
            self.answer_saves(&Ok(self.snapshot_id()), outputs);
            return;
        }
        let Ok(term) = self.raft.store().term(index) else { return };
        let id = SnapshotId { index, term };
        // A copy takes time away from the loop. But a small one takes less than a copy of the log, and
        // without a base the log must not grow for ever.
        let source = match self.making.base_is_lost || self.is_quickly_copied() {
            false => self.replay_since(self.snapshot_id(), id),
            true => Source::Copy(Box::new(Replica {
                machine: self.machine.clone(),
                membership: self.membership.clone(),
            })),
        };
        let mut membership = self.membership.clone();
        if self.mutant(Mutant::SnapshotForgetsMembers) {
            membership.conf = self.raft.store().snapshot_members().clone();
        }
        self.making.now = Some((id, membership.conf.clone()));
        self.making.next = Size { state: size(&self.machine), log: self.making.bytes };
        self.making.bytes = 0;
        outputs.push(Output::Snapshot(Box::new(SnapshotTask::Make { id, membership, source })));
    }

    /// Whether there is so little in the state that nobody notices when it is copied.
    fn is_quickly_copied(&self) -> bool {
        self.machine.state().sizes().sum() <= self.config.snapshot_copy_max
    }

    fn snapshot_is_due(&self) -> bool {
        // Taken in any case: whoever wants it will ask again.
        let wanted = self.raft.store().take_wanted();
        if self.ticks < self.making.not_before {
            return false;
        }
        let entries = self.machine.applied() - self.snapshot_id().index;
        // Not all members at the same entry: each has work to spare while another is at it.
        let stagger = mix(self.config.id) % (self.config.snapshot_entries / 4 + 1);
        wanted
            || self.making.base_is_lost
            || entries >= self.config.snapshot_entries + stagger
            || self.making.bytes >= self.snapshot_pays_after()
            // A shorter log is the only room that a node can make by itself.
            || self.disk_is_low && self.making.bytes >= LOW_DISK_BYTES
            || self.could_free_disk()
            || !self.making.saves.is_empty()
    }

    /// After so many bytes of entries a snapshot is worth its writing. What is written at most doubles,
    /// and a small state has a short log.
    fn snapshot_pays_after(&self) -> u64 {
        let (least, most) = self.config.snapshot_bytes;
        size(&self.machine).clamp(least, most)
    }

    /// Whether a disk that is low holds much more than a state of this size needs: what was deleted, and
    /// the log of it, take room until both snapshots are replaced. It is false once they are, so few
    /// are written.
    fn could_free_disk(&self) -> bool {
        if !self.disk_is_low {
            return false;
        }
        let [older, newest] = self.making.kept;
        let held = older.state + newest.state + newest.log + self.making.bytes;
        let needed = size(&self.machine);
        held > 2 * needed + needed / 2 + LOW_DISK_BYTES
    }

    /// Whether the leader needs an entry to make such a snapshot, because the newest covers all.
    pub(super) fn lacks_entry_to_free_disk(&self) -> bool {
        let newest = self.snapshot_id().index;
        self.could_free_disk()
            && self.making.now.is_none()
            && self.ticks >= self.making.not_before
            && self.raft.raft.raft_log.last_index() == newest
    }

    fn replay_since(&self, base: SnapshotId, id: SnapshotId) -> Source {
        let entries = base.index + 1..=id.index;
        let mut entries: Vec<_> =
            entries.filter_map(|index| self.raft.store().entry(index)).map(log_entry).collect();
        if self.mutant(Mutant::SnapshotMissesItsIndex)
            && let Some(last) = entries.last_mut()
        {
            last.data.clear();
        }
        Source::Replay { base, entries }
    }

    /// A snapshot was made, or not.
    pub(super) fn made(
        &mut self,
        id: SnapshotId,
        result: Result<(), NotMade>,
        outputs: &mut Vec<Output>,
    ) {
        let Some((_, members)) = self.making.now.take_if(|(making, _)| *making == id) else {
            return;
        };
        if let Err(NotMade { why, base_is_lost }) = result {
            if !base_is_lost {
                let pause = self.config.patience_ticks() << self.making.failures;
                self.making.not_before = self.ticks + pause;
                self.making.failures = (self.making.failures + 1).min(DOUBLINGS_MAX);
            }
            self.making.base_is_lost |= base_is_lost;
            self.answer_saves(&Err(why), outputs);
            return;
        }
        self.making.failures = 0;
        self.making.base_is_lost = false;
        self.answer_saves(&Ok(id), outputs);
        let before = self.snapshot_id();
        // One that came from another member meanwhile may be newer.
        if id.index <= before.index {
            return;
        }
        self.raft.mut_store().set_snapshot(id, members);
        self.making.keep_next();
        // The one before stays on disk in case this one is damaged, and is of no use without the
        // log from there on.
        let keep = if self.mutant(Mutant::PurgesTooMuch) { id } else { before };
        self.purge(Start { index: keep.index, term: keep.term }, outputs);
    }

    fn purge(&mut self, start: Start, outputs: &mut Vec<Output>) {
        if start.index > self.raft.store().start().index {
            self.raft.mut_store().compact(start);
            outputs.push(Output::Purge(start));
        }
    }

    fn answer_saves(&mut self, result: &Result<SnapshotId, String>, outputs: &mut Vec<Output>) {
        let covered = result.as_ref().map_or(u64::MAX, |id| id.index);
        for (request, _) in self.making.saves.extract_if(.., |(_, applied)| *applied <= covered) {
            outputs.push(Output::Saved(request, result.clone()));
        }
    }
}
