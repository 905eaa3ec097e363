//! Requests that wait for their answer, and their repeats.
//!
//! A [`Ticket`] is one request as the user or the session means it. It may be sent several times,
//! over several connections; what is numbered acts once. A ticket that nobody waits for any more
//! lives on only while its effect helps others, and then for a bounded time.

use std::collections::BTreeSet;
use std::time::Duration;

use fencepost_proto::v1 as pb;

use super::Session;
use super::body::Body;
use super::incarnation::Incarnation;
use super::io::{HoldId, LeaseNo, LinkId, OpId, Output};
use super::table::Table;
use super::time::Moment;
use super::timers::Timer;
use super::unsent::Unsent;
use crate::error::Error;

/// After so long without an answer on a good connection, a request is sent again.
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_MAX: Duration = Duration::from_secs(8);
/// After a refusal that may pass, a request is sent again after so long.
const RETRY: Duration = Duration::from_millis(25);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// How often, at most, all requests are looked at for those that are to be sent again.
const SWEEP_EVERY: Duration = Duration::from_millis(10);
/// Bytes of one request, as the service bounds it. A larger one would end the stream, with
/// everything else that is on it.
pub(super) const REQUEST_LEN_MAX: usize = 3 << 19;
/// What surrounds the body of a request: its number, and the marks of its repeats.
const FRAME_LEN: usize = 64;
/// Of the requests that may be open, so many are kept for what keeps and gives back locks; but no
/// more than a fourth.
const RESERVED: usize = 1_024;
/// How many requests that have to wait for a number are passed over when others are sent. It bounds
/// what one frame costs while thousands wait.
const PASSED_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TicketId(pub(super) u64);

/// What a request is for.
#[derive(Clone, Copy, Debug)]
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
    fn is_ordinary(self) -> bool {
        matches!(self, Task::Grant(_) | Task::Acquire(_) | Task::Call(_))
    }

    /// Others wait for its effect, so it is finished even if nobody waits for its answer.
    fn is_farewell(self) -> bool {
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
    body: Body,
    numbering: Numbering,
    /// Whether it may be sent again without a number.
    repeatable: bool,
    pub(super) seq: Option<u64>,
    pub(super) first_sent: Option<Moment>,
    /// How far the cluster had come then, as the session knew it.
    pub(super) seen: Option<Incarnation>,
    /// How often it was sent.
    pub(super) sent: u32,
    /// When it is sent again, unless answered.
    again_at: Moment,
    /// It stands in a queue: its answer will take as long as it takes.
    pub(super) waits: bool,
    /// The last refusal that may pass.
    pub(super) trouble: Option<Box<pb::Failure>>,
    give_up_at: Moment,
    /// The numbers under which it was sent and not answered: the last one, and those before.
    request: Option<u64>,
    requests_before: Vec<u64>,
}

impl Ticket {
    /// Whether sending it again does no harm.
    pub(super) fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// Whether its answer need not be current.
    pub(super) fn is_stale_read(&self) -> bool {
        self.body.is_stale_read()
    }

    /// Adds a number under which it was sent.
    fn was_sent_as(&mut self, request: u64) {
        if let Some(before) = self.request.replace(request) {
            self.requests_before.push(before);
        }
    }

    /// Takes the numbers under which it was sent: answers to them are not waited for any more.
    fn take_requests(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.requests_before).into_iter().chain(self.request.take())
    }
}

/// Refuses what the service would not even read.
pub(super) fn check_len(len: usize) -> Result<(), Error> {
    let len = len + FRAME_LEN;
    if len <= REQUEST_LEN_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a request of {len} bytes is too large: the service takes {REQUEST_LEN_MAX}"
    )))
}

/// What came of sending a request.
enum Sending {
    Done,
    /// Too much is open.
    NoRoom,
    /// Too many numbers of the same caller are open.
    NoNumber,
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    tickets: Table<TicketId, Ticket>,
    made: u64,
    /// Not sent on the present connection, and due: what is never held back, and the rest.
    urgent: Unsent,
    ordinary: Unsent,
    /// Left to the connection before the present one, because they must not be sent twice.
    left_behind: BTreeSet<TicketId>,
    farewells: usize,
    /// What was sent and not answered. Numbers are never used again, whatever the connection.
    by_request: Table<u64, TicketId>,
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

    /// A number for a request that has no ticket.
    pub(super) fn next_request(&mut self) -> u64 {
        self.last_request += 1;
        self.last_request
    }

