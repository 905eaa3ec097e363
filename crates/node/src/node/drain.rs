//! Takes what the consensus engine has ready: the order here is what keeps the cluster safe.

use raft::prelude::{ConfChangeV2, Entry, EntryType};
use raft::{INVALID_ID, Ready};

use super::Node;
use super::spare::Spare;
use crate::io::{Output, Persist, Role};
use crate::machine::LogTime;
use crate::mutant::Mutant;
use crate::wal::{self, HardState, Start};

impl Node {
    /// Takes everything that is ready, until nothing is.
    pub(super) fn drain(&mut self, outputs: &mut Vec<Output>) {
        while self.raft.has_ready() && !self.halted && self.installing.is_none() {
            let ready = self.raft.ready();
            self.take_ready(ready, outputs);
            self.note_role(outputs);
        }
        if self.is_resigning && !self.halted {
            self.resign(outputs);
        }
        self.serve_reads(outputs);
    }

    fn take_ready(&mut self, mut ready: Ready, outputs: &mut Vec<Output>) {
        for read in ready.take_read_states() {
            self.reads.confirm(&read.request_ctx, read.index);
        }
        let number = ready.number();
        if !ready.snapshot().is_empty() {
            self.apply_what_is_left(outputs);
        }
        let start = match ready.snapshot() {
            none if none.is_empty() => None,
            snapshot => Some(self.install(snapshot, outputs)),
        };
        if start.is_some() {
            self.installing = Some(number);
        }
        let is_of_new_term = self.changes_term(&ready);
        let persist = self.write_down(&ready, start);
        if is_of_new_term && persist.is_some() {
            self.unsure_term = Some(number);
        }
        // A leader replicates while its own disk is still busy, but not before that disk knows its term:
        // the only voter is elected by itself, and would be elected in the same term again if it forgot.
        let mut held_back = ready.take_messages();
        if self.unsure_term.is_none() {
            self.send(std::mem::take(&mut held_back), outputs);
        }
        held_back.extend(ready.take_persisted_messages());
        let committed = ready.take_committed_entries();
        self.raft.advance_append_async(ready);
        self.held_back.push_back((number, held_back));
        match persist {
            Some(persist) => {
                self.unconfirmed.push_back((number, self.ticks));
                outputs.push(Output::Persist(persist));
            }
            None => self.release(outputs),
        }
        if self.mutant(Mutant::LeaderCountsItselfEarly) && self.leads() {
            self.raft.on_persist_ready(number);
        }
        self.unapplied.extend(committed);
        // A leader's clients wait for what it applies, a follower's leader for what it writes.
        if self.leads() {
            self.apply_what_is_left(outputs);
        }
    }

    /// Whether the term, or for whom this node has voted in it, is other than before.
    fn changes_term(&self, ready: &Ready) -> bool {
        let known = self.raft.store().hard_state();
        ready.hs().is_some_and(|new| (new.term, new.vote) != (known.term, known.vote))
    }

    /// What of this must reach the disk. It is readable in memory from here on.
    fn write_down(&mut self, ready: &Ready, start: Option<Start>) -> Option<Persist> {
        if self.mutant(Mutant::MembersChangeOnAppend) {
            self.change_members_at_once(ready.entries());
        }
        let store = self.raft.mut_store();
        store.append(ready.entries());
        if let Some(hard_state) = ready.hs() {
            store.set_hard_state(hard_state.clone());
        }
        // A commit index alone needs no sync of its own: after a restart the leader tells it
        // again. It goes along with whatever is persisted next.
        if !ready.must_sync() {
            return None;
        }
        if self.mutant(Mutant::VotesUnsynced) && ready.entries().is_empty() && start.is_none() {
            return None;
        }
        let hard_state = self.raft.store().hard_state();
        let hard_state =
            HardState { term: hard_state.term, vote: hard_state.vote, commit: hard_state.commit };
        let entries = ready.entries().iter().map(log_entry).collect();
        // As late as possible: what is not written with this batch is lost if this member crashes
        // before the next one.
        self.note_witnesses();
        let witnesses = self.changed_witnesses();
        Some(Persist { number: ready.number(), hard_state, start, entries, witnesses })
    }

    /// The disk has confirmed everything up to this number.
    pub(super) fn persisted(&mut self, number: u64, outputs: &mut Vec<Output>) {
        while self.unconfirmed.pop_front_if(|one| one.0 <= number).is_some() {}
        self.unsure_term.take_if(|unsure| *unsure <= number);
        self.release(outputs);
        // The engine holds what is not durable for not applied.
        if self.installing.take_if(|installing| *installing <= number).is_some() {
            self.raft.advance_apply_to(self.machine.applied());
        }
    }

