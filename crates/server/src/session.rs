//! One stream with many requests open at once.
//!
//! Owns: which requests are open on a stream, and how each is answered. `Session`, `Watch` and
//! `LeaseKeepAlive` are all this, with different messages around it. The frames that are ready are
//! taken together and proposed together; the answers of a turn of the node wake the stream once.
//! Guarantees: every request is answered, or the stream ends. Refuses: to change anything when the
//! stream ends, except for leases that want to be revoked then.

mod answer;
mod ask;
mod incoming;
mod outgoing;
mod repeat;
mod sign;
mod turn;
mod watches;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::command::{Action, Command, Disconnect, LeaseRef};
use fencepost_core::{ClientId, Epoch, LeaseId, LockName, Revision};
use fencepost_node::io::{Class, RequestId};
use fencepost_node::shell::Line;
use fencepost_proto::v1;
use tokio::runtime::Handle;

pub(crate) use incoming::listen;
pub(crate) use outgoing::Outgoing;

use crate::deletion::Deletion;
use crate::error::Failure;
use crate::house::House;
use crate::outbox::{Answers, Item, Outbox};
use crate::pending::Ticket;
use crate::watch::Said;
use watches::Watches;

/// A map by numbers that this server has drawn, or that are few: nobody can make it slow.
type ByNumber<T> = HashMap<u64, T, foldhash::fast::RandomState>;

/// The only version of the protocol.
pub(crate) const VERSION: u32 = 1;

/// One stream.
pub(crate) struct Session {
    house: Arc<House>,
    line: Line,
    outbox: Arc<Outbox>,
    /// Where the client is.
    address: ClientId,
    /// Which header the client was told, if it is one who remembers.
    told: Option<AtomicU64>,
    state: Mutex<State>,
    /// Where its tasks run.
    runtime: Handle,
}

#[derive(Default)]
struct State {
    /// Who the client says it is; nothing before it has.
    client: Option<ClientId>,
    /// What is open, by the name that the node knows it by.
    open: ByNumber<Open>,
    /// The names that the client uses, of which there are at most as many as requests may be open.
    in_use: ByNumber<()>,
    watches: Watches,
    /// The leases that the client has named, and whether they are to be revoked when it is gone.
    leases: HashMap<LeaseId, Named>,
    /// The client sends nothing more.
    is_done: bool,
    /// How many frames the client has sent.
    frames: u64,
}

#[derive(Clone, Copy)]
struct Named {
    epoch: Epoch,
    /// Not known for leases that were granted elsewhere.
    revoke: Option<bool>,
    /// The number of the last renewal that came over this stream.
    renewal: u64,
}

/// A request that is not answered.
struct Open {
    request_id: u64,
    kind: Kind,
}

/// What a request was, as far as its answer depends on it.
enum Kind {
    LeaseGrant {
        revoke: bool,
    },
    Renew,
    LeaseRevoke(LeaseId),
    Acquire(Box<OpenAcquire>),
    Cancel,
    Release,
    GetLock,
    Put,
    Range,
    DeleteRange(Box<Deletion>),
    /// A look at the history for the watch of this number.
    Look(u64),
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Kind::LeaseGrant { .. } => "lease_grant",
            Kind::Renew => "renew",
            Kind::LeaseRevoke(_) => "lease_revoke",
            Kind::Acquire(_) => "acquire",
            Kind::Cancel => "cancel",
            Kind::Release => "release",
            Kind::GetLock => "get_lock",
            Kind::Put => "put",
            Kind::Range => "range",
            Kind::DeleteRange(_) => "delete_range",
            Kind::Look(_) => "watch",
        }
    }
}

struct OpenAcquire {
    ticket: Ticket,
    names: Vec<LockName>,
    lease: LeaseId,
    /// To ask again with, if it can be repeated.
    command: Option<Vec<u8>>,
    /// The position and the holder that were told last.
    told: Option<(u64, ClientId)>,
    signature: Signature,
}

/// Whether an acquire wants its tokens signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signature {
    /// It does not.
    Unwanted,
    /// If that can be done.
    Welcome,
    /// It does, or it wants no locks.
    Required,
}

impl Session {
    /// Opens a stream. `client` is who it is, for streams that do not begin with a greeting.
    pub(crate) fn open(
        house: &Arc<House>,
        address: ClientId,
        client: Option<ClientId>,
    ) -> Arc<Session> {
        let outbox = Arc::<Outbox>::default();
        let line = house.handle.line(Box::new(Answers(Arc::clone(&outbox))));
        house.metrics.sessions.inc();
        // Whoever greets speaks the protocol of sessions, in which headers may be brief.
        let told = client.is_none().then(AtomicU64::default);
        let state = Mutex::new(State { client, ..State::default() });
        let (house, runtime) = (Arc::clone(house), Handle::current());
        Arc::new(Session { house, line, outbox, address, told, state, runtime })
    }

