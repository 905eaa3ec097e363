//! Commands that reach a follower go on to the leader, and their answers come back.

use super::Node;
use super::propose::Asker;
use crate::io::{Answer, Class, MemberId, Output, PeerMessage, Proposal, ProposeError, RequestId};

/// A command that was sent to the leader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forwarded {
    request: RequestId,
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
        if self.forwarded.len() >= self.config.waiting_max {
            self.refuse(proposal.request, ProposeError::Overloaded, outputs);
            return;
        }
        self.last_forward += 1;
        let sent = Forwarded { request: proposal.request, to: leader, tick: self.ticks };
        self.forwarded.insert(self.last_forward, sent);
        let message = PeerMessage::Forward(self.last_forward, proposal.class, proposal.command);
        outputs.push(Output::Send(leader, message));
    }

    /// Takes another member's command. Its numbers grow, also over its restarts, so a copy that
    /// the network made, or one that was overtaken, is not done a second time.
    pub(super) fn admit_forwarded(
        &mut self,
        from: MemberId,
        number: u64,
        class: Class,
        command: Vec<u8>,
        outputs: &mut Vec<Output>,
    ) {
        let last = self.heard_forwards.entry(from).or_default();
        if number <= *last {
            return;
        }
        *last = number;
        let asker = Asker::There(from, number);
        if self.leads() {
            self.enqueue(asker, class, command, outputs);
        } else {
            self.answer(asker, Err(ProposeError::NoLeader), outputs);
        }
    }

    pub(super) fn answered(&mut self, number: u64, answer: Answer, outputs: &mut Vec<Output>) {
        if let Some(sent) = self.forwarded.remove(&number) {
            outputs.push(Output::Reply(sent.request, Box::new(answer)));
        }
    }

    /// The leader that these went to leads no more. It may have put them into the log.
    pub(super) fn abandon_forwards(&mut self, to: Option<MemberId>, outputs: &mut Vec<Output>) {
        let lost = self.forwarded.extract_if(.., |_, sent| Some(sent.to) == to);
        let requests: Vec<RequestId> = lost.map(|(_, sent)| sent.request).collect();
        for request in requests {
            self.refuse(request, ProposeError::Indeterminate, outputs);
        }
    }

    /// An answer that has not come for two election timeouts may never come.
    pub(super) fn give_up_forwards(&mut self, outputs: &mut Vec<Output>) {
        let patience = 2 * self.config.election_ticks.1 as u64;
        let ticks = self.ticks;
        let old = self.forwarded.extract_if(.., |_, sent| sent.tick + patience < ticks);
        let requests: Vec<RequestId> = old.map(|(_, sent)| sent.request).collect();
        for request in requests {
            self.refuse(request, ProposeError::Indeterminate, outputs);
        }
    }
}
