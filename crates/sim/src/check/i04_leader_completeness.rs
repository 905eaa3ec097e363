//! I4, leader completeness: what was acknowledged to a client is in the log of every later
//! leader, with the same bytes.
//!
//! In two halves. An answer must be one that the reference gave when it applied that very
//! command: nothing is acknowledged that was not applied, so what was acknowledged has an index.
//! And whatever any member has applied stands in the log of every member that comes to lead in a
//! later term than the one in which it was committed. The commit's own term is not known; but it
//! is at most the highest in which anybody had led when the entry was first applied, and a leader
//! of a term beyond that must have the entry. Leaders of earlier terms, which may hear of their
//! election late, need not.

use std::collections::BTreeMap;

use fencepost_core::{Outcome, Reason, Reply};
use fencepost_node::node::Node;

use super::oracle::Oracle;
use super::{Check, broken};

/// The answers that the reference gave, by the bytes of their commands.
#[derive(Default)]
pub(super) struct Completeness {
    answers: BTreeMap<Vec<u8>, Vec<Reply>>,
}

impl Completeness {
    /// The reference has applied a command.
    pub(super) fn applied(&mut self, command: &[u8], reply: &Reply) {
        let known = self.answers.entry(command.to_vec()).or_default();
        if !known.contains(reply) {
            known.push(reply.clone());
        }
    }

    /// A client was told that its command was done.
    pub(super) fn acknowledged(&self, command: &[u8], reply: &Reply) -> Check {
        let known = self.answers.get(command);
        if known.is_some_and(|known| known.contains(reply)) {
            return Ok(());
        }
        // A leader refuses what its log cannot carry before it is logged.
        let is_level = matches!(reply.outcome, Outcome::Rejected(Reason::FeatureLevelInvalid(..)));
        if known.is_none() && is_level {
            return Ok(());
        }
        let what = match known {
            None => format!("a command was acknowledged that nobody applied: {reply:?}"),
            Some(known) => format!("the answer is {reply:?}, the log says {known:?}"),
        };
        Err(broken("I4", what))
    }

    /// A member leads: it must have all that was committed before its term.
    pub(super) fn leads(oracle: &Oracle, member: u64, term: u64, node: &Node) -> Check {
        let covered = node.machine().applied();
        for index in (oracle.first()..=oracle.head()).rev() {
            let Some(known) = oracle.entry(index) else { break };
            if known.led >= term {
                continue;
            }
            match node.entry(index) {
                Some((term, kind, data)) => {
                    let same = (term, kind) == (known.term, known.kind) && *data == *known.data;
                    if !same {
                        let what =
                            format!("leader {member} of term {term} has another entry {index}");
                        return Err(broken("I4", what));
                    }
                }
                // What a snapshot covers is gone from the log. I2 looks at what became of it.
                None if index <= covered => break,
                None => {
                    let what = format!("leader {member} of term {term} lacks entry {index}");
                    return Err(broken("I4", what));
                }
            }
        }
        Ok(())
    }
}
