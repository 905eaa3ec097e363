//! Requests that wait for their answer, and their repeats.
//!
//! A [`Ticket`] is one request as the user or the session means it. It may be sent several times,
//! over several connections; what is numbered acts once. A ticket that nobody waits for any more
//! lives on only while its effect helps others, and then for a bounded time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use super::Session;
use super::io::{HoldId, LeaseNo, LinkId, OpId, Output, WatchId};
use super::time::Moment;
use super::timers::Timer;

/// After so long without an answer on a good connection, a request is sent again.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_MAX: Duration = Duration::from_secs(8);
/// After a refusal that may pass, a request is sent again after so long.
const RETRY: Duration = Duration::from_millis(25);
const RETRY_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TicketId(u64);

/// What a request is for.
#[derive(Clone, Debug)]
pub(super) enum Task {
    Grant(LeaseNo),
    Revoke(LeaseNo, Option<OpId>),
    Acquire(OpId),
    Cancel(OpId),
    /// Gives back what an acquire got that nobody wants any more.
    Return(OpId),
    Release {
        lease: LeaseNo,
        locks: u64,
        op: Option<OpId>,
    },
    Verify(HoldId, usize),
    Call(OpId),
}

impl Task {
    /// Held back while too much is open. What keeps or gives back locks never is.
    fn is_ordinary(&self) -> bool {
        matches!(self, Task::Grant(_) | Task::Acquire(_) | Task::Call(_))
    }

    /// Others wait for its effect, so it is finished even if nobody waits for its answer.
    fn is_farewell(&self) -> bool {
        matches!(self, Task::Cancel(_) | Task::Return(_) | Task::Release { .. } | Task::Revoke(..))
    }
}

/// Whose numbers mark the repeats of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbering {
    /// Nobody's: its repeats are done again.
    None,
    Client,
    Lease(LeaseNo),
}

#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) task: Task,
    body: Request,
    numbering: Numbering,
    /// Whether it may be sent again without a number.
    repeatable: bool,
    pub(super) seq: Option<u64>,
    pub(super) first_sent: Option<Moment>,
    /// How often it was sent.
    pub(super) sent: u32,
    /// When it is sent again, unless answered.
    again_at: Moment,
    /// It stands in a queue: its answer will take as long as it takes.
    pub(super) waits: bool,
    /// The last refusal that may pass.
    pub(super) trouble: Option<pb::Failure>,
    give_up_at: Moment,
    request_ids: Vec<u64>,
}

impl Ticket {
    /// Whether sending it again does no harm.
    pub(super) fn is_repeatable(&self) -> bool {
        self.repeatable
    }
}

/// Who an answer is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Addressee {
    Ticket(TicketId),
    Watch(WatchId),
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    tickets: BTreeMap<TicketId, Ticket>,
    made: u64,
    /// Not sent on the present connection.
    unsent: BTreeSet<TicketId>,
    farewells: usize,
    /// For the present connection only.
    by_request: BTreeMap<u64, Addressee>,
    last_request: u64,
}

impl Requests {
    pub(super) fn get(&self, id: TicketId) -> Option<&Ticket> {
        self.tickets.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: TicketId) -> Option<&mut Ticket> {
        self.tickets.get_mut(&id)
    }

    pub(super) fn have_farewells(&self) -> bool {
        self.farewells > 0
    }

    /// A number for a request on the present connection.
    pub(super) fn next_request(&mut self, addressee: Option<Addressee>) -> u64 {
        self.last_request += 1;
        if let Some(addressee) = addressee {
            self.by_request.insert(self.last_request, addressee);
        }
        self.last_request
    }

    pub(super) fn addressee(&self, request: u64) -> Option<Addressee> {
        self.by_request.get(&request).copied()
    }

    pub(super) fn forget_request(&mut self, request: u64) {
        self.by_request.remove(&request);
    }

    fn remove(&mut self, id: TicketId) -> Option<Ticket> {
        let ticket = self.tickets.remove(&id)?;
        self.unsent.remove(&id);
        if ticket.task.is_farewell() {
            self.farewells -= 1;
        }
        for request in &ticket.request_ids {
            self.by_request.remove(request);
        }
        Some(ticket)
    }
}