    /// The header of an answer as of this revision.
    fn header_at(&self, revision: Revision) -> v1::Header {
        match &self.told {
            Some(told) => self.house.head.brief(told, revision),
            None => self.house.head.at(revision),
        }
    }

    /// The header of an answer that is about no revision in particular.
    fn header(&self) -> v1::Header {
        self.header_at(self.house.head.revision())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so it is never left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message that answers a request, or fails it.
    fn response(&self, request_id: u64, answer: Answered) -> v1::SessionResponse {
        let mut response = v1::SessionResponse { request_id, ..v1::SessionResponse::default() };
        match answer {
            Ok((header, answer)) => {
                response.header = Some(header);
                response.response = Some(answer);
            }
            Err(failure) => {
                response.header = Some(self.header());
                response.failure = Some(failure.into());
            }
        }
        response
    }

    /// Answers a request without asking the node.
    fn say(&self, request_id: u64, answer: Answered) {
        let response = self.response(request_id, answer);
        self.outbox.push(Item::Response(Box::new(response)));
    }

    /// Notes that the client uses a lease, and wants to hear when it loses a lock.
    fn name_lease(
        &self,
        state: &mut State,
        lease: LeaseRef,
        revoke: Option<bool>,
        renewal: Option<u64>,
    ) {
        let is_full = state.leases.len() >= crate::limits::LEASES_NAMED_MAX;
        let named = state.leases.get_mut(&lease.id);
        match named {
            Some(named) => {
                named.epoch = lease.epoch;
                named.revoke = revoke.or(named.revoke);
                named.renewal = renewal.unwrap_or(named.renewal);
            }
            None if is_full => {}
            None => {
                let renewal = renewal.unwrap_or_default();
                state.leases.insert(lease.id, Named { epoch: lease.epoch, revoke, renewal });
                self.house.fan_out.say(Said::Named(lease.id, Arc::clone(&self.outbox)));
            }
        }
    }

    /// The lease is gone: there is nothing more to hear of it, and nothing to revoke.
    fn unname_lease(&self, state: &mut State, lease: LeaseId) {
        if state.leases.remove(&lease).is_some() {
            self.house.fan_out.say(Said::Unnamed(lease, Arc::clone(&self.outbox)));
        }
    }

    /// Waits until the client had nothing open and sent nothing for so long, up to twice as long.
    pub(crate) async fn idle(&self, patience: Duration) {
        let mut before = None;
        loop {
            tokio::time::sleep(patience).await;
            let now = self.frames_if_unused();
            if now.is_some() && now == before {
                return;
            }
            before = now;
        }
    }

    /// How many frames have come; nothing, if the stream has a request, a watch or a lease.
    fn frames_if_unused(&self) -> Option<u64> {
        let state = self.state();
        let is_unused =
            state.open.is_empty() && state.watches.is_empty() && state.leases.is_empty();
        is_unused.then_some(state.frames)
    }

    /// The stream has ended. Whatever waits keeps its place; only who is told changes.
    pub(crate) fn end(&self) {
        self.house.metrics.sessions.dec();
        // First of all: whatever is on its way to this stream finds it ended.
        self.outbox.finish(None);
        let state = std::mem::take(&mut *self.state());
        let mut pending = self.house.pending();
        for open in state.open.into_values() {
            if let Kind::Acquire(acquire) = open.kind {
                pending.forget(&acquire.ticket);
            }
        }
        drop(pending);
        state.watches.end_all(&self.house);
        let mut gone = Vec::new();
        for (id, named) in state.leases {
            self.house.fan_out.say(Said::Unnamed(id, Arc::clone(&self.outbox)));
            if named.revoke.unwrap_or(true) {
                let (lease, renewal) = (LeaseRef { id, epoch: named.epoch }, named.renewal);
                let command = Command::from(Action::Disconnect(Disconnect { lease, renewal }));
                gone.push((self.line.draw(), command));
            }
        }
        if !gone.is_empty() {
            // Nobody is left to hear the answers. A lease that is not told of this runs out.
            drop(self.line.propose_all(Class::Ordinary, gone));
        }
    }
}

/// What a request is answered with.
type Answered = Result<(v1::Header, v1::session_response::Response), Failure>;

/// The number of an open request, as the state keeps it.
fn number(request: RequestId) -> u64 {
    request.number
}
