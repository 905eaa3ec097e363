//! Everything that can happen to a node, and everything it can want done.
//!
//! The node reads no clock, opens no file and no socket. Whoever runs it (threads in production,
//! the simulator in tests) hands it one [`Input`] at a time, together with the monotonic time,
//! and carries the [`Output`]s out in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use raft::prelude::EntryType;

use crate::machine::{Event, Order, Reply};
use crate::membership::{Member, Membership};
use crate::snapshot_keeper::{SnapshotDone, SnapshotTask};
use crate::snapshot_store::SnapshotId;
use crate::wal::{Batch, Entry, EntryRef, HardState, Start, Witness};

/// A member of the cluster, as Raft knows it. Never zero, never reused.
pub type MemberId = u64;

/// The name of a request in its answer. Both numbers only grow in the life of a process, so none
/// is used again while the request that had it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// The connection that the request came on.
    pub line: u64,
    /// Counts the requests of that connection.
    pub number: u64,
}

/// Microseconds on the monotonic clock of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(pub u64);

/// Something that happens to a node.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time went by. Expected every ten milliseconds.
    Tick,
    /// A message from another member.
    Peer(MemberId, PeerMessage),
    /// A client wants a command done.
    Propose(Proposal),
    /// A client wants to read the state as it is now, not as it was.
    Read(RequestId),
    /// All that was to be persisted up to this number is durable.
    Persisted(u64),
    /// Stand for election now: nobody else could be elected.
    Campaign,
    /// A connection to or from this member stands, and speaks this version of the peer protocol.
    Connected(MemberId, u32),
    /// The process of this member is gone: where it listened, nobody does.
    Gone(MemberId),
    /// Hand leadership to this member.
    TransferTo(MemberId),
    /// An operator, or a node that wants to join, asks for a change of members.
    Change(RequestId, Change),
    /// A snapshot task was carried out.
    Snapshot(SnapshotDone),
    /// An operator wants a snapshot of the state as it is now, for a backup.
    Save(RequestId),
    /// The free space of the disk has fallen below its reserve, or is above it again.
    DiskIsLow(bool),
}

/// A change of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Add a member that only follows until it is promoted.
    Add(Member),
    /// Let a member vote that has caught up.
    Promote(MemberId),
    /// Take a member out, for good.
    Remove(MemberId),
    /// Let `new`, which follows already, take the place of the voter `old` in one step.
    Replace {
        /// Who goes.
        old: MemberId,
        /// Who comes.
        new: MemberId,
    },
}

/// Why the members stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Only the leader can do it.
    #[error("this node does not lead")]
    NotLeader {
        /// Who does, if that is known.
        leader: Option<MemberId>,
    },
    /// One change at a time.
    #[error("another change of members is under way")]
    Pending,
    /// There is no such member.
    #[error("there is no member {0:x}")]
    UnknownMember(MemberId),
    /// Somebody else has this name.
    #[error("a member named {0} exists already")]
    NameTaken(String),
    /// This number was a member before.
    #[error("member {0:x} was removed, and its number is never used again")]
    WasRemoved(MemberId),
    /// The name or an address is longer than it may be, or the number is zero.
    #[error("the member's number, name or addresses cannot be used")]
    Malformed,
    /// It must have nearly all of the log before it votes.
    #[error("the member is {behind} entries behind")]
    NotCaughtUp {
        /// How many entries it lacks.
        behind: u64,
    },
    /// A cluster needs a voter.
    #[error("the last voter cannot be removed")]
    LastVoter,
    /// So few of the remaining voters answer that nothing could be decided any more.
    #[error("the voters that would remain and answer are no majority")]
    QuorumAtRisk,
    /// The leader was to go. It hands over first: ask its successor.
    #[error("the leader hands over before it goes")]
    HandingOver,
    /// It may or may not come to pass: leadership was lost while it was on its way.
    #[error("the outcome is unknown: leadership changed before it was seen")]
    Indeterminate,
}

/// A command on its way into the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// How its answer will be called.
    pub request: RequestId,
    /// How urgent it is.
    pub class: Class,
    /// The command.
    pub command: Order,
}

/// How a command is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// As soon as possible; shed first under overload.
    Ordinary,
    /// Waits a few milliseconds for company. Has room of its own, so that no flood of other
    /// requests can make a healthy holder lose its lease.
    Renewal,
}

/// What members say to each other.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerMessage {
    /// A message of the consensus engine, in its own encoding.
    Raft(Vec<u8>),
    /// A command for the leader.
    Forward(Forward),
    /// The answer to a forwarded command.
    Forwarded(ForwardNumber, Box<Answer>),
    /// Asks for pieces of a snapshot. Also sent without room, to say that it is still being
    /// worked on.
    SnapshotWanted {
        /// Which one.
        id: SnapshotId,
        /// The first piece that is missing, counted from zero.
        next: u64,
        /// How many pieces may be sent.
        room: u32,
    },
    /// A piece of a snapshot.
    SnapshotPiece(SnapshotPiece),
    /// There is no such snapshot any more.
    SnapshotGone(SnapshotId),
    /// Asks to be told if it is not a member any more.
    AmIAMember,
    /// The receiver is not a member any more, and will never be one under this number again.
    YouWereRemoved,
    /// The sender's process and log. Only over connections of version 2 or later.
    Introduction(Box<Introduction>),
    /// The process that introduced itself with these numbers runs from a copy of a data directory,
    /// and must stop. Only over connections of version 2 or later.
    CopiedDirectory {
        /// Its boot counter.
        boot: u64,
        /// Its nonce.
        boot_nonce: u64,
    },
}

