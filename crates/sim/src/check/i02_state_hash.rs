//! I2, state hash: members that stand at the same index have the same state, whether they came
//! there by applying, by a snapshot, or by starting from their disks. So do they agree on who the
//! members are.
//!
//! A hash covers the whole state, which makes it dear. So it is looked at for a sample of the
//! indexes, the same for all members, and always after a member has taken its state from a
//! snapshot or from its disk. A state that has once gone astray stays so, and is found at the
//! next look.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::State;
use fencepost_node::membership::Membership;

use super::oracle::Oracle;
use super::{Check, broken};

/// One index in so many is looked at.
const SAMPLE: u64 = 32;

/// What is known about hashes.
#[derive(Default)]
pub(super) struct StateHash {
    known: BTreeMap<u64, [u8; 32]>,
    /// Who the members are at an index, as the first one to stand there said.
    members: BTreeMap<u64, Who>,
    /// Members whose next standing is looked at in any case.
    due: BTreeSet<u64>,
}

/// Who the members are, whatever order the engine lists them in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Who {
    members: BTreeSet<u64>,
    leaving: BTreeSet<u64>,
    removed: BTreeSet<u64>,
    is_settled: bool,
    voters: [BTreeSet<u64>; 2],
}

impl Who {
    fn of(membership: &Membership) -> Who {
        let conf = &membership.conf;
        let set = |ids: &[u64]| ids.iter().copied().collect();
        Who {
            members: membership.members.keys().copied().collect(),
            leaving: membership.leaving.clone(),
            removed: membership.removed.clone(),
            is_settled: membership.is_settled,
            voters: [set(&conf.voters), set(&conf.voters_outgoing)],
        }
    }
}

impl StateHash {
    /// The reference has reached an index.
    pub(super) fn reached(&mut self, oracle: &Oracle) {
        if oracle.head().is_multiple_of(SAMPLE) {
            self.known.insert(oracle.head(), oracle.state.hash());
        }
    }

    /// A member has its state from somewhere else.
    pub(super) fn replaced(&mut self, member: u64) {
        self.due.insert(member);
    }

    pub(super) fn restore(&mut self) {
        self.known.clear();
        self.members.clear();
        self.due.clear();
    }

    /// A member stands at an index.
    pub(super) fn stands(
        &mut self,
        oracle: &Oracle,
        member: u64,
        index: u64,
        state: &State,
        membership: &Membership,
    ) -> Check {
        let is_due = self.due.remove(&member);
        if !is_due && !self.known.contains_key(&index) {
            return Ok(());
        }
        self.same(oracle, member, index, state)?;
        // Whoever joins does not know yet.
        let who = Who::of(membership);
        let known = self.members.entry(index).or_insert_with(|| who.clone());
        if index > 0 && *known != who {
            let what = format!("member {member} knows {who:?} at {index}, others {known:?}");
            return Err(broken("I2", what));
        }
        Ok(())
    }

    /// Compares a member's state with the reference.
    pub(super) fn same(
        &mut self,
        oracle: &Oracle,
        member: u64,
        index: u64,
        state: &State,
    ) -> Check {
        let known = match self.known.get(&index) {
            Some(known) => *known,
            // Whoever joins begins with nothing, and so does everybody before the first entry.
            None if index == 0 || oracle.head() == 0 => State::new().hash(),
            None => {
                let Some(expected) = oracle.state_at(index) else {
                    let head = oracle.head();
                    let what =
                        format!("member {member} stands at {index}, nobody came past {head}");
                    return Err(broken("I2", what));
                };
                *self.known.entry(index).or_insert(expected.hash())
            }
        };
        if state.hash() != known {
            let what = format!("the state of member {member} at index {index} is another one");
            return Err(broken("I2", what));
        }
        Ok(())
    }
}
