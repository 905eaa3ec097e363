//! What the state answers. A refusal is an answer too, and is replicated like any other.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::event::{Cause, KeyValue};
use crate::ids::{ClientId, Epoch, Key, LeaseId, LogTime, Millis, Revision, Token};
use crate::range::RangeAnswer;
pub use crate::reason::Reason;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The revision of the state right after the command; for one that changed keys, the
    /// revision of that change.
    pub revision: Revision,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Done, and there is nothing more to say.
    Done,
    /// A lease was made.
    LeaseGranted(Granted),
    /// Each renewal's answer, in the order of the request.
    LeasesRenewed(Vec<Renewed>),
    /// A lease was ended, together with so many keys.
    LeaseRevoked(u64),
    /// A key was written; here is what stood there before, if that was asked for.
    Put(Option<Box<KeyValue>>),
    /// So many keys were removed; here they are, if that was asked for.
    Deleted(u64, Vec<KeyValue>),
    /// The first keys of a range were removed, as many as one command may remove.
    DeletedPart(Box<DeletedPart>),
    /// A transaction was done.
    Txn(Box<TxnAnswer>),
    /// The lock is held. This is the only answer that carries a token to somebody new.
    Acquired(Grant),
    /// The caller held it already: the same token, and the lease is fresh again.
    Renewed(Grant),
    /// The caller waits in the queue.
    Queued(Box<Place>),
    /// All the locks are held, with one token.
    AcquiredMany(Box<GrantMany>),
    /// The caller waits until it is at the head of all the queues. Its place is the one in the
    /// queue of the lock that it named first.
    Reserved(Box<Place>),
    /// The lock is not held any more.
    Released,
    /// An operator's release is under way; the lock passes on at this moment at the latest.
    ReleasePending(LogTime),
    /// The acquire ended without a grant, or its grant was taken back, for this cause.
    Ended(Cause),
    /// There was nothing to do it to. Repeating a release ends here.
    NotFound,
    /// Somebody else has it.
    Denied(Denial),
    /// The request cannot be served; nothing was changed.
    Rejected(Reason),
}

/// The answer to the removal of a range that has more keys than one command may remove.
#[derive(Clone, Debug, PartialEq)]
pub struct DeletedPart {
    /// So many keys were removed.
    pub count: u64,
    /// They, if that was asked for.
    pub removed: Vec<KeyValue>,
    /// The first key that was not removed.
    pub next: Key,
}

/// A lease that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// Its id.
    pub id: LeaseId,
    /// How long it lives without a renewal.
    pub ttl: Millis,
    /// Which grant of that id this is.
    pub epoch: Epoch,
}

/// The answer to one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The lease.
    pub id: LeaseId,
    /// The number that the renewal came with.
    pub number: u64,
    /// What came of it.
    pub result: RenewResult,
}

/// What came of one renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewResult {
    /// It lives for so long from the moment of the entry.
    Alive {
        /// The time it has.
        ttl: Millis,
        /// How often its contenders changed. A number that the client did not cause means that
        /// it should look at its locks.
        changes: u64,
    },
    /// It is gone: ended, never granted, or granted anew since.
    Gone,
    /// It lives until its deadline, but is not renewed any more: a lock was held for too long.
    HeldTooLong,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The holder's key.
    pub key: Key,
    /// The fencing token.
    pub token: Token,
    /// The lease that holds it.
    pub lease: LeaseId,
    /// How long that lease still lives.
    pub remaining: Millis,
}

/// Several locks that are held together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantMany {
    /// The holder's keys, in the order in which the locks were named.
    pub keys: Vec<Key>,
    /// The fencing token, the same for all.
    pub token: Token,
    /// The lease that holds them.
    pub lease: LeaseId,
    /// How long that lease still lives.
    pub remaining: Millis,
}

/// A place in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The contender's key.
    pub key: Key,
    /// The key just ahead of it, whose end moves it forward.
    pub predecessor: Key,
    /// How many do not hold up to and including this one; one is next. Foreign keys ahead count
    /// too: they are in the way.
    pub position: u64,
    /// Who is first in the queue, and so holds the lock if anybody does: its client, or its key if
    /// it has none.
    pub holder: ClientId,
}

/// The answer of a transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxnAnswer {
    /// Whether the comparisons held.
    pub succeeded: bool,
    /// The answer of each operation that was done.
    pub answers: Vec<OpAnswer>,
}

/// The answer of one operation of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum OpAnswer {
    /// A key was written.
    Put(Option<Box<KeyValue>>),
    /// So many keys were removed.
    Deleted(u64, Vec<KeyValue>),
    /// What a read found.
    Range(RangeAnswer),
    /// A transaction inside.
    Txn(TxnAnswer),
}

/// Somebody else has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The lock is held, or waited for, by this client.
    Held(ClientId),
    /// The lock stands free for a while after its last holder was lost.
    Delayed(LogTime),
    /// The lock belongs to another owner.
    NotOwner,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::Held(owner) => write!(f, "Lock held by {owner}"),
            Denial::Delayed(until) => write!(f, "Lock delayed until {} ms of log time", until.0),
            Denial::NotOwner => f.write_str("Not the lock owner"),
        }
    }
}
