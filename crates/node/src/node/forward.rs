//! Commands that reach a follower go on to the leader, and their answers come back.

use std::collections::BTreeMap;

use super::Node;
use super::propose::Asker;
use crate::io::{
    Answer, Class, Forward, ForwardNumber, MemberId, Output, PeerMessage, Proposal, ProposeError,
    RequestId,
};
use crate::mutant::Mutant;

/// A command that was sent to the leader.
#[derive(Clone, Copy, Debug)]
struct Forwarded {
    request: RequestId,
    to: MemberId,
    tick: u64,
}

/// The commands that were sent to the leader, each class with room of its own.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    ordinary: BTreeMap<ForwardNumber, Forwarded>,
    renewals: BTreeMap<ForwardNumber, Forwarded>,
}

impl Forwards {
    fn both(&mut self) -> [&mut BTreeMap<ForwardNumber, Forwarded>; 2] {
        [&mut self.renewals, &mut self.ordinary]
    }

    /// Takes out all that `wanted` says.
    fn take(&mut self, wanted: impl Fn(&Forwarded) -> bool) -> Vec<RequestId> {
        let mut taken = Vec::new();
        for sent in self.both() {
            let found = sent.extract_if(.., |_, sent| wanted(sent));
            taken.extend(found.map(|(_, sent)| sent.request));
        }
        taken
    }
}

impl Node {
    pub(super) fn forward(
        &mut self,
        leader: MemberId,
        proposal: Proposal,
        outputs: &mut Vec<Output>,
    ) {
        let Proposal { request, class, command } = proposal;
        let (sent, max) = match class {
            Class::Ordinary => (&mut self.forwarded.ordinary, self.config.waiting_max),
            Class::Renewal => (&mut self.forwarded.renewals, self.config.renewals_waiting_max),
        };
        if sent.len() >= max {
            self.refuse(request, ProposeError::Overloaded, outputs);
            return;
        }
        self.last_forward += 1;
        let number = ForwardNumber { boot: self.config.boot, count: self.last_forward };
        sent.insert(number, Forwarded { request, to: leader, tick: self.ticks });
        let command = command.into_bytes();
        let forward = Forward { term: self.role.term, number, class, command };
        outputs.push(Output::Send(leader, PeerMessage::Forward(forward)));
    }

    /// Takes another member's command, if this node leads in the very term that it was sent in.
    ///
    /// A leader that restarts leads in another term, so what it has heard in this one is all in
    /// memory: a copy that the network made, or one that was overtaken, is not done a second time.
    /// What was sent to another term is passed over without a word, because an older copy of it
    /// may have been done.
    pub(super) fn admit_forwarded(
        &mut self,
        from: MemberId,
        forward: Forward,
        outputs: &mut Vec<Output>,
    ) {
        if !self.leads() || forward.term != self.role.term {
            return;
        }
        let last = self.heard_forwards.get(&from).copied().unwrap_or_default();
        if forward.number <= last && !self.mutant(Mutant::ForwardsDoneTwice) {
            return;
        }
        self.heard_forwards.insert(from, forward.number.max(last));
        let asker = Asker::There(from, forward.number);
        self.enqueue(asker, forward.class, forward.command.into(), outputs);
    }

    pub(super) fn answered(
        &mut self,
        from: MemberId,
        number: ForwardNumber,
        answer: Answer,
        outputs: &mut Vec<Output>,
    ) {
        for sent in self.forwarded.both() {
            if sent.get(&number).is_some_and(|sent| sent.to == from)
                && let Some(sent) = sent.remove(&number)
            {
                outputs.push(Output::Reply(sent.request, answer));
                return;
            }
        }
    }

    /// The leader that these went to leads no more. It may have put them into the log.
    pub(super) fn abandon_forwards(&mut self, to: Option<MemberId>, outputs: &mut Vec<Output>) {
        self.abandon_where(|sent| Some(sent.to) == to, outputs);
    }

    /// An answer that has not come for two election timeouts may never come.
    pub(super) fn give_up_forwards(&mut self, outputs: &mut Vec<Output>) {
        let (ticks, patience) = (self.ticks, self.config.patience_ticks());
        self.abandon_where(|sent| sent.tick + patience < ticks, outputs);
    }

    fn abandon_where(&mut self, lost: impl Fn(&Forwarded) -> bool, outputs: &mut Vec<Output>) {
        for request in self.forwarded.take(lost) {
            self.refuse(request, ProposeError::Indeterminate, outputs);
        }
    }
}
