//! Requests on their way: sent, repeated, given up.
//!
//! A request that is not answered may have been done. It is sent again with the same number, to
//! another member, until an answer comes or nobody needs it any more.

use fencepost_core::command::{Caller, Mode};
use fencepost_core::{Action, Command, LockName, Seq, Token};
use fencepost_node::io::{Class, Micros};

use super::agent::Client;
use super::job::Job;
use super::{CallNumber, ClientAction, Request};

/// Numbers what a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OpNumber(pub(super) u64);

/// A request on its way.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) request: Request,
    pub(super) purpose: Purpose,
    /// A moment that is certainly not later than a grant which a coming answer tells of: when the
    /// last sending left that is known to have found the lock not granted yet, or the first one.
    pub(super) since: Micros,
    pub(super) call: Option<CallNumber>,
    /// When the present call was first sent.
    pub(super) call_sent: Micros,
    sends: u32,
}

/// What an answer is for.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// A lease to work with.
    GrantLease { seq: Seq, ttl_ms: u64 },
    /// To keep the lease.
    Renew,
    /// To get locks.
    Acquire(Want),
    /// To end an acquire.
    Cancel { seq: Seq, of: OpNumber },
    /// A request of the lease whose answer is only noted.
    Lease { seq: Seq },
    /// A request of the client whose answer is only noted.
    Own { seq: Seq },
    /// To keep what was acquired by owner name.
    RenewOwned { name: LockName, token: Token },
    /// To see whether a lock is still held, after the lease was renewed.
    Look { token: Token, renewed: Micros, changes: u64 },
    /// To see what is there, perhaps to take it away.
    Read { force: bool },
    /// Sent until it is answered, whatever the answer.
    Insist,
    /// Nobody cares.
    Nothing,
}

/// Locks that are wanted, and what for.
#[derive(Clone, Debug)]
pub(super) struct Want {
    pub(super) locks: Vec<(LockName, Mode)>,
    pub(super) seq: Seq,
    pub(super) ttl_ms: u64,
    pub(super) owner: bool,
    pub(super) cancelled: bool,
}

impl Purpose {
    /// Whether the request is sent again until it is answered.
    fn is_stubborn(&self) -> bool {
        !matches!(
            self,
            Purpose::Renew
                | Purpose::RenewOwned { .. }
                | Purpose::Look { .. }
                | Purpose::Read { .. }
                | Purpose::Nothing
        )
    }

    /// Whether the request ends with the lease.
    pub(super) fn is_of_lease(&self) -> bool {
        match self {
            Purpose::Acquire(want) => !want.owner,
            Purpose::Cancel { .. }
            | Purpose::Lease { .. }
            | Purpose::Renew
            | Purpose::Look { .. } => true,
            _ => false,
        }
    }
}

/// So many sendings of one call, then a new call.
const SENDS_MAX: u32 = 2;

impl Client {
    /// A command of the present lease.
    pub(super) fn lease_command(&self, seq: Seq, action: Action) -> Option<Request> {
        let session = self.session.as_ref()?;
        let once = session.counter.mark(Caller::Lease(session.lease.id), seq);
        Some(Request::Command(
            Class::Ordinary,
            Command { once: Some(once), ..Command::from(action) },
        ))
    }

    /// A command of the client itself.
    pub(super) fn own_command(&self, seq: Seq, action: Action) -> Request {
        let once = self.counter.mark(Caller::Client(self.name.clone()), seq);
        Request::Command(Class::Ordinary, Command { once: Some(once), ..Command::from(action) })
    }

    /// A command that is not numbered.
    pub(super) fn plain_command(class: Class, action: Action) -> Request {
        Request::Command(class, Command::from(action))
    }

    /// Sends a new request.
    pub(super) fn begin(&mut self, request: Request, purpose: Purpose) -> OpNumber {
        let number = self.prepare(request, purpose);
        self.send(number);
        number
    }

