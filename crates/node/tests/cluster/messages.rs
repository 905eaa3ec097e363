//! What members say to each other, for tests that look at single messages.

use fencepost_node::io::{Input, PeerMessage};
use raft::prelude::{Message, MessageType};

use crate::support::Cluster;

/// A message of the consensus engine, whether it arrived or not.
pub(crate) struct Sent {
    pub(crate) at: u64,
    pub(crate) message: Message,
}

impl Sent {
    /// Nothing, if it is not one of the engine.
    pub(crate) fn read(at: u64, message: &PeerMessage) -> Option<Sent> {
        let PeerMessage::Raft(bytes) = message else { return None };
        let message = <Message as prost_for_raft::Message>::decode(&**bytes);
        Some(Sent { at, message: message.expect("a member writes what can be read") })
    }

    fn is_campaign(&self) -> bool {
        let kind = self.message.get_msg_type();
        matches!(kind, MessageType::MsgRequestPreVote | MessageType::MsgRequestVote)
    }
}

/// An empty message from one member to another.
pub(crate) fn message(kind: MessageType, from: u64, to: u64, term: u64) -> Message {
    let mut message = Message { from, to, term, ..Message::default() };
    message.set_msg_type(kind);
    message
}

impl Cluster {
    /// Has a member receive a message, whatever is cut.
    pub(crate) fn deliver(&mut self, message: &Message) {
        let bytes = prost_for_raft::Message::encode_to_vec(message);
        self.input(message.to, Input::Peer(message.from, PeerMessage::Raft(bytes)));
    }

    /// The messages of one kind behind the first `mark` messages.
    pub(crate) fn sent_since(&self, mark: usize, kind: MessageType) -> Vec<&Message> {
        let sent = self.sent[mark..].iter().map(|sent| &sent.message);
        sent.filter(|message| message.get_msg_type() == kind).collect()
    }

    /// When a member has first asked for votes behind the first `mark` messages.
    pub(crate) fn first_campaign(&self, mark: usize, id: u64) -> Option<u64> {
        let is_its_own = |sent: &&Sent| sent.is_campaign() && sent.message.from == id;
        self.sent[mark..].iter().find(is_its_own).map(|sent| sent.at)
    }

    /// All members but one.
    pub(crate) fn others(&self, of: u64) -> Vec<u64> {
        self.running().map(|(id, _)| id).filter(|&id| id != of).collect()
    }

    /// Cuts some members off from some others, both ways.
    pub(crate) fn part(&mut self, ours: &[u64], theirs: &[u64]) {
        for &one in ours {
            for &other in theirs {
                self.cut.extend([(one, other), (other, one)]);
            }
        }
    }

    /// Waits for a leader among these.
    pub(crate) fn elect_among(&mut self, ids: &[u64]) -> u64 {
        let leader = |cluster: &Cluster| cluster.leader().filter(|one| ids.contains(one));
        assert!(self.run_until(|cluster| leader(cluster).is_some()), "none of {ids:?} leads");
        leader(self).expect("it was just there")
    }
}
