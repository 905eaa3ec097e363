//! What can be asked of the state: the vocabulary of the log.
//!
//! Every door ends in one of these. The numbers that identify them on disk are in
//! `codec/command.rs`; the work is in one file per verb under `lease/`, `kv/` and `lock/`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::ids::{
    Actor, Boot, CallId, ClientId, Epoch, Key, LeaseId, LockName, LogTime, Millis, Namespace,
    NodeId, PublicKey, Revision, Seq, Token, Value,
};
use crate::limits::Limits;
use crate::range::{KeyRange, RangeQuery};

/// One entry of the log: a stamp, and the commands that were packed under it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// The log time to which this entry moves the state. It never moves it back.
    pub at: LogTime,
    /// What to do at that time, in this order. None at all is how a leader lets leases end.
    pub commands: Vec<Command>,
}

/// One request, with who asks and how to recognise a repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Who asks, for the rules that decide whether they may.
    pub actor: Actor,
    /// Where. Only the default namespace exists today.
    pub namespace: Namespace,
    /// How a repeat of this very request is recognised, if it can be repeated.
    pub once: Option<Once>,
    /// What to do.
    pub action: Action,
}

impl From<Action> for Command {
    /// A command from nobody in particular, in the default namespace, that cannot be repeated.
    fn from(action: Action) -> Command {
        Command { actor: Actor::default(), namespace: Namespace::default(), once: None, action }
    }
}

/// Marks a request so that its repeats act once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// Whose counter `seq` is.
    pub by: Caller,
    /// This request's number, counted from one.
    pub seq: Seq,
    /// The caller has the answers to all numbers below this and will never ask for them again.
    pub ack_upto: Seq,
}

/// Whose numbers a request is counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The client's own. For requests that make or end a lease, that go by owner name, or that an
    /// operator makes.
    Client(ClientId),
    /// The lease's own, which end with it. For requests on locks.
    Lease(LeaseId),
}

/// A lease, and which grant of its id is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRef {
    /// The lease's id.
    pub id: LeaseId,
    /// The grant that is meant. [`Epoch::ANY`] comes from doors that know no epochs.
    pub epoch: Epoch,
}

impl From<LeaseId> for LeaseRef {
    fn from(id: LeaseId) -> LeaseRef {
        LeaseRef { id, epoch: Epoch::ANY }
    }
}

/// Everything that can be asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make a lease.
    LeaseGrant(LeaseGrant),
    /// Set the deadlines of many leases anew.
    LeaseRenew(LeaseRenew),
    /// End a lease and remove its keys.
    LeaseRevoke(LeaseRevoke),
    /// Tell that the connection of a lease's client is gone.
    Disconnect(Disconnect),
    /// Write a key.
    Put(Put),
    /// Remove keys.
    DeleteRange(DeleteRange),
    /// Compare, then do one of two lists, all at one revision.
    Txn(Box<Txn>),
    /// Forget history before a revision.
    Compact(Compact),
    /// Stand in a lock's queue, or take the lock.
    Acquire(Acquire),
    /// The same for several locks at once.
    AcquireMany(AcquireMany),
    /// End an acquire, whether it still waits or was just granted.
    Cancel(Cancel),
    /// Give a lock back.
    Release(Release),
    /// Give several locks back at one revision.
    ReleaseMany(ReleaseMany),
    /// Take a lock from its holder, as an operator.
    ForceRelease(ForceRelease),
    /// Forget a free lock.
    DeleteLock(DeleteLock),
    /// Acquire by owner name, without a lease of one's own.
    AcquireAs(AcquireAs),
    /// Renew what `AcquireAs` took.
    RenewAs(RenewAs),
    /// Release what `AcquireAs` took.
    ReleaseAs(ReleaseAs),
    /// Tell that calls were answered, so that their contenders no longer depend on them.
    CallsAnswered(CallsAnswered),
    /// Tell that a member's earlier boots, and with them their calls, are gone.
    NodeLost(NodeLost),
    /// Change the limits.
    SetLimits(Box<Limits>),
    /// Raise the level of behaviour that all members can apply.
    RaiseFeatureLevel(u32),
    /// Let a member's public key be believed.
    PublishKey(PublishKey),
    /// Ask a member for a new key.
    RotateKey(RotateKey),
    /// Tell that a member is gone for good and signs nothing more.
    RetireKeys(NodeId),
    /// Let a key be believed no longer.
    RevokeKey(RevokeKey),
    /// Change some limits and keep the others. From feature level 2 on.
    ChangeLimits(ChangeLimits),
    /// Renew what `AcquireAs` took, if it is held with one token. From feature level 2 on.
    RenewHeld(RenewHeld),
    /// Release what `AcquireAs` took, if its token is this one. From feature level 2 on.
    ReleaseHeld(ReleaseHeld),
    /// Write a key, unless that would block a lock. From feature level 2 on.
    PutPlain(Put),
    /// A command from a later version, marked by its author as safe to pass over.
    Skipped(u32),
}

