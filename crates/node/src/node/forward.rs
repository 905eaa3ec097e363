//! Commands that reach a follower go on to the leader, and their answers come back.

use super::Node;
use super::propose::Asker;
use crate::io::{
    Answer, Class, Forward, ForwardNumber, MemberId, Output, PeerMessage, Proposal, ProposeError,
    RequestId,
};

/// A command that was sent to the leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forwarded {
    request: RequestId,
    class: Class,
    to: MemberId,
    tick: u64,
}

impl Node {
    pub(super) fn forward(
        &mut self,
        leader: MemberId,
        proposal: Proposal,
        outputs: &mut Vec<Output>,
    ) {
        let Proposal { request, class, command } = proposal;
        let max = match class {
            Class::Ordinary => self.config.waiting_max,
            Class::Renewal => self.config.renewals_waiting_max,
        };
        let count = self.forwarded.values().filter(|sent| sent.class == class).take(max).count();
        if count >= max {
            self.refuse(request, ProposeError::Overloaded, outputs);
            return;
        }
        self.last_forward += 1;
        let number = ForwardNumber { boot: self.config.boot, count: self.last_forward };
        self.forwarded.insert(number, Forwarded { request, class, to: leader, tick: self.ticks });
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
        let last = self.heard_forwards.entry(from).or_default();
        if forward.number <= *last {
            return;
        }
        *last = forward.number;
        let asker = Asker::There(from, forward.number);
        self.enqueue(asker, forward.class, forward.command, outputs);
    }

    pub(super) fn answered(
        &mut self,
        from: MemberId,
        number: ForwardNumber,
        answer: Answer,
        outputs: &mut Vec<Output>,
    ) {
        if self.forwarded.get(&number).is_none_or(|sent| sent.to != from) {
            return;
        }
        if let Some(sent) = self.forwarded.remove(&number) {
            outputs.push(Output::Reply(sent.request, Box::new(answer)));
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
        let lost = self.forwarded.extract_if(.., |_, sent| lost(sent));
        let requests: Vec<RequestId> = lost.map(|(_, sent)| sent.request).collect();
        for request in requests {
            self.refuse(request, ProposeError::Indeterminate, outputs);
        }
    }
}