    pub(super) fn ticket_of(&self, request: u64) -> Option<TicketId> {
        self.by_request.get(&request).copied()
    }

    pub(super) fn left_behind_nothing(&self) -> bool {
        self.left_behind.is_empty()
    }

    /// Lets a request be sent as soon as there is room.
    fn queue(&mut self, id: TicketId) {
        match self.tickets.get(&id).map(|ticket| ticket.task.is_ordinary()) {
            Some(true) => self.ordinary.insert(id),
            Some(false) => self.urgent.insert(id),
            None => {}
        }
    }

    fn remove(&mut self, id: TicketId) -> Option<Ticket> {
        let mut ticket = self.tickets.remove(&id)?;
        if ticket.task.is_ordinary() {
            self.ordinary.remove(id);
        } else {
            self.urgent.remove(id);
        }
        self.left_behind.remove(&id);
        if ticket.task.is_farewell() {
            self.farewells -= 1;
        }
        for request in ticket.take_requests() {
            self.by_request.remove(&request);
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
        body: Body,
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
            seen: None,
            sent: 0,
            again_at: Moment::default(),
            waits: false,
            trouble: None,
            give_up_at,
            request: None,
            requests_before: Vec::new(),
        };
        self.requests.tickets.insert(id, ticket);
        self.requests.queue(id);
        id
    }

    /// A request that must not be sent twice.
    pub(super) fn request_once(&mut self, task: Task, body: Body) -> TicketId {
        let id = self.request(task, Numbering::None, body, None);
        if let Some(ticket) = self.requests.get_mut(id) {
            ticket.repeatable = false;
        }
        id
    }

    /// Sends what was not sent on this connection yet, as far as there is room.
    pub(super) fn flush(&mut self) {
        let Some(link) = self.link.up_id() else { return };
        if !self.requests.urgent.is_empty() {
            let urgent = std::mem::take(&mut self.requests.urgent);
            self.requests.urgent = self.send_all(link, urgent);
        }
        if !self.requests.ordinary.is_empty() {
            let ordinary = std::mem::take(&mut self.requests.ordinary);
            self.requests.ordinary = self.send_all(link, ordinary);
        }
    }

    /// Sends these in order, as far as there is room. Returns those that are left.
    fn send_all(&mut self, link: LinkId, mut unsent: Unsent) -> Unsent {
        let mut passed = Vec::new();
        while passed.len() < PASSED_MAX
            && let Some(id) = unsent.pop()
        {
            match self.transmit(link, id) {
                Sending::Done => {}
                Sending::NoNumber => passed.push(id),
                Sending::NoRoom => {
                    unsent.insert(id);
                    break;
                }
            }
        }
        for id in passed {
            unsent.insert(id);
        }
        unsent
    }

    /// Whether one more request may be open that could as well wait.
    fn has_room(&self) -> bool {
        let max = self.link.requests_max();
        self.requests.by_request.len() < max - RESERVED.min(max / 4)
    }

    fn transmit(&mut self, link: LinkId, id: TicketId) -> Sending {
        let has_room = self.has_room();
        let Some(ticket) = self.requests.tickets.get_mut(&id) else { return Sending::Done };
        if ticket.task.is_ordinary() && !has_room {
            return Sending::NoRoom;
        }
        let numbers = match ticket.numbering {
            Numbering::None => None,
            Numbering::Client => Some(&mut self.numbers),
            Numbering::Lease(no) => match self.leases.get_mut(no) {
                Some(lease) => Some(&mut lease.numbers),
                None => return Sending::Done,
            },
        };
        let once = match numbers {
            None => None,
            Some(numbers) => {
                let Some(seq) = ticket.seq.or_else(|| numbers.take()) else {
                    return Sending::NoNumber;
                };
                ticket.seq = Some(seq);
                Some(pb::Once { seq, ack_upto: numbers.ack_upto() })
            }
        };
        let request = Some(ticket.body.to_wire());
        ticket.sent += 1;
        if ticket.first_sent.is_none() {
            ticket.first_sent = Some(self.now);
            ticket.seen = self.link.incarnation;
        }
        let patience = doubled(PATIENCE, ticket.sent - 1).min(PATIENCE_MAX);
        ticket.again_at = self.now.after(jittered(&mut self.rng, patience));
        self.timers.arm(Timer::Sweep, ticket.again_at);
        self.requests.last_request += 1;
        let request_id = self.requests.last_request;
        ticket.was_sent_as(request_id);
        self.requests.by_request.insert(request_id, id);
        self.send_frame(link, pb::SessionRequest { request_id, once, request });
        Sending::Done
    }

