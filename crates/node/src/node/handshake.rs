//! Keeps a member whose disk may be old from helping to elect a leader that lacks committed entries.
//!
//! Owns: when a member that was restarted may vote and campaign. Guarantees: it first waits for the
//! introductions of the other voters, for two election timeouts at most; after that it neither votes
//! for a candidate nor campaigns with a log that ends before an entry that a present member has said
//! to be committed. Refuses: to wait for members of peer protocol 1, which cannot introduce
//! themselves.

use raft::INVALID_ID;
use raft::prelude::Message;

use super::Node;
use super::peers::INTRODUCTION_VERSION;
use crate::config::NodeConfig;
use crate::io::MemberId;
use crate::mutant::Mutant;

/// For how many ticks a process waits for introductions. A member that starts for the first time
/// has nothing that it could have forgotten.
pub(super) fn patience(config: &NodeConfig) -> u64 {
    if config.boot > 1 { 2 * config.election_ticks.0 as u64 } else { 0 }
}

impl Node {
    /// Whether this member was just restarted and lacks the introduction of a voter.
    pub(super) fn awaits_handshakes(&self) -> bool {
        self.ticks < self.peers.patience
            && self.unknown_voters().next().is_some()
            && !self.mutant(Mutant::VoteBeforeHandshake)
    }

    /// The other voters, on both sides of a joint configuration, that have not introduced themselves
    /// and could.
    pub(super) fn unknown_voters(&self) -> impl Iterator<Item = MemberId> {
        let conf = &self.membership.conf;
        let voters = conf.voters.iter().chain(&conf.voters_outgoing).copied();
        voters.filter(|&id| {
            let is_unknown = self.peer_info(id).is_none_or(|info| {
                info.introduction.is_none() && !(1..INTRODUCTION_VERSION).contains(&info.version)
            });
            id != self.config.id && is_unknown
        })
    }

    /// The highest entry that a present member has said to be committed.
    fn claimed_commit(&self) -> u64 {
        let claims = self.peers.commits.iter();
        let present = claims.filter(|(id, _)| self.membership.contains(**id));
        present.map(|(_, commit)| *commit).max().unwrap_or_default()
    }

    /// Whether this member may vote for the candidate that asks.
    pub(super) fn may_vote_for(&self, request: &Message) -> bool {
        !self.awaits_handshakes() && request.index >= self.claimed_commit()
    }

    /// Whether this member may campaign, as far as its log goes.
    pub(super) fn may_claim_office(&self) -> bool {
        !self.awaits_handshakes() && self.last_index() >= self.claimed_commit()
    }

    /// Lets time pass for a member that must not campaign. When it would, it only notices that its
    /// leader is gone: as long as it thinks that there is one, it votes for no other.
    pub(super) fn tick_without_campaign(&mut self) {
        let raft = &mut self.raft.raft;
        if raft.election_elapsed + 1 < raft.randomized_election_timeout() {
            self.raft.tick();
        } else {
            let term = raft.term;
            raft.become_follower(term, INVALID_ID);
        }
    }
}
