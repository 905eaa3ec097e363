//! Detects a log that lost committed entries, before the engine acts on a message.
//!
//! Owns: the comparison of a leader's messages with the committed prefix of this member. Guarantees:
//! a message that a correct leader sent to a member with an intact disk never stops the member,
//! however late or often it arrives. Refuses: to repair anything. The engine would acknowledge an
//! append that contradicts the committed prefix, and panic on a commit index beyond the log.

use raft::prelude::{Message, MessageType};

use super::Node;
use crate::io::Output;

/// What the operator reads when the committed log of a member contradicts its leader's.
pub const LOG_CONTRADICTED: &str = "\
this node stops: its committed log contradicts the leader's log
a data directory was set back to an older copy, or a disk lost writes that it had confirmed
remove this member with `fencepost member rm`, then start it with an empty data directory and \
--join; see docs/operations.md";

impl Node {
    /// Whether a message of the present leader, or of a later one, cannot be true of the log here.
    ///
    /// Messages of earlier terms prove nothing: the entries that they name may have been replaced.
    pub(super) fn contradicts_log(&self, message: &Message) -> bool {
        let raft = &self.raft.raft;
        let is_from_leader = match message.term.cmp(&raft.term) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => raft.leader_id == message.from || raft.leader_id == 0,
            std::cmp::Ordering::Greater => true,
        };
        if !is_from_leader {
            return false;
        }
        match message.get_msg_type() {
            MessageType::MsgAppend => {
                let previous = (message.index, message.log_term);
                let entries = message.entries.iter().map(|entry| (entry.index, entry.term));
                entries.chain([previous]).any(|(index, term)| self.contradicts_commit(index, term))
            }
            // A leader sends the smaller one of its commit index and what this member acknowledged
            // in the same term. An acknowledged entry is durable, and stays for the whole term.
            MessageType::MsgHeartbeat => message.commit > raft.raft_log.last_index(),
            // What a snapshot covers is committed.
            MessageType::MsgSnapshot => {
                let metadata = message.get_snapshot().get_metadata();
                self.contradicts_commit(metadata.index, metadata.term)
            }
            _ => false,
        }
    }

    /// Whether another term is committed here at this index. Entries before the start of the log
    /// are covered by a snapshot and cannot be compared.
    fn contradicts_commit(&self, index: u64, term: u64) -> bool {
        let log = &self.raft.raft.raft_log;
        let start = self.raft.store().start().index;
        let is_comparable = index > 0 && (start..=log.committed).contains(&index);
        is_comparable && log.term(index).is_ok_and(|known| known != term)
    }

    /// Stops this member: its log is not the one that it acknowledged.
    pub(super) fn halt_contradicted(&mut self, outputs: &mut Vec<Output>) {
        outputs.push(Output::Halt(LOG_CONTRADICTED.to_owned()));
        self.halted = true;
    }
}