/// Changes some limits and keeps the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeLimits {
    /// The longest lease.
    pub ttl_max: Option<Millis>,
    /// What the state may take.
    pub quota: Option<QuotaChange>,
    /// Leases that one client may have.
    pub leases_per_client_max: Option<u32>,
    /// Clients that may come from one address.
    pub clients_per_address_max: Option<u32>,
    /// Clear the alarm that a key was refused for want of space.
    pub clear_no_space: bool,
}

/// How the quota changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaChange {
    /// An operator sets it.
    Bytes(u64),
    /// An operator leaves it to the leader.
    Auto,
    /// The leader lowers it to fit the memory of the smallest voter. No effect if an operator has
    /// set it.
    Fit(u64),
}

/// Makes a lease.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseGrant {
    /// The id that is wanted; zero lets the state choose.
    pub id: LeaseId,
    /// How long it lives without a renewal.
    pub ttl: Millis,
    /// Who owns it.
    pub client: ClientId,
    /// Where that client was last heard from; empty if unknown.
    pub address: ClientId,
    /// If set, the lease is revoked this long after [`Disconnect`], unless renewed.
    pub revoke_on_disconnect: Option<Millis>,
}

/// Sets the deadlines of many leases anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseRenew {
    /// Which leases, each with a number that its answer echoes.
    pub renewals: Vec<Renewal>,
}

/// One renewal of one lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// The lease.
    pub lease: LeaseRef,
    /// A fresh number, so that the client knows which sending of its own an answer rests on.
    pub number: u64,
}

/// Ends a lease and removes its keys at one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseRevoke {
    /// Which.
    pub lease: LeaseRef,
}

/// Tells that the connection of a lease's client is gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disconnect {
    /// The lease whose connection it was.
    pub lease: LeaseRef,
    /// The number of the last renewal that came over that connection; zero if none did. If the
    /// lease was renewed by another one since, its client has a newer connection, and this one is
    /// not missed.
    pub renewal: u64,
}

/// Writes a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Put {
    /// The key.
    pub key: Key,
    /// Its new value.
    pub value: Value,
    /// The lease to attach it to; none detaches it.
    pub lease: LeaseId,
    /// Whether to answer with the previous value.
    pub prev: bool,
    /// Keep the present value.
    pub ignore_value: bool,
    /// Keep the present lease.
    pub ignore_lease: bool,
}

/// Removes keys.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteRange {
    /// Which keys.
    pub range: KeyRange,
    /// Whether to answer with what was removed.
    pub prev: bool,
}

/// Compares, then does one of two lists of operations, all at one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Txn {
    /// All must hold for `success` to be done.
    pub compares: Vec<Compare>,
    /// Done when all comparisons hold.
    pub success: Vec<Op>,
    /// Done otherwise.
    pub failure: Vec<Op>,
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Write a key.
    Put(Put),
    /// Remove keys.
    DeleteRange(DeleteRange),
    /// Read keys, seeing what this transaction has written so far.
    Range(RangeQuery),
    /// A transaction inside. Its comparisons look at the state before the outermost one.
    Txn(Box<Txn>),
}

