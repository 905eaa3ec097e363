//! Sends entries to a majority at once, and to the others in company.
//!
//! An entry is committed when a majority has it. If all are sent it at the same moment, the others' work
//! on it takes time from those whom somebody waits for, wherever they share something: a network, a disk,
//! a machine. So the leader sends it to as many of those who are furthest as a majority needs. What is for
//! the others waits for more of the same, for `spare_wait` at most; then they read, write and confirm all of
//! it at once. Whoever falls behind is overtaken, and changes places with a spare one by itself: what is not
//! committed waits no longer than `spare_patience`.

use raft::ProgressState;
use raft::prelude::{Message, MessageType};

use super::Node;
use crate::io::{MemberId, Micros, Output, PeerMessage};

/// What waits for those who are not needed for a majority.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// In the order in which they came.
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    since: Micros,
    message: Message,
}

impl Held {
    /// The last entry that it brings.
    fn last(&self) -> u64 {
        self.message.entries.last().map_or(0, |entry| entry.index)
    }

    fn after(&self, wait: u64) -> Micros {
        Micros(self.since.0.saturating_add(wait))
    }
}

impl Spare {
    /// Whether something waits for this member.
    pub(super) fn waits_for(&self, member: MemberId) -> bool {
        self.held.iter().any(|held| held.message.to == member)
    }
}

impl Node {
    pub(super) fn send(&mut self, messages: Vec<Message>, outputs: &mut Vec<Output>) {
        for message in messages {
            if self.can_wait(&message) {
                self.spare.held.push(Held { since: self.now, message });
            } else {
                self.send_to_spare(Some(message.to), outputs);
                self.send_now(&message, outputs);
            }
        }
    }

    /// Sends what has waited long enough.
    pub(super) fn send_what_has_waited(&mut self, outputs: &mut Vec<Output>) {
        if self.spare_at().is_some_and(|moment| moment <= self.now) {
            self.send_to_spare(None, outputs);
        }
    }

    /// By when something is to be sent to those who are not needed for a majority.
    pub(super) fn spare_at(&self) -> Option<Micros> {
        let (held, commit) = (&self.spare.held, self.commit());
        let company = held.first().map(|first| first.after(self.config.spare_wait));
        let stuck = held.iter().find(|held| held.last() > commit);
        let majority = stuck.map(|stuck| stuck.after(self.config.spare_patience));
        company.into_iter().chain(majority).min()
    }

    /// Sends what waits for this member, or for all.
    fn send_to_spare(&mut self, to: Option<MemberId>, outputs: &mut Vec<Output>) {
        let is_due = |held: &mut Held| to.is_none_or(|to| held.message.to == to);
        let due: Vec<Held> = self.spare.held.extract_if(.., is_due).collect();
        for held in due {
            self.send_now(&held.message, outputs);
        }
    }

    fn send_now(&mut self, message: &Message, outputs: &mut Vec<Output>) {
        self.note_offer(message);
        self.note_told(message);
        let bytes = prost_for_raft::Message::encode_to_vec(message);
        outputs.push(Output::Send(message.to, PeerMessage::Raft(bytes)));
    }

    /// Whether this is only entries, for somebody who is not needed for a majority.
    fn can_wait(&self, message: &Message) -> bool {
        let has_entries =
            message.get_msg_type() == MessageType::MsgAppend && !message.entries.is_empty();
        has_entries && self.leads() && !self.has_clients_elsewhere() && self.is_spare(message.to)
    }

    /// Whether there is a majority that is further than this member.
    fn is_spare(&self, member: MemberId) -> bool {
        let tracker = self.raft.raft.prs();
        let conf = &self.membership.conf;
        let Some(own) = tracker.get(member).filter(|_| !self.membership.is_joint()) else {
            return false;
        };
        // Of two who are equally far, one has to be the first.
        let is_further = |id: MemberId| {
            id != self.config.id
                && id != member
                && tracker.get(id).is_some_and(|one| {
                    let order = (one.matched, member).cmp(&(own.matched, id));
                    one.state == ProgressState::Replicate && order.is_gt()
                })
        };
        let further = conf.voters.iter().filter(|&&id| is_further(id) && self.is_active(id));
        conf.voters.contains(&self.config.id) && further.count() >= conf.voters.len() / 2
    }
}
