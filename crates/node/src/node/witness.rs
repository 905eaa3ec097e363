//! What this member has seen the others confirm.
//!
//! Owns: for each other member its *witness*, the highest index that it was seen to have durable
//! while that entry is committed, and the last process that it introduced itself as. Guarantees: a
//! witness never exceeds what the member must still have; it grows, and outlives changes of leaders
//! and restarts. Refuses: to write by itself. A witness goes to the disk with the next batch, and
//! only when the cluster's feature level lets members read it.

use std::collections::{BTreeMap, BTreeSet};

use super::Node;
use crate::io::{Introduction, MemberId, Output};
use crate::mutant::Mutant;
use crate::wal::Witness;

/// The feature level from which on witnesses are persisted.
const PERSIST_LEVEL: u32 = 2;

/// What was seen of the other members.
#[derive(Debug, Default)]
pub(super) struct Witnesses {
    known: BTreeMap<MemberId, Witness>,
    /// Those that have changed since they were last persisted.
    changed: BTreeSet<MemberId>,
}

impl Witnesses {
    /// Those that the log had.
    pub(super) fn recovered(known: BTreeMap<MemberId, Witness>) -> Witnesses {
        Witnesses { known, changed: BTreeSet::new() }
    }

    /// The highest entry that any member was seen to have. It is committed.
    pub(super) fn highest(&self) -> u64 {
        self.known.values().map(|witness| witness.index).max().unwrap_or_default()
    }

    /// Forgets what was seen, for a planted bug.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    fn change(&mut self, id: MemberId, change: impl FnOnce(&mut Witness)) {
        let witness = self.known.entry(id).or_insert(Witness { member: id, ..Witness::default() });
        let before = *witness;
        change(witness);
        if *witness != before {
            self.changed.insert(id);
        }
    }

    fn forget(&mut self, gone: impl Fn(MemberId) -> bool) {
        let gone: Vec<MemberId> = self.known.keys().copied().filter(|&id| gone(id)).collect();
        for id in gone {
            self.known.remove(&id);
            self.changed.insert(id);
        }
    }
}

impl Node {
    /// The highest index that this member has seen another one confirm durable and committed.
    pub fn witness(&self, id: MemberId) -> u64 {
        self.witnesses.known.get(&id).map_or(0, |witness| witness.index)
    }

    /// A leader knows what each member has acknowledged in its term.
    pub(super) fn note_witnesses(&mut self) {
        if !self.leads() {
            return;
        }
        let commit = self.commit();
        let progress = self.raft.raft.prs().iter();
        let others = progress.filter(|(id, _)| **id != self.config.id);
        let seen: Vec<_> = others.map(|(id, one)| (*id, one.matched.min(commit))).collect();
        for (id, index) in seen {
            self.note_witness(id, index);
        }
    }

    /// Notes what an introduction proves of its sender.
    pub(super) fn note_introduction(&mut self, from: MemberId, introduction: &Introduction) {
        let (index, term) = (introduction.last_index, introduction.last_term);
        let log = &self.raft.raft.raft_log;
        // Equal terms at its last index: its whole log is a prefix of this one, and the committed
        // part of that is never replaced. A longer log may end in entries that are.
        let start = self.raft.store().start().index;
        let is_prefix = index >= start && log.term(index).is_ok_and(|known| known == term);
        let witnessed = if is_prefix { index.min(log.committed) } else { 0 };
        self.note_witness(from, witnessed);
        if self.membership.contains(from) {
            let Introduction { boot, boot_nonce, .. } = *introduction;
            self.witnesses.change(from, |witness| {
                if boot > witness.boot {
                    (witness.boot, witness.boot_nonce) = (boot, boot_nonce);
                }
            });
        }
    }

    fn note_witness(&mut self, id: MemberId, index: u64) {
        if self.membership.contains(id) && index > 0 {
            self.witnesses.change(id, |witness| witness.index = witness.index.max(index));
        }
    }

    /// Whether a process runs from a copy of a directory: the member has started since the copy was
    /// made, or both count the same start.
    pub(super) fn is_copy(&self, from: MemberId, introduction: &Introduction) -> bool {
        if self.mutant(Mutant::CopiedDirectoryIgnored) {
            return false;
        }
        let known = self.witnesses.known.get(&from).copied().unwrap_or_default();
        let Introduction { boot, boot_nonce, .. } = *introduction;
        boot < known.boot || boot == known.boot && boot_nonce != known.boot_nonce
    }

    /// The process that was known runs from a copy with an older log: another one counts.
    pub(super) fn forget_process(&mut self, id: MemberId) {
        self.witnesses.change(id, |witness| (witness.boot, witness.boot_nonce) = (0, 0));
    }

    /// Deletes what was seen of members that were removed.
    pub(super) fn forget_removed(&mut self) {
        let removed = &self.membership.removed;
        self.witnesses.forget(|id| removed.contains(&id));
    }

    /// What goes to the disk with the next batch.
    pub(super) fn changed_witnesses(&mut self) -> Vec<Witness> {
        if self.feature_level() < PERSIST_LEVEL {
            return Vec::new();
        }
        let known = &self.witnesses.known;
        let deleted = |member| Witness { member, ..Witness::default() };
        let changed = std::mem::take(&mut self.witnesses.changed);
        changed.into_iter().map(|id| known.get(&id).copied().unwrap_or(deleted(id))).collect()
    }

    /// What has not gone to the disk yet, for a node that stops in good order.
    pub fn last_witnesses(&mut self) -> Vec<Witness> {
        self.note_witnesses();
        self.changed_witnesses()
    }

    /// Stops this member if another one has seen it confirm more than it has.
    pub(super) fn check_witnessed(
        &mut self,
        from: MemberId,
        introduction: &Introduction,
        outputs: &mut Vec<Output>,
    ) {
        let (witnessed, last) = (introduction.witnessed, self.last_index());
        if witnessed <= last || self.mutant(Mutant::WitnessIgnored) {
            return;
        }
        let name = self.membership.members.get(&from).map_or("?", |member| &member.name);
        outputs.push(Output::Halt(format!(
            "this node stops: its log ends at entry {last}, and {name} has seen it confirm entry \
             {witnessed}\n\
             the data directory was set back to an older copy, or is a copy of one that is in use, or \
             the disk lost writes that it had confirmed\n\
             if another process of this member runs, keep that one; otherwise remove this member with `fencepost member rm`, then start it with an empty data \
             directory and --join; see docs/operations.md"
        )));
        self.halted = true;
        self.lacking = Some(witnessed);
    }

    /// The entry that this member has confirmed and its log lacks. It must not be started again.
    pub fn lacking(&self) -> Option<u64> {
        self.lacking
    }
}
