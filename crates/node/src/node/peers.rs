//! What this member knows about the processes of the other members.
//!
//! Owns: the version of each connection, the last introduction of each member, and when to introduce
//! this one. Guarantees: an introduction of an earlier process is dropped when a new connection
//! stands; a process that runs from a copy of a data directory is told to stop. Refuses: to introduce
//! this member over a connection of version 1, whose other side would close it.

use std::collections::{BTreeMap, BTreeSet};

use super::Node;
use crate::io::{Introduction, MemberId, Output, PeerMessage};

/// The version from which on members introduce themselves.
pub(super) const INTRODUCTION_VERSION: u32 = 2;

/// Messages may be lost, so an introduction is repeated after so many ticks: one second.
const INTRODUCE_TICKS: u64 = 100;

/// A member that waits for introductions before it votes asks for them after so many ticks.
const HANDSHAKE_TICKS: u64 = 5;

/// The level of builds that do not introduce themselves.
const FEATURE_LEVEL_SILENT: u32 = 1;

/// Processes that are remembered. No cluster has more members.
const PEERS_MAX: usize = 256;

/// What is known about the process of another member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerInfo {
    /// The version of the connection to it; 0 before there was one.
    pub version: u32,
    /// The last introduction that it sent over the present connection.
    pub introduction: Option<Introduction>,
    /// The last one that it sent over any connection.
    latest: Option<Introduction>,
}

impl PeerInfo {
    /// The feature level that it supports, if that is known.
    pub fn feature_level(&self) -> Option<u32> {
        let is_silent = (1..INTRODUCTION_VERSION).contains(&self.version);
        let silent = is_silent.then_some(FEATURE_LEVEL_SILENT);
        silent.or(self.introduction.map(|introduction| introduction.feature_level))
    }
}

/// The other members' processes.
#[derive(Debug, Default)]
pub(super) struct Peers {
    info: BTreeMap<MemberId, PeerInfo>,
    /// The highest commit index that each member has introduced itself with.
    pub(super) commits: BTreeMap<MemberId, u64>,
    /// For how many ticks this process waits for introductions before it votes.
    pub(super) patience: u64,
    /// The feature levels that were last shown.
    levels: BTreeMap<MemberId, u32>,
}

impl Peers {
    /// Nothing is known yet, and this process waits so many ticks for introductions.
    pub(super) fn new(patience: u64) -> Peers {
        Peers { patience, ..Peers::default() }
    }
}

impl Node {
    /// What is known about the process of another member.
    pub fn peer_info(&self, id: MemberId) -> Option<&PeerInfo> {
        self.peers.info.get(&id)
    }

    /// The usable memory of the voter that has least, in bytes. None unless it is known for all
    /// voters, on both sides of a joint configuration.
    pub fn smallest_voter_memory(&self) -> Option<u64> {
        let conf = &self.membership.conf;
        let mut smallest = None;
        for &id in conf.voters.iter().chain(&conf.voters_outgoing) {
            let memory = match id == self.config.id {
                true => self.config.memory_bytes,
                false => self.peer_info(id)?.introduction?.memory_bytes,
            };
            if memory == 0 {
                return None;
            }
            smallest = Some(smallest.map_or(memory, |least: u64| least.min(memory)));
        }
        smallest
    }

    /// A new connection to a member stands. Its process may be another one than before.
    pub(super) fn connected(&mut self, to: MemberId, version: u32, outputs: &mut Vec<Output>) {
        let Some(info) = self.info_of(to) else { return };
        (info.version, info.introduction) = (version, None);
        self.show_levels(outputs);
        self.introduce(to, true, outputs);
    }

    /// Says which feature levels the other members support, if that has changed.
    fn show_levels(&mut self, outputs: &mut Vec<Output>) {
        let known = self.peers.info.iter();
        let levels: BTreeMap<MemberId, u32> =
            known.filter_map(|(&id, info)| Some((id, info.feature_level()?))).collect();
        if levels != self.peers.levels {
            self.peers.levels.clone_from(&levels);
            outputs.push(Output::PeerLevels(levels));
        }
    }

