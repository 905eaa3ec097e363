//! Tells the other members what is committed, when there is somebody there who waits for it.
//!
//! The engine would say so at once, to each of them, and each would confirm it: half of all messages
//! of a cluster under load. But the next entries carry it as well, and until then only those could miss
//! it who wait for locks at the other members. If there were any lately, all members are told at once;
//! otherwise it waits for company, for `commit_wait` at most.

use std::collections::BTreeMap;

use raft::prelude::{Message, MessageType};

use super::Node;
use crate::io::{MemberId, Micros};

/// For so many ticks after a member has passed on such a command it is held to have clients: two seconds.
/// Clients often begin at any member and go on to the leader; those who stay and wait longer than this hear
/// of their locks up to nine milliseconds later.
const CLIENTS_KEPT: u64 = 200;

/// What the others know of what is committed.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Each was told of everything up to here. It need not have heard it: heartbeats say it again.
    commit: BTreeMap<MemberId, u64>,
    /// Since when there is more to be told.
    since: Option<Micros>,
    /// When a member last passed on a command of a client that may wait for a lock.
    asked: Option<u64>,
}

impl Node {
    /// A member has passed on a command of a client that may wait there.
    pub(super) fn note_clients(&mut self) {
        self.announced.asked = Some(self.ticks);
    }

    /// Entries that are sent to another tell it what is committed.
    pub(super) fn note_told(&mut self, message: &Message) {
        if message.get_msg_type() == MessageType::MsgAppend {
            self.announced.commit.insert(message.to, message.commit);
        }
    }

    /// Tells the others, if it is time to.
    pub(super) fn announce(&mut self) {
        if !self.leads() {
            self.announced.commit.clear();
            self.announced.since = None;
            return;
        }
        let commit = self.commit();
        let knows = |id: &MemberId| self.announced.commit.get(id) == Some(&commit);
        let ids = self.raft.raft.prs().iter().map(|(id, _)| *id);
        let will_know = |id: &MemberId| knows(id) || self.spare.waits_for(*id);
        let others: Vec<MemberId> =
            ids.filter(|id| *id != self.config.id && !will_know(id)).collect();
        if others.is_empty() {
            self.announced.since = None;
            return;
        }
        self.announced.since.get_or_insert(self.now);
        if self.announce_at().is_some_and(|moment| moment <= self.now) {
            self.announced.since = None;
            for id in others {
                // Whoever cannot be sent anything now is told when that is over.
                self.raft.raft.send_append(id);
                self.announced.commit.insert(id, commit);
            }
        }
    }

    /// Whether somebody may wait for a lock at another member.
    pub(super) fn has_clients_elsewhere(&self) -> bool {
        let kept = |asked: u64| asked.saturating_add(CLIENTS_KEPT) >= self.ticks;
        self.announced.asked.is_some_and(kept)
    }

    /// By when the others are to be told, if there is something to tell.
    pub(super) fn announce_at(&self) -> Option<Micros> {
        let wait = if self.has_clients_elsewhere() { 0 } else { self.config.commit_wait };
        self.announced.since.map(|since| Micros(since.0.saturating_add(wait)))
    }
}
