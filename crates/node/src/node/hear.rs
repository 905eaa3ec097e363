//! What other members say, checked before the consensus engine sees it.
//!
//! The engine trusts its peers and panics on messages that none should send. A buggy or newer peer
//! must not be able to stop this node, so what makes no sense is treated as lost. The exception is a
//! leader's message that contradicts the committed log: see [`super::guard`].

use raft::prelude::{Entry, EntryType, Message, MessageType};

use super::Node;
use crate::io::{MemberId, Output, PeerMessage};

/// Terms stay below this; the engine adds to them.
const TERM_LIMIT: u64 = 1 << 62;

impl Node {
    pub(super) fn hear(&mut self, from: MemberId, message: PeerMessage, outputs: &mut Vec<Output>) {
        if self.turn_away_removed(from, outputs) {
            return;
        }
        self.heard.insert(from, self.ticks);
        match message {
            PeerMessage::Raft(bytes) => {
                if let Ok(message) = <Message as prost_for_raft::Message>::decode(&*bytes)
                    && message.from == from
                    && self.is_sound(&message)
                {
                    if self.contradicts_log(&message) {
                        self.halt_contradicted(outputs);
                        return;
                    }
                    self.step(message, outputs);
                }
            }
            PeerMessage::Forward(forward) => self.admit_forwarded(from, forward, outputs),
            PeerMessage::Forwarded(number, answer) => {
                self.answered(from, number, *answer, outputs);
            }
            PeerMessage::SnapshotWanted { id, next, room } => {
                self.give(from, id, next, room, outputs);
            }
            PeerMessage::SnapshotPiece(piece) => self.take_piece(piece, outputs),
            PeerMessage::SnapshotGone(id) => self.snapshot_gone(from, id),
            // If it is none, that was said above.
            PeerMessage::AmIAMember => {}
            PeerMessage::YouWereRemoved => self.leave(outputs),
            PeerMessage::CopiedDirectory { boot, boot_nonce } => {
                self.copied(from, (boot, boot_nonce), outputs);
            }
            PeerMessage::Introduction(introduction) => {
                self.introduced(from, *introduction, outputs);
            }
        }
    }

    fn step(&mut self, message: Message, outputs: &mut Vec<Output>) {
        if message.get_msg_type() == MessageType::MsgSnapshot {
            self.offered(message, outputs);
            return;
        }
        if message.get_msg_type() == MessageType::MsgReadIndex
            && !self.is_new_question(message.from, &message.entries[0].data)
        {
            return;
        }
        // A refusal concerns the message alone, and its sender will notice.
        drop(self.raft.step(message));
    }

    /// Whether a message is one that a member may send to this one, and can be true.
    fn is_sound(&self, message: &Message) -> bool {
        let Some(kind) = MessageType::from_i32(message.msg_type) else { return false };
        let last = self.raft.raft.raft_log.last_index();
        let sensible = match kind {
            MessageType::MsgAppend => {
                // The engine gives term zero to what it does not have.
                let terms = 1..=message.term;
                (message.log_term > 0 || message.index == 0)
                    && message.entries.iter().all(|entry| terms.contains(&entry.term))
                    && follow_each_other(message.index, &message.entries)
            }
            MessageType::MsgAppendResponse => {
                let hint = message.reject_hint;
                message.index <= last && hint <= last && message.request_snapshot == 0
            }
            MessageType::MsgHeartbeat => {
                let is_claim = message.commit < TERM_LIMIT && self.contradicts_log(message);
                message.commit <= last || is_claim
            }
            MessageType::MsgSnapshot => {
                let metadata = message.get_snapshot().get_metadata();
                metadata.index > 0 && (1..=message.term).contains(&metadata.term)
            }
            MessageType::MsgReadIndex | MessageType::MsgReadIndexResp => message.entries.len() == 1,
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => {
                self.may_vote_for(message)
            }
            MessageType::MsgRequestVoteResponse
            | MessageType::MsgRequestPreVoteResponse
            | MessageType::MsgHeartbeatResponse => true,
            MessageType::MsgTimeoutNow => self.may_campaign(),
            // Proposals come as forwarded commands, and the rest is the engine's talk with itself.
            _ => false,
        };
        // Only a question about the commit index comes without a term.
        let has_term = (kind == MessageType::MsgReadIndex) == (message.term == 0);
        sensible && has_term && message.to == self.config.id && message.term < TERM_LIMIT
    }
}

/// Whether entries come one after the other behind `before`, all of kinds that are known.
fn follow_each_other(before: u64, entries: &[Entry]) -> bool {
    if before >= TERM_LIMIT {
        return false;
    }
    let known = |entry: &Entry| EntryType::from_i32(entry.entry_type).is_some();
    let indexes = entries.iter().map(|entry| entry.index);
    let expected = (before + 1..).take(entries.len());
    entries.iter().all(known) && indexes.eq(expected)
}