impl Session {
    /// Makes a request. It is sent as soon as there is a connection, and room.
    pub(super) fn request(
        &mut self,
        task: Task,
        numbering: Numbering,
        body: Request,
        keep_for: Option<Duration>,
    ) -> TicketId {
        self.requests.made += 1;
        let id = TicketId(self.requests.made);
        if task.is_farewell() {
            self.requests.farewells += 1;
        }
        let give_up_at = keep_for.map_or(Moment::NEVER, |span| self.now.after(span));
        self.timers.arm(Timer::Sweep, give_up_at);
        let ticket = Ticket {
            task,
            body,
            numbering,
            repeatable: true,
            seq: None,
            first_sent: None,
            sent: 0,
            again_at: Moment::default(),
            waits: false,
            trouble: None,
            give_up_at,
            request_ids: Vec::new(),
        };
        self.requests.tickets.insert(id, ticket);
        self.requests.unsent.insert(id);
        id
    }

    /// A request that must not be sent twice.
    pub(super) fn request_once(&mut self, task: Task, body: Request) -> TicketId {
        let id = self.request(task, Numbering::None, body, None);
        if let Some(ticket) = self.requests.get_mut(id) {
            ticket.repeatable = false;
        }
        id
    }

    /// Sends what was not sent on this connection yet, as far as there is room.
    pub(super) fn flush(&mut self) {
        if self.requests.unsent.is_empty() || !self.link.is_up() {
            return;
        }
        let unsent = std::mem::take(&mut self.requests.unsent);
        let mut left = BTreeSet::new();
        for id in unsent {
            let due = self.requests.get(id).is_some_and(|ticket| ticket.again_at <= self.now);
            if !due || !self.transmit(id) {
                left.insert(id);
            }
        }
        self.requests.unsent = left;
    }

    fn transmit(&mut self, id: TicketId) -> bool {
        let Some(link) = self.link.up_id() else { return false };
        let room = self.requests.by_request.len() < self.link.requests_max();
        let Some(ticket) = self.requests.tickets.get_mut(&id) else { return true };
        if ticket.task.is_ordinary() && !room {
            return false;
        }
        let numbers = match ticket.numbering {
            Numbering::None => None,
            Numbering::Client => Some(&mut self.numbers),
            Numbering::Lease(no) => match self.leases.get_mut(no) {
                Some(lease) => Some(&mut lease.numbers),
                None => return true,
            },
        };
        let once = match numbers {
            None => None,
            Some(numbers) => {
                let Some(seq) = ticket.seq.or_else(|| numbers.take()) else { return false };
                ticket.seq = Some(seq);
                Some(pb::Once { seq, ack_upto: numbers.ack_upto() })
            }
        };
        let body = ticket.body.clone();
        ticket.sent += 1;
        ticket.first_sent.get_or_insert(self.now);
        let patience = doubled(PATIENCE, ticket.sent - 1).min(PATIENCE_MAX);
        ticket.again_at = self.now.after(jittered(&mut self.rng, patience));
        self.timers.arm(Timer::Sweep, ticket.again_at);
        let request_id = self.requests.next_request(Some(Addressee::Ticket(id)));
        if let Some(ticket) = self.requests.tickets.get_mut(&id) {
            ticket.request_ids.push(request_id);
        }
        self.send_frame(link, pb::SessionRequest { request_id, once, request: Some(body) });
        true
    }

    /// Sends a frame that is to be answered soon.
    pub(super) fn send_frame(&mut self, link: LinkId, frame: pb::SessionRequest) {
        self.expect_frame();
        self.push(Output::Send(link, Box::new(frame)));
    }

    /// Takes a request out that was answered, or whose answer does not matter any more. Its number
    /// is closed by whoever knows that it is done with.
    pub(super) fn drop_ticket(&mut self, id: TicketId) -> Option<Ticket> {
        self.requests.remove(id)
    }

    /// Takes a request out for good.
    pub(super) fn finish_ticket(&mut self, id: TicketId) -> Option<Ticket> {
        let ticket = self.requests.remove(id)?;
        if let Some(seq) = ticket.seq {
            self.close_number(ticket.numbering, seq);
        }
        Some(ticket)
    }

