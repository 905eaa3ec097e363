//! Packs what waits into entries: one stamp, one append, one sync for all of it.

use std::collections::VecDeque;

use raft::prelude::Entry;

use super::Node;
use crate::io::{
    Answer, Class, ForwardNumber, MemberId, Micros, Output, PeerMessage, Proposal, ProposeError,
    RequestId,
};
use crate::machine::{DecodeError, Effects, LogTime, Order, Read, Reply, pack, sent_answer};
use crate::mutant::Mutant;

/// While leases live, the log gets a stamp at least this often, so that a change of leaders costs
/// them at most so much of their time.
const STAMP_EVERY: u64 = 1_000;

/// Renewals go into the log at once if something ends within their waiting time and this. Two
/// ticks: the next look at the clock may be that late.
const SLACK: u64 = 20;

/// Commands in one entry that may each visit as many keys as a command may.
const COSTLY_PER_ENTRY_MAX: usize = 8;

/// So many commands are company enough.
const COMPANY: usize = 64;

/// Who waits for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A client of this node.
    Here(RequestId),
    /// Another member, by the number that it gave.
    There(MemberId, ForwardNumber),
    /// The node itself, which needs no answer.
    Itself,
}

/// A command that is not in the log yet.
#[derive(Debug)]
pub(super) struct Queued {
    asker: Asker,
    command: Vec<u8>,
    read: Box<Read>,
    since: Micros,
}

/// The commands that are not in the log yet.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    ordinary: VecDeque<Queued>,
    renewals: VecDeque<Queued>,
    /// The bytes of the renewals.
    renewal_bytes: usize,
}

/// An entry that is in the log and not applied yet.
#[derive(Debug)]
pub(super) struct Batch {
    index: u64,
    term: u64,
    stamp: LogTime,
    askers: Vec<Asker>,
    /// Its commands, which need not be read again.
    #[expect(clippy::vec_box, reason = "they are large, and came here in their boxes")]
    commands: Vec<Box<Read>>,
}

impl AsRef<[u8]> for Queued {
    fn as_ref(&self) -> &[u8] {
        &self.command
    }
}

impl Node {
    /// Takes a client's command: into the queue, or on to the leader.
    pub(super) fn admit(&mut self, proposal: Proposal, outputs: &mut Vec<Output>) {
        match self.role.leader {
            _ if self.leads() => {
                let asker = Asker::Here(proposal.request);
                self.enqueue(asker, proposal.class, proposal.command, outputs);
            }
            Some(leader) => self.forward(leader, proposal, outputs),
            None => self.refuse(proposal.request, ProposeError::NoLeader, outputs),
        }
    }

    pub(super) fn enqueue(
        &mut self,
        asker: Asker,
        class: Class,
        command: Order,
        outputs: &mut Vec<Output>,
    ) {
        // Once it is in the log, what cannot be read stops every member for good.
        let short_enough = command.bytes().len() <= self.config.batch_bytes_max;
        let Some((command, read)) = command.read().filter(|_| short_enough) else {
            self.answer(asker, Err(ProposeError::Malformed), outputs);
            return;
        };
        let is_local = matches!(asker, Asker::Here(_));
        if let Some(refusal) = self.machine.refusal_at_level_1(&read, is_local) {
            self.answer(asker, Ok(refusal), outputs);
            return;
        }
        if let Some(refusal) = self.refusal_for_want_of_disk(asker, &read) {
            self.answer(asker, Err(refusal), outputs);
            return;
        }
        if !is_local && read.is_of_a_contender() {
            self.note_clients();
        }
        let (queue, max) = match class {
            Class::Ordinary => (&mut self.waiting.ordinary, self.config.waiting_max),
            Class::Renewal => (&mut self.waiting.renewals, self.config.renewals_waiting_max),
        };
        if queue.len() >= max {
            self.answer(asker, Err(ProposeError::Overloaded), outputs);
            return;
        }
        let len = command.len();
        queue.push_back(Queued { asker, command, read, since: self.now });
        if class == Class::Renewal {
            self.waiting.renewal_bytes += len;
        }
    }

    /// Closes as many batches as may be on their way at once.
    pub(super) fn propose_what_waits(&mut self, outputs: &mut Vec<Output>) {
        if !self.leads() {
            self.turn_away(outputs);
            return;
        }
        while self.in_flight.len() < self.config.in_flight_max && self.batch_is_due() {
            let batch = self.take_batch(&[Class::Renewal, Class::Ordinary]);
            self.propose_batch(batch, outputs);
        }
        // A stamp goes out however many entries are on their way, because time goes on. The
        // renewals that wait go along, or it would soon run past leases that were renewed.
        if self.stamp_is_due() {
            let batch = self.take_batch(&[Class::Renewal]);
            self.propose_batch(batch, outputs);
        }
    }

