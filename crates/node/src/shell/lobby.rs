//! What a node does with those who come in before it is a member.

use super::log_writer::LogWork;
use super::server::Door;
use crate::io::{MemberId, PeerMessage};
use crate::membership::Member;
use crate::peer::{Ask, Hello, Listed, Refusal, Told};

/// Answers for a node that is not a member yet.
pub(super) struct Lobby {
    /// What this node brings to a cluster that is being formed; nothing if it does not want to form
    /// one.
    forming: Option<(Vec<Listed>, Member)>,
}

impl Lobby {
    /// For a node that only waits for itself.
    pub(super) fn closed() -> Lobby {
        Lobby { forming: None }
    }

    /// For a node that forms a cluster with others.
    pub(super) fn forming(list: Vec<Listed>, member: Member) -> Lobby {
        Lobby { forming: Some((list, member)) }
    }
}

impl Door for Lobby {
    fn hello(&self, _: &Hello, _: u32) -> Result<MemberId, Refusal> {
        Err(Refusal::NotReady)
    }

    fn ask(&self, ask: Ask) -> Result<Told, Refusal> {
        let (Ask::Form { list: theirs, .. }, Some((ours, member))) = (ask, &self.forming) else {
            return Err(Refusal::NotReady);
        };
        if theirs != *ours {
            return Err(Refusal::ListsDiffer { name: member.name.clone() });
        }
        Ok(Told::Draft(member.clone()))
    }

    fn hear(&self, _: MemberId, _: &mut Vec<PeerMessage>, _: usize) -> Option<Vec<LogWork>> {
        None
    }

    fn write(&self, _: Vec<LogWork>) {}

    fn lost(&self, _: MemberId) {}
}