    pub(super) fn close_number(&mut self, numbering: Numbering, seq: u64) {
        match numbering {
            Numbering::None => {}
            Numbering::Client => self.numbers.close(seq),
            Numbering::Lease(no) => {
                if let Some(lease) = self.leases.get_mut(no) {
                    lease.numbers.close(seq);
                }
            }
        }
    }

    /// The service could not do it now: it is asked again later.
    pub(super) fn ask_again(&mut self, id: TicketId, failure: pb::Failure) {
        let (rng, now) = (&mut self.rng, self.now);
        let Some(ticket) = self.requests.tickets.get_mut(&id) else { return };
        ticket.trouble = Some(failure);
        let pause = doubled(RETRY, ticket.sent.saturating_sub(1)).min(RETRY_MAX);
        ticket.again_at = now.after(jittered(rng, pause));
        self.timers.arm(Timer::Sweep, ticket.again_at);
        for request in std::mem::take(&mut ticket.request_ids) {
            self.requests.by_request.remove(&request);
        }
        self.requests.unsent.insert(id);
    }

    /// Asks again at once, for the present answer to a request that waits.
    pub(super) fn ask_now(&mut self, id: TicketId) {
        if let Some(ticket) = self.requests.tickets.get_mut(&id) {
            ticket.again_at = self.now;
            self.requests.unsent.insert(id);
        }
    }

    /// Sends again what was not answered for too long, and drops what nobody needs any more.
    pub(super) fn sweep(&mut self) {
        let now = self.now;
        let mut next = Moment::NEVER;
        let mut over = Vec::new();
        for (&id, ticket) in &self.requests.tickets {
            if ticket.give_up_at <= now {
                over.push(id);
                continue;
            }
            next = next.min(ticket.give_up_at);
            if ticket.waits || !ticket.repeatable {
                continue;
            }
            if ticket.again_at <= now {
                self.requests.unsent.insert(id);
            } else {
                next = next.min(ticket.again_at);
            }
        }
        self.timers.arm(Timer::Sweep, next);
        for id in over {
            self.give_up(id);
        }
    }

    /// A request that nobody waits for was not answered for as long as its lease could live.
    fn give_up(&mut self, id: TicketId) {
        let Some(ticket) = self.finish_ticket(id) else { return };
        match ticket.task {
            Task::Revoke(lease, _) | Task::Release { lease, .. } => self.drop_lease(lease),
            Task::Cancel(op) | Task::Return(op) => self.forget_attempt(op),
            Task::Grant(lease) => self.drop_lease(lease),
            Task::Acquire(_) | Task::Verify(..) | Task::Call(_) => {}
        }
    }

    /// Bounds how long a request is repeated that nobody waits for any more.
    pub(super) fn give_up_after(&mut self, id: TicketId, span: Duration) {
        if let Some(ticket) = self.requests.tickets.get_mut(&id) {
            ticket.give_up_at = self.now.after(span);
            self.timers.arm(Timer::Sweep, ticket.give_up_at);
        }
    }

    /// The connection is gone: everything that is open goes over the next one.
    pub(super) fn requests_lost_link(&mut self) {
        self.requests.by_request.clear();
        let mut unknown = Vec::new();
        for (&id, ticket) in &mut self.requests.tickets {
            ticket.request_ids.clear();
            ticket.waits = false;
            ticket.again_at = self.now;
            if ticket.repeatable || ticket.sent == 0 {
                self.requests.unsent.insert(id);
            } else {
                unknown.push(id);
            }
        }
        for id in unknown {
            self.call_is_unknown(id, "the connection was lost before the answer came");
        }
    }
}

pub(super) fn doubled(span: Duration, times: u32) -> Duration {
    span.saturating_mul(1_u32.checked_shl(times.min(16)).unwrap_or(1))
}

/// Between three quarters and all of it, so that many clients do not come at once.
pub(super) fn jittered(rng: &mut fastrand::Rng, span: Duration) -> Duration {
    span.mul_f64(0.75 + rng.f64() / 4.0)
}