    /// A member introduces itself.
    pub(super) fn introduced(
        &mut self,
        from: MemberId,
        introduction: Introduction,
        outputs: &mut Vec<Output>,
    ) {
        // What it has seen of this member is true, whatever its own disk is.
        self.check_witnessed(from, &introduction, outputs);
        if self.halted {
            return;
        }
        let is_below_witness = introduction.last_index < self.witness(from);
        if self.is_copy(from, &introduction) {
            let known = self.peer_info(from).and_then(|info| info.latest);
            let other = known.filter(|known| known.log_end() < introduction.log_end());
            let Introduction { boot, boot_nonce, .. } = other.unwrap_or(introduction);
            let copied = PeerMessage::CopiedDirectory { boot, boot_nonce };
            outputs.push(Output::SendBack(from, copied.clone()));
            outputs.push(Output::Send(from, copied));
            if other.is_none() {
                return;
            }
            self.forget_process(from);
        }
        // Its disk is old, or the message is. It halts if it reads the answer and it is the disk.
        if is_below_witness {
            // A copy that announces the address of the original is only reached this way.
            let own = self.introduction_to(from, false);
            outputs.push(Output::SendBack(from, PeerMessage::Introduction(Box::new(own))));
            self.introduce(from, false, outputs);
            return;
        }
        let Some(info) = self.info_of(from) else { return };
        (info.introduction, info.latest) = (Some(introduction), Some(introduction));
        let commit = self.peers.commits.entry(from).or_default();
        *commit = introduction.commit.max(*commit);
        self.note_introduction(from, &introduction);
        self.show_levels(outputs);
        if introduction.wants_answer {
            self.introduce(from, false, outputs);
        }
    }

    /// Repeats introductions, and notes what the other members have confirmed.
    pub(super) fn tick_peers(&mut self, outputs: &mut Vec<Output>) {
        self.note_witnesses();
        let is_due = self.ticks == 1 || self.ticks.is_multiple_of(INTRODUCE_TICKS);
        if !is_due {
            if self.awaits_handshakes() && self.ticks.is_multiple_of(HANDSHAKE_TICKS) {
                for id in self.unknown_voters() {
                    self.introduce(id, true, outputs);
                }
            }
            return;
        }
        let removed = &self.membership.removed;
        self.peers.info.retain(|id, _| !removed.contains(id));
        self.peers.commits.retain(|id, _| !removed.contains(id));
        self.forget_removed();
        self.introduce_to_all(outputs);
        self.show_levels(outputs);
    }

    /// Introduces this member to all others. The first message opens the connection.
    fn introduce_to_all(&self, outputs: &mut Vec<Output>) {
        let met = self.peers.info.keys();
        let ids: BTreeSet<MemberId> = self.membership.members.keys().chain(met).copied().collect();
        for id in ids.into_iter().filter(|&id| id != self.config.id) {
            let is_unknown = self.peer_info(id).is_none_or(|info| info.introduction.is_none());
            self.introduce(id, is_unknown, outputs);
        }
    }

    /// Introduces this member, unless the other side cannot read it. Before there was a connection
    /// the version is not known: the connection drops what its version does not have.
    fn introduce(&self, to: MemberId, wants_answer: bool, outputs: &mut Vec<Output>) {
        let version = self.peer_info(to).map_or(0, |info| info.version);
        if (1..INTRODUCTION_VERSION).contains(&version) {
            return;
        }
        let introduction = self.introduction_to(to, wants_answer);
        outputs.push(Output::Send(to, PeerMessage::Introduction(Box::new(introduction))));
    }

    fn introduction_to(&self, to: MemberId, wants_answer: bool) -> Introduction {
        let log = &self.raft.raft.raft_log;
        Introduction {
            boot: self.config.boot,
            boot_nonce: self.config.boot_nonce,
            feature_level: self.config.feature_level,
            memory_bytes: self.config.memory_bytes,
            last_term: log.term(log.persisted).unwrap_or_default(),
            last_index: log.persisted,
            commit: log.committed,
            witnessed: self.witness(to),
            wants_answer,
        }
    }

    /// Another member says that a process runs from a copy of a data directory.
    pub(super) fn copied(
        &mut self,
        from: MemberId,
        process: (u64, u64),
        outputs: &mut Vec<Output>,
    ) {
        // Said of an earlier process, it may arrive late.
        if process != (self.config.boot, self.config.boot_nonce) {
            return;
        }
        let name = self.membership.members.get(&from).map_or("?", |member| &member.name);
        outputs.push(Output::Halt(format!(
            "this node stops: its data directory is a copy of one that was started again\n\
             {name} knows another process of this member, which was started later or from the same \
             copy; two of them would vote twice\n\
             keep the other process; if there is none, remove this member with `fencepost member \
             rm`, then start it with an empty data directory and --join; see docs/operations.md"
        )));
        self.halted = true;
    }

    /// The place for what is known about a member. None for one too many.
    fn info_of(&mut self, id: MemberId) -> Option<&mut PeerInfo> {
        let info = &mut self.peers.info;
        let has_room = info.len() < PEERS_MAX || info.contains_key(&id);
        (has_room || self.membership.contains(id)).then(|| info.entry(id).or_default())
    }
}
