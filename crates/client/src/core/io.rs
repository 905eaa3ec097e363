//! Everything that can happen to a session, and everything it can want done.
//!
//! The session reads no clock and opens no connection. Whoever runs it (a thread in production, a
//! simulation in tests) hands it one [`Input`] at a time, together with the time on the client's
//! clock, and carries the [`Output`]s out in order.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fencepost_proto::v1 as pb;

use super::time::Moment;
use crate::error::Error;

/// A request of the user, by a number that the caller chooses and never uses again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// Something held: the locks of one acquire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

/// A lease, by the session's own number: it has one before the service has named it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseNo(pub u64);

/// A watch, by a number that the caller chooses and never uses again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub u64);

/// One connection, by a number that is never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Something that happens to a session.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time went by.
    Tick,
    /// The stream that was asked for is open.
    LinkUp(LinkId),
    /// The stream could not be opened, or has ended.
    LinkDown(LinkId, String),
    /// A frame from the service.
    Frame(LinkId, Box<pb::SessionResponse>),
    /// Answer when the service has been reached.
    Ready(OpId),
    /// Acquire a lock, or several.
    Acquire(OpId, Arc<LockSpec>),
    /// Nobody waits for this acquire any more: nothing of it may stay behind.
    Abandon(OpId),
    /// A guard of this hold is done. With a number if somebody waits for the outcome.
    Release(HoldId, Option<OpId>),
    /// Make a lease for the user.
    GrantLease(OpId, LeaseSpec),
    /// Look after a lease that exists already.
    AdoptLease(OpId, AdoptedLease),
    /// Renew a user's lease once.
    RenewLease(OpId, LeaseNo),
    /// Whether to renew a user's lease by itself.
    KeepAlive(LeaseNo, bool),
    /// End a user's lease.
    RevokeLease(OpId, LeaseNo),
    /// The user has dropped a lease: renew it no more, and let it run out.
    ForgetLease(LeaseNo),
    /// A request that goes to the service as it is.
    Call(OpId, Box<Call>),
    /// Begin a watch.
    Watch(WatchId, WatchSpec),
    /// End a watch.
    Unwatch(WatchId),
    /// The reader of a watch cannot take more. Everything up to what was last delivered is kept.
    WatchFull(WatchId),
    /// The reader of a watch has room again.
    WatchRoom(WatchId),
    /// Finish what is under way, begin nothing new.
    Close,
}

/// Something that a session wants done.
#[derive(Clone, Debug)]
pub enum Output {
    /// Open a session stream to this endpoint, then say [`Input::LinkUp`] or [`Input::LinkDown`].
    /// Others may be open meanwhile: at most two.
    Connect(LinkId, String),
    /// Drop this stream, or stop opening it.
    Disconnect(LinkId),
    /// Send a frame.
    Send(LinkId, Box<pb::SessionRequest>),
    /// The service was reached and has agreed to the session, which this stream carries from now on.
    Connected(LinkId, String),
    /// A [`Input::Ready`] is answered.
    Ready(OpId),
    /// A request has failed.
    Failed(OpId, Error),
    /// The acquire waits, and this is how it stands now.
    Queued(OpId, Place),
    /// The lock is held.
    Acquired(OpId, Box<Held>),
    /// A hold is good for longer.
    Extended(HoldId, Validity),
    /// A hold is lost. Final.
    Lost(HoldId, Loss),
    /// The last guard of a hold is done.
    Freed(HoldId),
    /// A release is answered.
    Released(OpId, Released),
    /// A lease was made or adopted.
    LeaseMade(OpId, LeaseMade),
    /// A user's lease is good for longer. The request, if one asked for the renewal.
    LeaseExtended(LeaseNo, Moment, Option<OpId>),
    /// A user's lease has ended.
    LeaseGone(LeaseNo),
    /// A user's lease was ended, with so many keys.
    LeaseRevoked(OpId, u64),
    /// A call is answered.
    Answered(OpId, Box<pb::SessionResponse>),
    /// A watch has something to tell.
    Watched(WatchId, WatchNews),
}

/// How a lock is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// With nobody.
    #[default]
    Exclusive,
    /// With every other shared holder.
    Shared,
    /// With others that ask for the same number of permits, up to that number.
    Permits(u32),
}

/// How long an acquire may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Not at all.
    Try,
    /// At most so long.
    AtMost(Duration),
    /// Until it is granted, or its lease is lost.
    #[default]
    Forever,
}