/// A comparison, for every key of a range.
#[derive(Clone, Debug, PartialEq)]
pub struct Compare {
    /// Which keys. A single missing key is compared as zero; its value never compares.
    pub range: KeyRange,
    /// How what stands there must relate to `target`.
    pub relation: Relation,
    /// What to compare, and with what.
    pub target: CompareTarget,
}

/// How two sides of a comparison relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same.
    Equal,
    /// Greater than.
    Greater,
    /// Less than.
    Less,
    /// Anything else.
    NotEqual,
}

/// What is compared, and with what.
#[derive(Clone, Debug, PartialEq)]
pub enum CompareTarget {
    /// How many times the key was written since its creation.
    Version(u64),
    /// When it was created.
    Create(Revision),
    /// When it was last written.
    Mod(Revision),
    /// Its value.
    Value(Value),
    /// The lease it is attached to.
    Lease(LeaseId),
}

/// Forgets history before a revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compact {
    /// The first revision to keep.
    pub revision: Revision,
}

/// How a contender shares a lock with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// With nobody.
    #[default]
    Exclusive,
    /// With every other shared contender.
    Shared,
    /// With others that ask for the same number of permits, up to that number.
    Permit(u32),
}

impl Mode {
    /// How many can hold together in this mode.
    pub fn room(self) -> usize {
        match self {
            Mode::Exclusive => 1,
            Mode::Shared => usize::MAX,
            Mode::Permit(limit) => limit as usize,
        }
    }
}

/// How long an acquire may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: granted at once, or nothing is left behind.
    Try,
    /// At most so long, in log time. No time at all is the same as [`Wait::Try`].
    AtMost(Millis),
    /// As long as the lease lives.
    #[default]
    WhileLeased,
}

impl Wait {
    /// Whether there is no time to wait.
    pub fn is_try(self) -> bool {
        matches!(self, Wait::Try | Wait::AtMost(Millis::ZERO))
    }
}

/// What an acquire may ask for beside the lock itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// The user's own bytes, kept beside the key.
    pub metadata: Value,
    /// The value of the contender's key; elections announce themselves with it.
    pub value: Value,
    /// If the holder's lease runs out, nobody gets the lock for so long. Zero for no delay.
    pub lock_delay: Millis,
    /// Holding for longer than this raises an event. Zero for no budget.
    pub budget: Millis,
    /// After holding for so long, the lease is no longer renewed. Zero for no bound.
    pub hold_max: Millis,
    /// The call that asks, if it is one that may be cancelled. If it waits, what it waits for must
    /// not outlive it.
    pub call: Option<CallId>,
}

/// Stands in a lock's queue, or takes the lock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acquire {
    /// Which lock.
    pub name: LockName,
    /// Under which lease.
    pub lease: LeaseRef,
    /// How it may be shared.
    pub mode: Mode,
    /// How long to wait.
    pub wait: Wait,
    /// What else is asked for.
    pub terms: Terms,
}

/// Stands in several queues at one revision, and takes all the locks or none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcquireMany {
    /// Which locks, each with how it may be shared.
    pub locks: Vec<(LockName, Mode)>,
    /// Under which lease.
    pub lease: LeaseRef,
    /// How long to wait.
    pub wait: Wait,
    /// What else is asked for, of every lock.
    pub terms: Terms,
}

/// Ends an acquire, whether it still waits or was just granted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cancel {
    /// The lease that the acquire was made under.
    pub lease: LeaseRef,
    /// Which acquire.
    pub target: CancelTarget,
}

/// Which acquire a [`Cancel`] means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelTarget {
    /// The one with this number, even if it has not arrived yet.
    Seq(Seq),
    /// The contender in this lock's queue that was created at this revision.
    Contender(LockName, Token),
    /// The contender in this lock's queue that this call has made, or was the last to take up. A
    /// call that is gone must not end what a later one, also of another member, relies on.
    Call(LockName, CallId),
}