    /// Makes a request ready, to be sent a little later.
    pub(super) fn prepare(&mut self, request: Request, purpose: Purpose) -> OpNumber {
        self.next_op += 1;
        let number = OpNumber(self.next_op);
        let now = self.local;
        let op = Op { request, purpose, since: now, call: None, call_sent: now, sends: 0 };
        self.ops.insert(number, op);
        number
    }

    /// Sends a request as a new call.
    pub(super) fn send(&mut self, number: OpNumber) {
        let patience = self.patience(number);
        let now = self.local;
        let Some(op) = self.ops.get_mut(&number) else { return };
        if op.call.is_some() {
            return;
        }
        self.next_call += 1;
        let call = CallNumber(self.next_call);
        op.call = Some(call);
        op.call_sent = now;
        op.sends = 1;
        self.out.push(ClientAction::Call(call, op.request.clone()));
        self.calls.insert(call, number);
        self.agenda.add(Micros(now.0 + patience), Job::TimeOut(call));
    }

    /// How long to wait for an answer.
    fn patience(&mut self, number: OpNumber) -> u64 {
        let renews = self
            .ops
            .get(&number)
            .is_some_and(|op| matches!(op.purpose, Purpose::Renew | Purpose::RenewOwned { .. }));
        let ttl = self.session.as_ref().map_or(2_000_000, |session| session.ttl_ms * 1_000);
        // The first client finds out whether the service serves, and must not wait for long.
        let patience = if self.number.0 == 0 { 1_000_000 } else { self.plan.patience };
        let longest = if renews { (ttl / 6).clamp(80_000, 800_000) } else { patience };
        self.dice.between(longest * 7 / 10, longest)
    }

    /// A call was not answered in time: another member may do better.
    pub(super) fn time_out(&mut self, call: CallNumber) {
        let Some(&number) = self.calls.get(&call) else { return };
        let patience = self.patience(number);
        let at = Micros(self.local.0 + patience);
        let Some(op) = self.ops.get_mut(&number) else { return };
        self.out.push(ClientAction::Reconnect);
        if op.sends < SENDS_MAX && op.purpose.is_stubborn() {
            op.sends += 1;
            self.out.push(ClientAction::Call(call, op.request.clone()));
            self.agenda.add(at, Job::TimeOut(call));
            return;
        }
        self.out.push(ClientAction::GiveUp(call));
        self.calls.remove(&call);
        op.call = None;
        self.not_answered(number);
    }

    /// The present call of a request has ended without an answer to it.
    pub(super) fn not_answered(&mut self, number: OpNumber) {
        let Some(op) = self.ops.get(&number) else { return };
        if op.purpose.is_stubborn() {
            let wait = self.dice.between(30_000, 250_000);
            self.agenda.add(Micros(self.local.0 + wait), Job::Again(number));
            return;
        }
        let Some(op) = self.ops.remove(&number) else { return };
        match op.purpose {
            Purpose::Renew => self.renewal_failed(),
            Purpose::RenewOwned { name, token } => {
                let at = Micros(self.local.0 + 50_000);
                self.agenda.add(at, Job::RenewOwned(name, token));
            }
            _ => {}
        }
    }

    /// Nobody needs the answer any more.
    pub(super) fn abandon(&mut self, number: OpNumber) {
        let Some(op) = self.ops.remove(&number) else { return };
        if let Some(call) = op.call {
            self.calls.remove(&call);
            self.out.push(ClientAction::GiveUp(call));
        }
    }

    /// A request was answered for good. At times a copy of it turns up later.
    pub(super) fn finish(&mut self, number: OpNumber) {
        let Some(op) = self.ops.remove(&number) else { return };
        if self.dice.chance(self.plan.copies) && matches!(op.request, Request::Command(..)) {
            let at = Micros(self.local.0 + self.dice.between(20_000, 6_000_000));
            self.agenda.add(at, Job::Copy(Box::new(op.request)));
        }
    }
}