/// What a member says about its process and its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// Counts the starts of the member's process.
    pub boot: u64,
    /// Drawn at random by each process: two processes that run from copies of one data directory
    /// differ in it.
    pub boot_nonce: u64,
    /// The highest feature level that the build supports.
    pub feature_level: u32,
    /// Usable memory in bytes; 0 if it is not known.
    pub memory_bytes: u64,
    /// The term of the last entry that is durable.
    pub last_term: u64,
    /// The index of the last entry that is durable.
    pub last_index: u64,
    /// The last entry that is known to be committed.
    pub commit: u64,
    /// The highest index that the sender has seen the receiver confirm durable and committed.
    pub witnessed: u64,
    /// Whether the sender waits for the receiver's introduction.
    pub wants_answer: bool,
}

impl Introduction {
    /// What the log ends with: its term, then its index. Of two logs of one member the later one
    /// has more.
    pub(crate) fn log_end(&self) -> (u64, u64) {
        (self.last_term, self.last_index)
    }
}

/// A piece of a snapshot on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPiece {
    /// Which snapshot.
    pub id: SnapshotId,
    /// Which piece, counted from zero.
    pub number: u64,
    /// Whether it is the last one.
    pub is_last: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A command on its way to the leader.
#[derive(Clone, Debug, PartialEq)]
pub struct Forward {
    /// The term in which the receiver is thought to lead.
    pub term: u64,
    /// How its answer will be called.
    pub number: ForwardNumber,
    /// How urgent it is.
    pub class: Class,
    /// The command, encoded.
    pub command: Vec<u8>,
}

/// Numbers the commands that one member forwards. They grow, also over its restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForwardNumber {
    /// The life of the sender's process.
    pub boot: u64,
    /// Counts within it.
    pub count: u64,
}

/// What came of a proposal.
pub type Answer = Result<Reply, ProposeError>;

/// Why a proposal has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// It was not done: there is no leader to do it.
    #[error("there is no leader")]
    NoLeader,
    /// It was not done: it is no command that this build can read.
    #[error("the command cannot be read")]
    Malformed,
    /// It was not done: too much is waiting.
    #[error("too many requests are waiting")]
    Overloaded,
    /// It may or may not be done: leadership was lost while it was on its way.
    #[error("the outcome is unknown: leadership changed before it was seen")]
    Indeterminate,
    /// It was not done: the leader's disk has only its reserve left, and this would make the state grow.
    #[error("the leader's disk is nearly full")]
    DiskFull,
}

/// Something that a node wants done, in the order in which it is given.
#[derive(Clone, Debug)]
pub enum Output {
    /// Append to the log and make it durable, then say [`Input::Persisted`].
    Persist(Persist),
    /// Send to a member. May be lost.
    Send(MemberId, PeerMessage),
    /// Send over the connection that the member has made. At its address another process of the same
    /// member may listen. May be lost.
    SendBack(MemberId, PeerMessage),
    /// Answer a proposal.
    Reply(RequestId, Answer),
    /// The state is fresh enough for this read now.
    ReadReady(RequestId),
    /// The read cannot be served.
    ReadFailed(RequestId, ProposeError),
    /// An entry was applied, and this happened.
    Applied(u64, Vec<Arc<Event>>),
    /// The role of this node, or who leads, has changed.
    Role(Role),
    /// Carry out a snapshot task, beside everything else, then say [`Input::Snapshot`]. Tasks are
    /// carried out one after the other, in order. Boxed, because there is an output for every answer, and
    /// hardly ever one of these.
    Snapshot(Box<SnapshotTask>),
    /// Let the log on disk begin after this entry: snapshots cover what is before. May be done at
    /// leisure, but in order with what is persisted.
    Purge(Start),
    /// The whole state was replaced by a snapshot. Whatever was derived from it must be looked at
    /// anew.
    Installed(SnapshotId),
    /// The members have changed.
    Members(Box<Membership>),
    /// The highest feature level that each other member is known to support has changed.
    PeerLevels(BTreeMap<MemberId, u32>),
    /// Answer a change of members.
    Changed(RequestId, Result<(), ChangeError>),
    /// Answer [`Input::Save`]: the snapshot on disk that was made.
    Saved(RequestId, Result<SnapshotId, String>),
    /// This node is not a member any more. It does nothing from here on; the process should stop.
    Removed,
    /// The node cannot go on without risking to diverge. The process must stop. Three lines for the
    /// operator: what happened, why, what to do.
    Halt(String),
}

/// What must be durable before anything that depends on it is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Persist {
    /// To be named in [`Input::Persisted`]. It grows.
    pub number: u64,
    /// The term, the vote and the commit index.
    pub hard_state: HardState,
    /// If a snapshot replaces the log: what the new log begins after.
    pub start: Option<Start>,
    /// New entries. The first one replaces what stands at its index and all after it.
    pub entries: Vec<Entry>,
    /// What was seen of other members. It is never the reason for a write.
    pub witnesses: Vec<Witness>,
}

impl Persist {
    /// The same, as the log takes it.
    pub fn batch(&self) -> Batch<'_> {
        let entries = self.entries.iter().map(EntryRef::from).collect();
        let witnesses = self.witnesses.clone();
        Batch { start: self.start, hard_state: Some(self.hard_state), entries, witnesses }
    }

    /// Whether these are only commands: nothing that changes who is a member, or replaces the log.
    pub fn is_plain(&self) -> bool {
        let is_command = |entry: &Entry| i32::from(entry.kind) == EntryType::EntryNormal as i32;
        self.start.is_none() && self.entries.iter().all(is_command)
    }
}

/// What a node is, and whom it follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// The term.
    pub term: u64,
    /// Who leads, if that is known.
    pub leader: Option<MemberId>,
    /// Whether it is this node.
    pub leads: bool,
}