impl Default for CancelTarget {
    fn default() -> CancelTarget {
        CancelTarget::Seq(Seq::NONE)
    }
}

/// Gives a lock back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Release {
    /// Which lock.
    pub name: LockName,
    /// The lease that holds it.
    pub lease: LeaseRef,
    /// The token that was granted. Another holding of the same lease is not released.
    pub token: Token,
}

/// Gives several locks back at one revision, or none of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleaseMany {
    /// Which locks.
    pub names: Vec<LockName>,
    /// The lease that holds them.
    pub lease: LeaseRef,
    /// The token that they were granted with.
    pub token: Token,
}

/// Takes a lock from its holder, as an operator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForceRelease {
    /// Which lock.
    pub name: LockName,
    /// The token of the holder that is meant, so that its successor is safe.
    pub token: Token,
    /// Why, for the holder and the record.
    pub reason: ClientId,
    /// Do not wait for the holder's lease to run out. It may still believe that it holds.
    pub now: bool,
}

/// Forgets a free lock. A held one is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteLock {
    /// Which lock.
    pub name: LockName,
}

/// Acquires by owner name. The lease behind it belongs to (owner, lock) and ends with the lock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcquireAs {
    /// Which lock.
    pub name: LockName,
    /// The owner.
    pub client: ClientId,
    /// How long the lock is held without a renewal, counted from the grant.
    pub ttl: Millis,
    /// How long to wait. [`Wait::WhileLeased`] waits as long as `terms.call` lives.
    pub wait: Wait,
    /// What else is asked for.
    pub terms: Terms,
}

/// Renews what [`AcquireAs`] took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenewAs {
    /// Which lock.
    pub name: LockName,
    /// The owner.
    pub client: ClientId,
    /// The new length; zero keeps the old one.
    pub ttl: Millis,
}

/// Renews what [`AcquireAs`] took, if it is held with this token: a late copy never renews a later
/// holding of the same owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenewHeld {
    /// Which lock.
    pub name: LockName,
    /// The owner.
    pub client: ClientId,
    /// The new length; zero keeps the old one.
    pub ttl: Millis,
    /// The token that was granted.
    pub token: Token,
}

/// Releases what [`AcquireAs`] took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleaseAs {
    /// Which lock.
    pub name: LockName,
    /// The owner.
    pub client: ClientId,
}

/// Releases what [`AcquireAs`] took, or ends its wait, if its token is this one: a late copy never
/// ends a later holding of the same owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleaseHeld {
    /// Which lock.
    pub name: LockName,
    /// The owner.
    pub client: ClientId,
    /// The token of the grant, or of the place in the queue.
    pub token: Token,
}

/// Tells that calls are being answered, so that their contenders no longer depend on them.
///
/// It must be in the log before the answer leaves: a client that was told of a grant which is
/// then taken back as an orphan's would share the lock with its successor. The answer is
/// [`NotFound`](crate::Outcome::NotFound) if one of them is not there any more: then there is no
/// grant to tell of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallsAnswered {
    /// The calls' contenders: the key, the revision that created it, and the call.
    pub contenders: Vec<(Key, Token, CallId)>,
}

/// Tells that a member's boots up to this one, and with them their calls, are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLost {
    /// The member.
    pub node: NodeId,
    /// The last boot that is gone.
    pub boot: Boot,
}

/// Lets a member's public key be believed, so that it can sign fencing tokens with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishKey {
    /// The member that has the secret half.
    pub node: NodeId,
    /// The key.
    pub key: PublicKey,
    /// How long it gets around before the member signs with it. Zero, or a member that has no
    /// other active key, begins at once.
    pub after: Millis,
}

/// Asks a member for a new signing key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RotateKey {
    /// The member.
    pub node: NodeId,
    /// How long the new key gets around before the member signs with it.
    pub after: Millis,
}

/// Lets a signing key be believed no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevokeKey {
    /// Which.
    pub key: PublicKey,
}