    /// Lets go of the messages that rest only on what is durable.
    fn release(&mut self, outputs: &mut Vec<Output>) {
        let bound = match self.mutant(Mutant::MessageBeforeSync) {
            true => u64::MAX,
            false => self.unconfirmed.front().map_or(u64::MAX, |one| one.0),
        };
        let mut last = None;
        while let Some((number, messages)) = self.held_back.pop_front_if(|one| one.0 < bound) {
            self.send(messages, outputs);
            last = Some(number);
        }
        // The engine does not expect a leader that is no member.
        if let Some(number) = last
            && !self.is_resigning
        {
            self.raft.on_persist_ready(number);
        }
    }

    pub(super) fn apply_what_is_left(&mut self, outputs: &mut Vec<Output>) {
        for entry in std::mem::take(&mut self.unapplied) {
            if self.halted {
                return;
            }
            if let Err(why) = self.apply_one(&entry, outputs) {
                // Passing over what others apply would make this replica another one.
                outputs.push(Output::Halt(format!(
                    "this node stops: entry {}: {why}\n\
                     going on would make its state another one than that of the other members\n\
                     start the build that the other members run; if this is it, please report it",
                    entry.index
                )));
                self.halted = true;
            }
        }
        if self.halted {
            return;
        }
        // While a snapshot is being installed, the engine must not look at the log behind it.
        if self.installing.is_none() {
            self.raft.advance_apply_to(self.machine.applied());
        }
    }

    fn apply_one(&mut self, entry: &Entry, outputs: &mut Vec<Output>) -> Result<(), String> {
        match entry.get_entry_type() {
            EntryType::EntryNormal => {
                self.making.count(entry.data.len());
                let effects = self.apply_entry(entry).map_err(|malformed| malformed.to_string())?;
                self.check_level(&self.machine)?;
                let are_news = effects.are_news();
                self.answer_batch(entry, effects.replies, outputs);
                if are_news {
                    outputs.push(Output::Applied(entry.index, effects.events));
                }
            }
            EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
                let change = change_in(entry)?;
                let members = match self.mutant(Mutant::MembersChangeOnAppend) {
                    true => Ok(self.membership.conf.clone()),
                    false => self.raft.apply_conf_change(&change),
                };
                let members = members.map_err(|error| error.to_string())?;
                self.members_changed(entry, &change, members, outputs);
            }
        }
        Ok(())
    }

    /// What a planted bug does with changes that may never be committed.
    fn change_members_at_once(&mut self, entries: &[Entry]) {
        let is_change = |entry: &&Entry| entry.get_entry_type() != EntryType::EntryNormal;
        for change in entries.iter().filter(is_change).filter_map(|entry| change_in(entry).ok()) {
            if let Ok(members) = self.raft.apply_conf_change(&change) {
                self.take_members(&change, members);
            }
        }
    }

    /// Notices a change of leadership, and settles what depended on the old one.
    fn note_role(&mut self, outputs: &mut Vec<Output>) {
        let raft = &self.raft.raft;
        let leader = Some(raft.leader_id).filter(|&leader| leader != INVALID_ID);
        let role = Role { term: raft.term, leader, leads: self.leads() };
        if role == self.role {
            return;
        }
        let before = std::mem::replace(&mut self.role, role);
        if role.leads && (!before.leads || before.term != role.term) {
            self.take_office();
        }
        if before.leads && (!role.leads || before.term != role.term) {
            if !self.mutant(Mutant::ReplyIgnoresTerm) {
                self.abandon_batches(outputs);
            }
            self.abandon_change(outputs);
            self.giving.clear();
            self.spare = Spare::default();
        }
        if before.leader != role.leader && self.mutant(Mutant::WitnessLostOnLeaderChange) {
            self.witnesses.clear();
        }
        if before.leader != role.leader {
            self.abandon_forwards(before.leader, outputs);
        }
        outputs.push(Output::Role(role));
    }

    /// Log time goes on from the last stamp in the log, committed or not.
    fn take_office(&mut self) {
        let logged = self.raft.store().last_stamp().unwrap_or_default();
        let base = match self.mutant(Mutant::TimeStartsAnew) {
            true => LogTime::default(),
            false => logged.max(self.machine.state().now()),
        };
        self.clock.take_office(base);
        self.last_stamp = self.clock.stamp();
        if self.mutant(Mutant::DeadlinesResetByLeader) {
            self.machine.restart_leases();
        }
    }
}

/// The change that an entry holds. What has no content leaves a joint configuration.
fn change_in(entry: &Entry) -> Result<ConfChangeV2, String> {
    match entry.get_entry_type() {
        EntryType::EntryConfChangeV2 => decode::<ConfChangeV2>(&entry.data),
        _ => Err("a change of members in a form that no build writes".to_owned()),
    }
}

pub(super) fn log_entry(entry: &Entry) -> wal::Entry {
    wal::Entry {
        index: entry.index,
        term: entry.term,
        kind: u8::try_from(entry.entry_type).unwrap_or_default(),
        data: entry.data.clone(),
    }
}

fn decode<T: prost_for_raft::Message + Default>(bytes: &[u8]) -> Result<T, String> {
    T::decode(bytes).map_err(|error| error.to_string())
}
