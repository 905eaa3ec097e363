//! Where the other members are, and the threads that send to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::board::Board;
use super::edge::Clock;
use super::inbox::Inbox;
use super::link::Link;
use super::run::spawn;
use super::sender::{Sender, bounce};
use crate::data_dir::Identity;
use crate::io::{MemberId, PeerMessage, ProposeError};
use crate::membership::Membership;

/// Members that greeted this one are remembered, also if the log does not name them yet. No cluster
/// has more.
const MET_MAX: usize = 256;

pub(super) struct AddressBook {
    pub(super) identity: Identity,
    pub(super) peer: String,
    pub(super) inbox: Arc<Inbox>,
    pub(super) board: Arc<Board>,
    pub(super) clock: Clock,
    /// Where members are, by their own word. It counts more than what the log says, which may be
    /// from before they moved.
    pub(super) met: BTreeMap<MemberId, String>,
    pub(super) links: BTreeMap<MemberId, Connection>,
}

pub(super) struct Connection {
    link: Arc<Link>,
    /// What this turn of the loop has for it.
    waiting: Vec<PeerMessage>,
}

impl AddressBook {
    /// Takes a message to be sent at the end of the turn. It is lost if nobody knows where to.
    pub(super) fn send(&mut self, to: MemberId, message: PeerMessage) {
        if !self.links.contains_key(&to)
            && let Some(connection) = self.connect(to)
        {
            self.links.insert(to, connection);
        }
        if let Some(connection) = self.links.get_mut(&to) {
            connection.waiting.push(message);
        }
    }

    fn connect(&self, to: MemberId) -> Option<Connection> {
        let members = self.board.members();
        let known = members.members.get(&to).map(|member| &member.peer);
        let address = self.met.get(&to).or(known)?.clone();
        let link = Arc::new(Link::to(address));
        let sender = Sender {
            to,
            link: Arc::clone(&link),
            identity: self.identity.clone(),
            peer: self.peer.clone(),
            inbox: Arc::clone(&self.inbox),
            board: Arc::clone(&self.board),
            clock: self.clock,
        };
        let name = format!("{}>{to:x}", self.identity.name);
        // Without a thread the message is lost, and the next one tries again.
        spawn(name, &self.inbox, move || sender.run()).ok()?;
        Some(Connection { link, waiting: Vec::new() })
    }

    /// Hands over what this turn has for each member.
    pub(super) fn flush(&mut self) {
        for (&to, connection) in &mut self.links {
            if !connection.waiting.is_empty() {
                let refused = connection.link.push_all(&mut connection.waiting);
                bounce(to, refused, ProposeError::Overloaded, &self.inbox);
            }
        }
    }

    /// A member says where it is reached.
    pub(super) fn met(&mut self, member: MemberId, address: String) {
        if let Some(connection) = self.links.get(&member) {
            connection.link.set_address(address.clone());
        }
        if self.met.len() < MET_MAX || self.met.contains_key(&member) {
            self.met.insert(member, address);
        }
    }

    /// The connection from a member has ended. The one to it may be over as well.
    pub(super) fn doubt(&self, member: MemberId) {
        if let Some(connection) = self.links.get(&member) {
            connection.link.doubt();
        }
    }

    /// Nobody talks to those who were removed.
    pub(super) fn forget_removed(&mut self, members: &Membership) {
        self.met.retain(|member, _| !members.removed.contains(member));
        for (member, connection) in
            self.links.extract_if(.., |member, _| members.removed.contains(member))
        {
            connection.link.close();
            self.board.update(|status| drop(status.links.remove(&member)));
        }
    }

    /// Ends all sending. Does not wait for the threads: one may be waiting for a machine that does
    /// not answer. They hold nothing that the next life of this node needs.
    pub(super) fn close(&mut self) {
        for connection in std::mem::take(&mut self.links).into_values() {
            connection.link.close();
        }
    }
}