/// What is to be acquired, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockSpec {
    /// Which locks.
    pub names: Arc<[String]>,
    /// How they are shared.
    pub mode: Mode,
    /// How long the lease lives without a renewal.
    pub ttl: Duration,
    /// How long to wait.
    pub wait: Wait,
    /// Bytes of the user's own, kept beside the lock.
    pub metadata: Bytes,
    /// The value of the key that stands for this holder.
    pub value: Bytes,
    /// How long nobody gets the lock if this holder is lost.
    pub lock_delay: Duration,
    /// Holding for longer than this raises an event.
    pub budget: Duration,
    /// After holding for so long, the lease is no longer renewed.
    pub hold_max: Duration,
    /// Whether a signed token is wanted.
    pub signed: bool,
    /// Whether one is welcome, and the locks are wanted all the same without it.
    pub signed_if_possible: bool,
    /// Whether other reentrant acquires of this client share the hold.
    pub reentrant: bool,
    /// How long work may go on without a confirmed renewal. Half the TTL if not given.
    pub safety_window: Option<Duration>,
}

/// Where an acquire stands that waits for its turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// One is next.
    pub position: u64,
    /// The client that holds the lock, as it calls itself; or a key in the way that has none.
    pub holder: String,
}

/// What lease to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseSpec {
    /// How long it lives without a renewal.
    pub ttl: Duration,
    /// Its id; zero lets the service choose.
    pub id: i64,
    /// If not zero, the lease is revoked so long after the session is lost.
    pub revoke_on_disconnect: Duration,
    /// Whether to renew it by itself.
    pub keep_alive: bool,
}

/// A lease that somebody else has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdoptedLease {
    /// Its id.
    pub id: i64,
    /// Which grant of it.
    pub epoch: u64,
    /// How long it lives without a renewal.
    pub ttl: Duration,
    /// Whether to renew it by itself.
    pub keep_alive: bool,
}

/// A lease that is there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseMade {
    /// The session's number for it.
    pub no: LeaseNo,
    /// Its id.
    pub id: i64,
    /// Which grant of it.
    pub epoch: u64,
    /// Its TTL, as granted.
    pub ttl: Duration,
    /// Until when it may be believed in.
    pub until: Moment,
}

/// A lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The hold. Several guards may share one.
    pub hold: HoldId,
    /// The locks' names.
    pub names: Arc<[String]>,
    /// The keys that stand for the holder.
    pub keys: Vec<String>,
    /// The fencing token.
    pub token: i64,
    /// If it was asked for.
    pub signed_token: String,
    /// The lease's id.
    pub lease_id: i64,
    /// How long the hold is good for.
    pub validity: Validity,
}

/// How long a hold is good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validity {
    /// The service cannot give the lock to anybody else before this.
    pub deadline: Moment,
    /// From here on the hold counts as lost, unless a renewal is confirmed before.
    pub cutoff: Moment,
}

/// Why a lock is not held any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// No renewal was confirmed in time: the service may be out of reach.
    Unconfirmed,
    /// The lease has ended: it expired, was revoked, or the cluster was restored from a backup.
    LeaseGone,
    /// The lock was taken away.
    Taken {
        /// Why, as the service says it.
        cause: String,
    },
    /// An operator asks for the lock. It passes on at the deadline, or when it is released.
    Asked {
        /// The operator's reason.
        reason: String,
    },
    /// The lock was held for longer than its bound, and its lease is not renewed any more.
    HeldTooLong,
    /// The guard was released.
    Released,
}

/// What came of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lock was held to the end, and is free for the next.
    InTime,
    /// The lock had been lost before. Somebody else may have had it meanwhile.
    AfterLoss,
    /// Other guards of the same reentrant hold are still there.
    StillShared,
}

/// A request that goes to the service as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The request.
    pub request: pb::session_request::Request,
    /// Whether sending it twice does no harm.
    pub repeatable: bool,
}

/// What to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchSpec {
    /// The key.
    pub key: String,
    /// All keys that begin with it.
    pub prefix: bool,
    /// From this revision on; zero means from now on.
    pub from: i64,
    /// Whether to tell what a key was before.
    pub prev_kv: bool,
    /// Whether to tell what happens to locks without a change of keys.
    pub lock_events: bool,
    /// Whether to leave out writes.
    pub no_put: bool,
    /// Whether to leave out deletions.
    pub no_delete: bool,
}

/// What a watch has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchNews {
    /// It has begun; everything after this revision will be told.
    Started(i64),
    /// Something happened.
    Events(Vec<pb::Event>),
    /// It has ended, and will tell nothing more.
    Ended(Error),
}