    /// Sends a frame that is to be answered soon.
    pub(super) fn send_frame(&mut self, link: LinkId, frame: pb::SessionRequest) {
        self.expect_answer(frame.request_id);
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

    /// Lets a request go on under a new number. Repeats of the present one would get the kept
    /// refusal until the request gives up, and a late copy of it gets that too: it cannot act.
    pub(super) fn renumber(&mut self, id: TicketId) {
        let Some(ticket) = self.requests.tickets.get_mut(&id) else { return };
        let numbering = ticket.numbering;
        // A lease counts from when the request was sent that grants it.
        ticket.first_sent = None;
        if let Some(seq) = ticket.seq.take() {
            self.close_number(numbering, seq);
        }
    }

    /// The service could not do it now: it is asked again later.
    pub(super) fn ask_again(&mut self, id: TicketId, failure: pb::Failure) {
        let (rng, now) = (&mut self.rng, self.now);
        let Some(ticket) = self.requests.tickets.get_mut(&id) else { return };
        ticket.trouble = Some(Box::new(failure));
        let pause = doubled(RETRY, ticket.sent.saturating_sub(1)).min(RETRY_MAX);
        ticket.again_at = now.after(jittered(rng, pause));
        self.timers.arm(Timer::Sweep, ticket.again_at);
        for request in ticket.take_requests() {
            self.requests.by_request.remove(&request);
        }
    }

    /// Asks again at once, for the present answer to a request that waits.
    pub(super) fn ask_now(&mut self, id: TicketId) {
        if let Some(ticket) = self.requests.tickets.get_mut(&id) {
            ticket.again_at = self.now;
            self.requests.queue(id);
        }
    }

    /// Sends again what was not answered for too long, and drops what nobody needs any more.
    pub(super) fn sweep(&mut self) {
        let now = self.now;
        let mut next = Moment::NEVER;
        let (mut over, mut due) = (Vec::new(), Vec::new());
        for id in self.requests.tickets.keys() {
            let Some(ticket) = self.requests.get(id) else { continue };
            if ticket.give_up_at <= now {
                over.push(id);
                continue;
            }
            next = next.min(ticket.give_up_at);
            if ticket.waits || !ticket.repeatable {
                continue;
            }
            if ticket.again_at <= now {
                due.push(id);
            } else {
                next = next.min(ticket.again_at);
            }
        }
        self.timers.arm(Timer::Sweep, next.max(now.after(SWEEP_EVERY)));
        for id in due {
            self.requests.queue(id);
        }
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
            Task::Verify(hold, _) => self.verify_was_given_up(hold),
            Task::Acquire(_) | Task::Call(_) => {}
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
        for id in self.requests_again() {
            self.call_is_unknown(id, "the connection was lost before the answer came");
        }
    }

    /// The session moves to another connection, and the old one stays for what must not be sent
    /// twice.
    pub(super) fn requests_move_over(&mut self) {
        let stay = self.requests_again();
        self.requests.left_behind.extend(stay);
    }

    /// The connection before the present one is gone.
    pub(super) fn left_behind_is_lost(&mut self) {
        for id in std::mem::take(&mut self.requests.left_behind) {
            self.call_is_unknown(id, "the connection was lost before the answer came");
        }
    }

    /// Everything that may be sent again is to be. Returns what was sent over the present connection
    /// and may not.
    fn requests_again(&mut self) -> Vec<TicketId> {
        let (mut again, mut never) = (Vec::new(), Vec::new());
        for id in self.requests.tickets.keys() {
            let Some(ticket) = self.requests.tickets.get_mut(&id) else { continue };
            if ticket.repeatable || ticket.sent == 0 {
                ticket.waits = false;
                ticket.again_at = self.now;
                for request in ticket.take_requests() {
                    self.requests.by_request.remove(&request);
                }
                again.push(id);
            } else if !self.requests.left_behind.contains(&id) {
                never.push(id);
            }
        }
        for id in again {
            self.requests.queue(id);
        }
        never
    }
}

pub(super) fn doubled(span: Duration, times: u32) -> Duration {
    span.saturating_mul(1_u32.checked_shl(times.min(16)).unwrap_or(1))
}

/// Between three quarters and all of it, so that many clients do not come at once.
pub(super) fn jittered(rng: &mut fastrand::Rng, span: Duration) -> Duration {
    span.mul_f64(0.75 + rng.f64() / 4.0)
}
