//! Stands for election as soon as the process of the leader is known to be gone.
//!
//! Standing is no risk: the others are asked first whether they miss the leader as well, and they do when
//! they have stood themselves. All notice at the same moment, and would only split the votes, so they take
//! turns. Whoever stands when a majority has stood before is elected, unless it lacks entries: a spare
//! member may. So there is a second round. By then everybody misses the leader, and whoever has most of the
//! log is elected.

use raft::INVALID_ID;

use super::Node;
use crate::io::{MemberId, Micros};

/// How long one member leaves to the one before it, in microseconds: a few times what a vote and its
/// sync take.
const TURN: u64 = 40_000;
/// How often everybody stands.
const ROUNDS: u64 = 2;

/// A leader that is gone, and how far this member is with succeeding it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Succession {
    leader: MemberId,
    term: u64,
    since: Micros,
    /// How often this member has stood.
    stood: u64,
}

impl Node {
    /// The process of a member is gone.
    pub(super) fn gone(&mut self, member: MemberId) {
        if self.role.leader == Some(member) && self.succession.is_none() {
            let (term, since) = (self.role.term, self.now);
            self.succession = Some(Succession { leader: member, term, since, stood: 0 });
        }
    }

    /// Stands for election, if it is this member's turn.
    pub(super) fn succeed(&mut self) {
        self.succession = self.succession.filter(|succession| self.is_vacant(succession));
        if self.succeed_at().is_none_or(|moment| moment > self.now) {
            return;
        }
        if let Some(succession) = &mut self.succession {
            succession.stood += 1;
        }
        self.stand();
    }

    /// When it is this member's turn to stand, if it may.
    pub(super) fn succeed_at(&self) -> Option<Micros> {
        let succession = self.succession.filter(|_| self.may_stand());
        let Succession { leader, since, stood, .. } = succession?;
        let successors = self.membership.voters().into_iter().filter(|&id| id != leader);
        let successors: Vec<MemberId> = successors.collect();
        let turn = successors.iter().position(|&id| id == self.config.id)? as u64;
        let wait = TURN * (turn + stood * successors.len() as u64);
        Some(Micros(since.0.saturating_add(wait)))
    }

    /// Whether nobody has succeeded that leader, and this member has not stood often enough.
    fn is_vacant(&self, succession: &Succession) -> bool {
        let raft = &self.raft.raft;
        // What it has said last may come after its end, so it may seem to lead again.
        let is_vacant = [INVALID_ID, succession.leader].contains(&raft.leader_id);
        raft.term == succession.term && is_vacant && succession.stood < ROUNDS
    }
}
