//! What a running member does with those who come in.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::board::Board;
use super::edge::Clock;
use super::handle::Handle;
use super::inbox::{Happening, Inbox, Lane};
use super::log_writer::{LogWork, LogWriter};
use super::server::Door;
use crate::data_dir::Identity;
use crate::io::{ChangeError, Input, MemberId, PeerMessage};
use crate::membership::{Member, Membership};
use crate::peer::{Ask, Hello, Listed, Refusal, Told, VERSION_HIGHEST, VERSION_LOWEST};

pub(super) struct Hall {
    pub(super) identity: Identity,
    pub(super) inbox: Arc<Inbox>,
    pub(super) board: Arc<Board>,
    pub(super) handle: Handle,
    pub(super) writer: LogWriter,
    pub(super) clock: Clock,
}

impl Door for Hall {
    /// Also lets in those whom the log does not name yet: a member that lags behind must listen to
    /// a leader that came after what it knows.
    fn hello(&self, hello: &Hello, version: u32) -> Result<MemberId, Refusal> {
        let Identity { cluster_id, incarnation, node_id, ref name, .. } = self.identity;
        if hello.cluster_id != cluster_id {
            return Err(Refusal::OtherCluster { asked: hello.cluster_id, here: cluster_id });
        }
        if hello.incarnation != incarnation {
            let (asked, here) = (hello.incarnation, incarnation);
            return Err(Refusal::OtherIncarnation { asked, here });
        }
        if hello.to != node_id {
            let (asked, name) = (hello.to, name.clone());
            return Err(Refusal::OtherMember { asked, here: node_id, name });
        }
        if self.board.members().removed.contains(&hello.member) {
            return Err(Refusal::Removed { member: hello.member });
        }
        let met = Happening::Met(hello.member, hello.peer.clone());
        self.inbox.push_waiting(Lane::Control, met);
        // Its process may be another one than before, and of another build.
        let connected = Input::Connected(hello.member, version);
        self.inbox.push_waiting(Lane::Control, Happening::Input(connected));
        Ok(node_id)
    }

    fn ask(&self, ask: Ask) -> Result<Told, Refusal> {
        match ask {
            Ask::Change { cluster_id, .. }
                if cluster_id != 0 && cluster_id != self.identity.cluster_id =>
            {
                let here = self.identity.cluster_id;
                Err(Refusal::OtherCluster { asked: cluster_id, here })
            }
            Ask::Change { change, .. } => Ok(match self.handle.change(change) {
                Ok(()) => self.changed(),
                Err(ChangeError::NotLeader { leader }) => self.redirect(leader),
                Err(why) => Told::Unchanged(why),
            }),
            Ask::Form { list, member } => self.form(&list, &member),
        }
    }

    /// Feature level n needs version n: a build that does not speak it cannot apply the log.
    fn lowest_version(&self) -> u32 {
        self.board.feature_level().clamp(VERSION_LOWEST, VERSION_HIGHEST)
    }

    fn hear(
        &self,
        from: MemberId,
        messages: &mut Vec<PeerMessage>,
        bytes: usize,
    ) -> Option<Vec<LogWork>> {
        self.board.heard(from).store(self.clock.micros().0, Ordering::Relaxed);
        let mut inputs = messages.drain(..).map(|message| Input::Peer(from, message)).collect();
        self.inbox.push_from_peer(&mut inputs, bytes)
    }

    fn write(&self, work: Vec<LogWork>) {
        self.writer.write_claimed(work);
    }

    fn lost(&self, from: MemberId) {
        self.inbox.push_waiting(Lane::Own, Happening::Lost(from));
    }
}

impl Hall {
    fn changed(&self) -> Told {
        let membership = Membership::clone(&self.board.members());
        Told::Changed { incarnation: self.identity.incarnation, membership }
    }

    fn redirect(&self, leader: Option<MemberId>) -> Told {
        let members = self.board.members();
        let known = leader.and_then(|leader| members.members.get(&leader));
        match known {
            Some(leader) => Told::Redirect(leader.peer.clone()),
            None => Told::Unchanged(ChangeError::NotLeader { leader }),
        }
    }

    /// A node with an empty directory thinks that a cluster is still to be formed.
    fn form(&self, list: &[Listed], asker: &Member) -> Result<Told, Refusal> {
        let members = self.board.members();
        if members.contains(asker.id) {
            let incarnation = self.identity.incarnation;
            let membership = Membership::clone(&members);
            return Ok(match is_founding(&members, list) {
                true => Told::Founded { incarnation, membership },
                false => Told::Changed { incarnation, membership },
            });
        }
        if members.members.values().any(|member| member.name == asker.name) {
            return Err(Refusal::NameTaken { name: asker.name.clone() });
        }
        let (cluster_id, name) = (self.identity.cluster_id, self.identity.name.clone());
        Err(Refusal::Exists { cluster_id, name })
    }
}

/// Whether the members are still those that founded the cluster. Nobody was removed, so as many as
/// are on the list means that nobody was added either.
fn is_founding(members: &Membership, list: &[Listed]) -> bool {
    let same = Membership::founding(members.cluster_id, members.members.values().cloned());
    *members == same && members.members.len() == list.len()
}
