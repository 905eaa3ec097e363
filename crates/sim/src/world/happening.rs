//! Everything that can happen in the world.

use std::sync::Arc;

use fencepost_core::{Event, LockName, Token};
use fencepost_node::io::{Input, MemberId, PeerMessage};

use super::faults::{CopiedStep, StaleStep};
use super::network::Link;
use crate::client::{CallNumber, CallResult, ClientNumber, Request};

/// Something that happens at one moment.
pub(crate) enum Happening {
    /// Something happens to the process of a member. If it is paused, it finds it when it goes on.
    Member(MemberId, ToMember),
    /// Something happens to a client, with the same rule.
    Client(ClientNumber, ToClient),
    /// A paused member goes on, unless it was restarted meanwhile.
    Resume(MemberId, Life),
    /// A paused client goes on.
    ResumeClient(ClientNumber),
    /// A member that is down is started.
    Start(MemberId),
    /// A member that was taken out is switched off for good.
    Retire(MemberId),
    /// A write reaches the fenced store.
    Write(ClientNumber, LockName, Token),
    /// Links are cut, or a cut ends.
    Cut(Box<Cut>),
    /// The next fault is due.
    Fault,
    /// A disk that is set back to an older copy goes on.
    Stale(StaleStep),
    /// A data directory that was copied goes on.
    Copied(CopiedStep),
    /// A member is started with another build: whether with the older one.
    Rebuild(MemberId, bool),
    /// The operator looks after the cluster.
    Operate,
    /// Somebody should make a backup.
    Backup,
    /// All members are lost at once, and the backup is all that is left.
    Disaster,
    /// All faults end.
    Heal,
    /// The clients rest, so that the members can become equal.
    Rest,
}

/// Which life of a process is meant: what was planned for an earlier one does not concern it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life(pub(crate) u64);

/// Something that happens to the process of a member.
pub(crate) enum ToMember {
    /// Its timer.
    Tick(Life),
    /// A message arrives.
    Hears(MemberId, PeerMessage),
    /// Its disk has done a sync.
    Synced(Life),
    /// Its snapshot keeper has done a task.
    Kept(Life),
    /// A client's call arrives.
    Asked(ClientNumber, CallNumber, Arc<Request>),
    /// Anything else.
    Told(Life, Input),
}

/// Something that happens to a client.
pub(crate) enum ToClient {
    /// It wanted to be woken.
    Wake,
    /// An answer arrives.
    Answer(CallNumber, Option<u64>, Box<CallResult>),
    /// News of a contender arrives.
    News(Arc<Event>),
    /// The fenced store has answered.
    Written(LockName, Token, bool),
}

/// Links that are cut, or whose cut ends.
pub(crate) struct Cut {
    /// What was planned before the network healed does not happen any more.
    pub(crate) generation: u64,
    /// The links.
    pub(crate) links: Vec<Link>,
    /// Whether it begins.
    pub(crate) begins: bool,
}
