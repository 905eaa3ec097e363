//! Who belongs to the cluster.
//!
//! Owns: the members by number, what they are called and where they are reached, which of them
//! vote, and which numbers are used up. It changes only when an entry of the log says so, so all
//! members agree on it, and it travels in snapshots. Refuses: to let a number be used twice. The
//! engine would take a new disk for the old one and count its forgotten votes.
//!
//! A change is *settled* by a second entry, which its leader writes when it has applied the first.
//! Whoever has the second on disk knows from the same message that the first is committed. So when
//! the second is committed too, a majority of the members as they are now knows of the change, and
//! those who are not needed any more may go.

mod codec;

use std::collections::{BTreeMap, BTreeSet};

use raft::prelude::ConfState;

use crate::io::MemberId;
pub(crate) use codec::TEXT_BYTES_MAX;
pub use codec::{SETTLING, decode_member, encode_member, is_sound};

/// What a member is called and where it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its number. Drawn at random by a new data directory, so that it is never used twice.
    pub id: MemberId,
    /// What people call it.
    pub name: String,
    /// Where other members reach it.
    pub peer: String,
    /// Where clients reach it.
    pub client: String,
}

/// What a member may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is counted in quorums.
    Voter,
    /// It only follows.
    Learner,
}

/// Who belongs to the cluster, at one place of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Membership {
    /// The cluster.
    pub cluster_id: u64,
    /// Who votes and who learns, as the engine has it.
    pub conf: ConfState,
    /// All members.
    pub members: BTreeMap<MemberId, Member>,
    /// Numbers that are no members any more by a change that is not settled: those who remain may
    /// not know it yet, and may still need them.
    pub leaving: BTreeSet<MemberId>,
    /// Numbers that were members and are not any more.
    pub removed: BTreeSet<MemberId>,
    /// Whether a majority of the members knows of the last change, whatever crashes.
    pub is_settled: bool,
}

impl Membership {
    /// The first members of a cluster, all of them voters.
    #[must_use]
    pub fn founding(cluster_id: u64, members: impl IntoIterator<Item = Member>) -> Membership {
        let members: BTreeMap<_, _> = members.into_iter().map(|one| (one.id, one)).collect();
        let voters: Vec<u64> = members.keys().copied().collect();
        let conf = ConfState::from((voters, Vec::new()));
        Membership {
            cluster_id,
            conf,
            members,
            leaving: BTreeSet::new(),
            removed: BTreeSet::new(),
            is_settled: true,
        }
    }

    /// Whether a number is one of a member, in whatever role.
    #[must_use]
    pub fn contains(&self, id: MemberId) -> bool {
        let ConfState { voters, learners, voters_outgoing, learners_next, .. } = &self.conf;
        [voters, learners, voters_outgoing, learners_next].iter().any(|ids| ids.contains(&id))
    }

    /// What a member may do; nothing for a stranger.
    #[must_use]
    pub fn standing(&self, id: MemberId) -> Option<Standing> {
        if self.conf.voters.contains(&id) {
            return Some(Standing::Voter);
        }
        self.contains(id).then_some(Standing::Learner)
    }

    /// The voters, in ascending order.
    #[must_use]
    pub fn voters(&self) -> BTreeSet<MemberId> {
        self.conf.voters.iter().copied().collect()
    }

    /// Whether one change is still on its way through a joint configuration.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.conf.voters_outgoing.is_empty()
    }

    /// Takes over what the engine made of a change, and who came with it.
    pub fn change(&mut self, conf: ConfState, newcomer: Option<Member>) {
        self.conf = conf;
        if let Some(member) = newcomer.filter(|member| self.contains(member.id)) {
            self.members.insert(member.id, member);
        }
        let gone: Vec<MemberId> =
            self.members.keys().copied().filter(|&id| !self.contains(id)).collect();
        for id in gone {
            self.members.remove(&id);
            self.leaving.insert(id);
        }
        self.is_settled = false;
    }

    /// A majority of the members knows of all changes.
    pub fn settle(&mut self) {
        self.removed.append(&mut self.leaving);
        self.is_settled = true;
    }

    /// Whether a number was one of a member, and is used up.
    #[must_use]
    pub fn was_removed(&self, id: MemberId) -> bool {
        self.removed.contains(&id) || self.leaving.contains(&id)
    }
}
