//! Planted bugs. A simulator that has never caught anything proves nothing.
//!
//! Each switch breaks one rule of the driver at the one place that keeps it. They exist only in
//! builds with the feature `mutants`; in all others `Node::mutant` is a constant `false`.

#[cfg(feature = "mutants")]
use crate::machine::LogTime;
use crate::machine::{Machine, Reply};
use crate::node::Node;

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Votes and acknowledgements leave before what they promise is durable.
    MessageBeforeSync,
    /// A vote is not persisted unless an entry is.
    VotesUnsynced,
    /// A leader counts itself in the quorum before its own disk has confirmed.
    LeaderCountsItselfEarly,
    /// An answer is given for whatever stands at its index, whoever proposed it.
    ReplyIgnoresTerm,
    /// A command is answered when it is proposed, before anybody else has it.
    AckBeforeQuorum,
    /// A leader that is deposed answers what it has proposed as if it had been done.
    DeposedLeaderAcks,
    /// What was on its way when leadership was lost is called refused, not unknown.
    LossCalledRefusal,
    /// A read is served as soon as the quorum has confirmed, before its index is applied.
    ReadBeforeApplied,
    /// A read is served without asking the quorum.
    ReadWithoutQuorum,
    /// Stamps come from the wall clock.
    WallClockStamps,
    /// Stamps run ahead of the clock.
    FastStamps,
    /// A batch is stamped when its first command comes, not when it is closed.
    StampWhenOpened,
    /// A new leader begins log time anew.
    TimeStartsAnew,
    /// A new leader gives every lease its full time again.
    DeadlinesResetByLeader,
    /// Nobody stamps the log so that leases can end.
    NoStamps,
    /// A forwarded command that the network has doubled is done twice.
    ForwardsDoneTwice,
    /// A snapshot lacks the last entry that it says it covers.
    SnapshotMissesItsIndex,
    /// A snapshot says who the members were, not who they are.
    SnapshotForgetsMembers,
    /// The log is purged up to the newest snapshot, as if that could not be damaged.
    PurgesTooMuch,
    /// Installing a snapshot loses the leases in it.
    InstallLosesGrants,
    /// A change of members counts from when it is appended, committed or not.
    MembersChangeOnAppend,
    /// A member goes on although another one has seen it confirm more than it has.
    WitnessIgnored,
    /// What was seen of the other members is forgotten when the leader changes.
    WitnessLostOnLeaderChange,
    /// A restarted member votes without waiting for the introductions of the others.
    VoteBeforeHandshake,
    /// Two processes that run from copies of one directory are not detected.
    CopiedDirectoryIgnored,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 25] = [
        Mutant::MessageBeforeSync,
        Mutant::VotesUnsynced,
        Mutant::LeaderCountsItselfEarly,
        Mutant::ReplyIgnoresTerm,
        Mutant::AckBeforeQuorum,
        Mutant::DeposedLeaderAcks,
        Mutant::LossCalledRefusal,
        Mutant::ReadBeforeApplied,
        Mutant::ReadWithoutQuorum,
        Mutant::WallClockStamps,
        Mutant::FastStamps,
        Mutant::StampWhenOpened,
        Mutant::TimeStartsAnew,
        Mutant::DeadlinesResetByLeader,
        Mutant::NoStamps,
        Mutant::ForwardsDoneTwice,
        Mutant::SnapshotMissesItsIndex,
        Mutant::SnapshotForgetsMembers,
        Mutant::PurgesTooMuch,
        Mutant::InstallLosesGrants,
        Mutant::MembersChangeOnAppend,
        Mutant::WitnessIgnored,
        Mutant::WitnessLostOnLeaderChange,
        Mutant::VoteBeforeHandshake,
        Mutant::CopiedDirectoryIgnored,
    ];
}

#[cfg(feature = "mutants")]
impl Node {
    /// Plants a bug, for tests that must catch it.
    pub fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// Plants a bug in the state machine.
    pub fn plant_core(&mut self, mutant: fencepost_core::Mutant) {
        self.machine.plant(mutant);
    }

    /// What a wall clock would show, which only a planted bug reads.
    pub fn set_wall_clock(&mut self, millis: u64) {
        self.wall_clock = millis;
    }
}

impl Node {
    /// The stamp that a planted bug puts in the place of the right one.
    #[cfg(feature = "mutants")]
    pub(crate) fn wrong_stamp(&self, right: LogTime) -> Option<LogTime> {
        match self.mutant? {
            Mutant::WallClockStamps => Some(LogTime(self.wall_clock)),
            Mutant::FastStamps => Some(LogTime(right.0 + right.0 / 5)),
            Mutant::StampWhenOpened => Some(LogTime(right.0 - self.batch_waited.min(right.0))),
            _ => None,
        }
    }

    /// Whether a planted bug is active. Never, in a shipped build.
    #[inline]
    pub(crate) fn mutant(&self, asked: Mutant) -> bool {
        #[cfg(feature = "mutants")]
        return self.mutant == Some(asked);
        #[cfg(not(feature = "mutants"))]
        {
            let _ = asked;
            false
        }
    }

    /// What a planted bug answers: what would come of everything in the log, committed or not.
    pub(crate) fn replies_ahead(&self, index: u64) -> Vec<Reply> {
        let mut ahead: Machine = self.machine.clone();
        let mut replies = Vec::new();
        let log = &self.raft.raft.raft_log;
        let context = raft::GetEntriesContext::empty(false);
        let entries = log.slice(ahead.applied() + 1, index + 1, None, context);
        for entry in entries.unwrap_or_default() {
            if entry.entry_type != 0 {
                ahead.pass(entry.index);
                continue;
            }
            replies = ahead.apply_answered(entry.index, &entry.data).unwrap_or_default();
        }
        replies
    }
}
