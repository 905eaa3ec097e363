//! Takes what the consensus engine has ready: the order here is what keeps the cluster safe.

use raft::prelude::{ConfChange, ConfChangeV2, ConfState, Entry, EntryType, Message};
use raft::{INVALID_ID, Ready};

use super::Node;
use crate::io::{Output, PeerMessage, Persist, Role};
use crate::wal::{self, HardState};

impl Node {
    /// Takes everything that is ready, until nothing is.
    pub(super) fn drain(&mut self, outputs: &mut Vec<Output>) {
        while self.raft.has_ready() && !self.halted {
            let ready = self.raft.ready();
            self.take_ready(ready, outputs);
            self.note_role(outputs);
        }
        self.serve_reads(outputs);
    }

    fn take_ready(&mut self, mut ready: Ready, outputs: &mut Vec<Output>) {
        assert!(ready.snapshot().is_empty(), "snapshots are turned away where they arrive");
        // A leader replicates while its own disk is still busy.
        send(ready.take_messages(), outputs);
        for read in ready.take_read_states() {
            self.reads.confirm(&read.request_ctx, read.index);
        }
        let number = ready.number();
        let persist = self.write_down(&ready);
        let held_back = ready.take_persisted_messages();
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
        self.apply(committed, outputs);
    }

    /// What of this must reach the disk. It is readable in memory from here on.
    fn write_down(&mut self, ready: &Ready) -> Option<Persist> {
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
        let hard_state = store.hard_state();
        let hard_state =
            HardState { term: hard_state.term, vote: hard_state.vote, commit: hard_state.commit };
        let entries = ready.entries().iter().map(log_entry).collect();
        Some(Persist { number: ready.number(), hard_state, entries })
    }

    /// The disk has confirmed everything up to this number.
    pub(super) fn persisted(&mut self, number: u64, outputs: &mut Vec<Output>) {
        while self.unconfirmed.pop_front_if(|one| one.0 <= number).is_some() {}
        self.release(outputs);
    }

    /// Lets go of the messages that rest only on what is durable.
    fn release(&mut self, outputs: &mut Vec<Output>) {
        let bound = self.unconfirmed.front().map_or(u64::MAX, |one| one.0);
        let mut last = None;
        while let Some((number, messages)) = self.held_back.pop_front_if(|one| one.0 < bound) {
            send(messages, outputs);
            last = Some(number);
        }
        if let Some(number) = last {
            self.raft.on_persist_ready(number);
        }
    }

    fn apply(&mut self, committed: Vec<Entry>, outputs: &mut Vec<Output>) {
        for entry in committed {
            if let Err(why) = self.apply_one(&entry, outputs) {
                // Passing over what others apply would make this replica another one.
                outputs.push(Output::Halt(format!("entry {}: {why}", entry.index)));
                self.halted = true;
                return;
            }
        }
        self.raft.advance_apply_to(self.machine.applied());
    }

    fn apply_one(&mut self, entry: &Entry, outputs: &mut Vec<Output>) -> Result<(), String> {
        match entry.get_entry_type() {
            EntryType::EntryNormal => {
                let effects = self
                    .machine
                    .apply(entry.index, &entry.data)
                    .map_err(|malformed| malformed.to_string())?;
                self.answer_batch(entry, effects.replies, outputs);
                if !effects.events.is_empty() {
                    outputs.push(Output::Applied(entry.index, effects.events));
                }
            }
            EntryType::EntryConfChange => {
                let change = decode::<ConfChange>(&entry.data)?;
                let members = self.raft.apply_conf_change(&change);
                self.members_changed(entry, members)?;
            }
            EntryType::EntryConfChangeV2 => {
                let change = decode::<ConfChangeV2>(&entry.data)?;
                let members = self.raft.apply_conf_change(&change);
                self.members_changed(entry, members)?;
            }
        }
        Ok(())
    }

    fn members_changed(
        &mut self,
        entry: &Entry,
        members: raft::Result<ConfState>,
    ) -> Result<(), String> {
        let members = members.map_err(|error| error.to_string())?;
        self.raft.mut_store().set_conf_state(members);
        self.machine.pass(entry.index);
        Ok(())
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
            let logged = self.raft.store().last_stamp().unwrap_or_default();
            self.clock.take_office(logged.max(self.machine.state().now()));
            self.last_stamp = self.clock.stamp();
        }
        if before.leads && (!role.leads || before.term != role.term) {
            self.abandon_batches(outputs);
        }
        if before.leader != role.leader {
            self.abandon_forwards(before.leader, outputs);
        }
        outputs.push(Output::Role(role));
    }
}

fn log_entry(entry: &Entry) -> wal::Entry {
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

fn send(messages: Vec<Message>, outputs: &mut Vec<Output>) {
    for message in messages {
        let bytes = prost_for_raft::Message::encode_to_vec(&message);
        outputs.push(Output::Send(message.to, PeerMessage::Raft(bytes)));
    }
}