    fn propose_batch(&mut self, batch: Vec<Queued>, outputs: &mut Vec<Output>) {
        #[cfg(feature = "mutants")]
        {
            let waited = batch.iter().map(|queued| self.now.0 - queued.since.0);
            self.batch_waited = waited.max().unwrap_or_default() / 1_000;
        }
        match self.propose(batch) {
            Ok(()) if self.mutant(Mutant::AckBeforeQuorum) => self.answer_ahead(outputs),
            Ok(()) => {}
            // Dropped by the engine: certainly not in the log.
            Err(batch) => {
                for queued in batch {
                    self.answer(queued.asker, Err(ProposeError::NoLeader), outputs);
                }
            }
        }
    }

    fn batch_is_due(&self) -> bool {
        let wait = self.config.renewal_wait;
        let waited = |queued: &Queued| self.now.0 - queued.since.0 >= wait;
        // A renewal that came in time must not be overtaken by the end of its lease.
        let soon = LogTime(self.clock.stamp().0.saturating_add(wait / 1_000 + SLACK));
        let late = || self.machine.next_deadline().is_some_and(|deadline| deadline <= soon);
        let renewal = self.waiting.renewals.front();
        let in_company = self.waiting.renewal_bytes >= self.config.renewal_company_bytes;
        self.ordinary_is_due() || renewal.is_some_and(|first| in_company || waited(first) || late())
    }

    /// Whether something waits whose effect somebody waits for. Those who only take a place behind a
    /// holder can wait a little for the holder, who may be about to release: what both want is then
    /// synced once.
    fn ordinary_is_due(&self) -> bool {
        let queue = &self.waiting.ordinary;
        let has_waited = queue.front().is_some_and(|first| self.linger_end(first) <= self.now);
        let matters = |queued: &Queued| !self.machine.would_wait(&queued.read);
        has_waited || queue.len() >= COMPANY || queue.iter().any(matters)
    }

    fn linger_end(&self, queued: &Queued) -> Micros {
        Micros(queued.since.0.saturating_add(self.config.linger))
    }

    /// By when the node wants to be asked again although nothing has come, if before the next tick.
    pub fn next_turn(&self) -> Option<Micros> {
        let can_go = self.in_flight.len() < self.config.in_flight_max;
        let first = self.waiting.ordinary.front().filter(|_| can_go);
        let batch = first.map(|first| self.linger_end(first));
        let others = [batch, self.announce_at(), self.spare_at(), self.succeed_at()];
        others.into_iter().flatten().min()
    }

    /// Takes what fits into one entry, class by class. Renewals come first: they are small, and
    /// what they keep alive must not wait behind a flood.
    fn take_batch(&mut self, classes: &[Class]) -> Vec<Queued> {
        let waiting = self.waiting.ordinary.len() + self.waiting.renewals.len();
        let mut batch = Vec::with_capacity(waiting.min(self.config.batch_len_max));
        let (mut bytes, mut costly) = (0, 0);
        for class in classes {
            let queue = match class {
                Class::Renewal => &mut self.waiting.renewals,
                Class::Ordinary => &mut self.waiting.ordinary,
            };
            while let Some(queued) = queue.front() {
                costly += usize::from(self.machine.is_costly(&queued.read));
                let full = batch.len() >= self.config.batch_len_max
                    || costly > COSTLY_PER_ENTRY_MAX
                    || bytes + queued.command.len() > self.config.batch_bytes_max;
                if full && !batch.is_empty() {
                    return batch;
                }
                let len = queued.command.len();
                bytes += len;
                batch.extend(queue.pop_front());
                if *class == Class::Renewal {
                    self.waiting.renewal_bytes -= len;
                }
            }
        }
        batch
    }

    /// Puts an entry into the log, stamped now that the batch is closed. Gives the batch back if
    /// the engine does not take it.
    fn propose(&mut self, batch: Vec<Queued>) -> Result<(), Vec<Queued>> {
        let stamp = self.stamp().max(self.last_stamp);
        if self.raft.propose(Vec::new(), pack(stamp, &batch)).is_err() {
            return Err(batch);
        }
        self.last_stamp = stamp;
        let (index, term) = (self.last_index(), self.raft.raft.term);
        let (askers, commands) = batch.into_iter().map(|one| (one.asker, one.read)).unzip();
        self.in_flight.push_back(Batch { index, term, stamp, askers, commands });
        Ok(())
    }

    /// The log time of an entry that is closed now.
    fn stamp(&self) -> LogTime {
        let stamp = self.clock.stamp();
        #[cfg(feature = "mutants")]
        if let Some(wrong) = self.wrong_stamp(stamp) {
            return wrong;
        }
        stamp
    }

    pub(super) fn propose_stamp(&mut self) {
        if self.leads() {
            // If the engine does not take it, the next tick proposes another.
            let _ = self.propose(Vec::new());
        }
    }

    /// Whether an entry is needed only for its stamp: something is due that no entry on its way
    /// will end, or leases live and the last stamp is a second old, or a snapshot needs an entry.
    fn stamp_is_due(&self) -> bool {
        if self.mutant(Mutant::NoStamps) {
            return false;
        }
        let stamp = self.stamp();
        let on_its_way = self.in_flight.back().map(|batch| batch.stamp);
        let due = self.machine.next_deadline().is_some_and(|deadline| {
            deadline <= stamp && on_its_way.is_none_or(|stamp| stamp < deadline)
        });
        let old = stamp.since(self.last_stamp).0 >= STAMP_EVERY;
        due || old && self.machine.state().has_leases() || self.lacks_entry_to_free_disk()
    }

    /// Applies an entry. If it is one that this node has proposed, its commands are read already.
    pub(super) fn apply_entry(&mut self, entry: &Entry) -> Result<Effects, DecodeError> {
        let known = self.in_flight.front_mut();
        let known = known.filter(|batch| (batch.index, batch.term) == (entry.index, entry.term));
        match known {
            Some(batch) => {
                let commands = std::mem::take(&mut batch.commands);
                Ok(self.machine.apply_read(entry.index, batch.stamp, commands))
            }
            None => self.machine.apply(entry.index, &entry.data),
        }
    }

    /// Answers those who wait for an entry that was applied. At its index stands what they
    /// proposed only if the term is theirs too.
    pub(super) fn answer_batch(
        &mut self,
        entry: &Entry,
        replies: Vec<Reply>,
        outputs: &mut Vec<Output>,
    ) {
        let Some(batch) = self.in_flight.pop_front_if(|batch| batch.index <= entry.index) else {
            return;
        };
        let is_it = (batch.index, batch.term) == (entry.index, entry.term);
        if is_it || self.mutant(Mutant::ReplyIgnoresTerm) {
            for (asker, reply) in batch.askers.into_iter().zip(replies) {
                self.answer(asker, Ok(reply), outputs);
            }
        } else {
            self.leave_open(batch, outputs);
        }
    }

    /// Leadership is lost: what is in the log may still be committed, by another leader.
    pub(super) fn abandon_batches(&mut self, outputs: &mut Vec<Output>) {
        while let Some(batch) = self.in_flight.pop_front() {
            if self.mutant(Mutant::DeposedLeaderAcks) {
                let replies = self.replies_ahead(batch.index);
                for (asker, reply) in batch.askers.into_iter().zip(replies) {
                    self.answer(asker, Ok(reply), outputs);
                }
                continue;
            }
            self.leave_open(batch, outputs);
        }
    }

    /// What a planted bug does: the last batch is answered before anybody else has it.
    fn answer_ahead(&mut self, outputs: &mut Vec<Output>) {
        let Some(batch) = self.in_flight.back_mut() else { return };
        let (index, askers) = (batch.index, std::mem::take(&mut batch.askers));
        for (asker, reply) in askers.into_iter().zip(self.replies_ahead(index)) {
            self.answer(asker, Ok(reply), outputs);
        }
    }

    fn leave_open(&mut self, batch: Batch, outputs: &mut Vec<Output>) {
        let why = match self.mutant(Mutant::LossCalledRefusal) {
            true => ProposeError::NoLeader,
            false => ProposeError::Indeterminate,
        };
        for asker in batch.askers {
            self.answer(asker, Err(why.clone()), outputs);
        }
    }

    /// What waited for a leader that is no more was never in the log.
    fn turn_away(&mut self, outputs: &mut Vec<Output>) {
        let waiting = std::mem::take(&mut self.waiting);
        for queued in waiting.renewals.into_iter().chain(waiting.ordinary) {
            self.answer(queued.asker, Err(ProposeError::NoLeader), outputs);
        }
    }

    pub(super) fn answer(&self, asker: Asker, answer: Answer, outputs: &mut Vec<Output>) {
        outputs.push(match asker {
            Asker::Here(request) => Output::Reply(request, answer),
            Asker::There(member, number) => {
                // A frame that is too long would never be sent, and the outcome stay unknown for
                // as long as an election takes.
                let sent = |reply| sent_answer(reply).ok_or(ProposeError::Indeterminate);
                let answer = Box::new(answer.and_then(sent));
                Output::Send(member, PeerMessage::Forwarded(number, answer))
            }
            Asker::Itself => return,
        });
    }
}
