//! What users wait for beside acquires: calls that go to the service as they are, releases, leases,
//! and the first connection. Each is answered within the request timeout.

use fencepost_proto::v1 as pb;

use super::Session;
use super::end_acquire::rejected;
use super::io::{Call, LeaseNo, OpId, Output};
use super::requests::{Numbering, Task, TicketId, check_len};
use super::time::Moment;
use super::timers::Timer;
use crate::error::Error;

/// What somebody waits for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) what: What,
    deadline: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The first connection.
    Ready,
    Call(TicketId),
    Release,
    /// A lease of the user's own: to be made, renewed or ended.
    Grant(LeaseNo),
    Renew(LeaseNo),
    Revoke(LeaseNo),
}

impl Session {
    pub(super) fn ask_ready(&mut self, op: OpId) {
        if self.link.is_up() {
            self.push(Output::Ready(op));
        } else {
            self.wait_for(op, What::Ready);
        }
    }

    /// Tells everybody who waits for the first connection.
    pub(super) fn tell_ready(&mut self) {
        for op in self.asked.keys_where(|asked| asked.what == What::Ready) {
            self.stop_waiting(op);
            self.push(Output::Ready(op));
        }
    }

    pub(super) fn call(&mut self, op: OpId, call: Call) {
        if let Err(error) = check_len(call.request.encoded_len()) {
            self.push(Output::Failed(op, error));
            return;
        }
        let ticket = if call.repeatable {
            self.request(Task::Call(op), Numbering::None, call.request.into(), None)
        } else {
            self.request_once(Task::Call(op), call.request.into())
        };
        self.wait_for(op, What::Call(ticket));
    }

    /// Nobody can do what was asked: everybody who waits for the service is told.
    pub(super) fn fail_calls(&mut self, error: &Error) {
        let is_call = |asked: &Asked| matches!(asked.what, What::Ready | What::Call(_));
        for op in self.asked.keys_where(is_call) {
            if let Some(What::Call(ticket)) = self.asked.get(&op).map(|asked| asked.what) {
                self.finish_ticket(ticket);
            }
            self.stop_waiting(op);
            self.push(Output::Failed(op, error.clone()));
        }
    }

    pub(super) fn wait_for(&mut self, op: OpId, what: What) {
        let deadline = self.now.after(self.config.request_timeout);
        self.asked.insert(op, Asked { what, deadline });
        self.timers.arm(Timer::Op(op), deadline);
    }

    /// Says whether somebody was waiting. From here on nobody is.
    pub(super) fn stop_waiting(&mut self, op: OpId) -> bool {
        self.timers.disarm(Timer::Op(op));
        self.asked.remove(&op).is_some()
    }

    /// Something was not answered in time.
    pub(super) fn asked_is_due(&mut self, op: OpId) {
        let Some(asked) = self.asked.get(&op) else { return };
        if self.now < asked.deadline {
            self.timers.arm(Timer::Op(op), asked.deadline);
            return;
        }
        let what = asked.what;
        self.stop_waiting(op);
        let error = match what {
            What::Ready => Error::unavailable(self.link.trouble()),
            What::Call(ticket) => self.call_is_late(ticket),
            What::Release => Error::unknown("the release was not confirmed in time"),
            What::Grant(no) => self.grant_is_late(no),
            What::Renew(_) => Error::unknown("the renewal was not confirmed in time"),
            What::Revoke(_) => Error::unknown("the end of the lease was not confirmed in time"),
        };
        self.push(Output::Failed(op, error));
    }

    fn call_is_late(&mut self, ticket: TicketId) -> Error {
        let Some(ticket) = self.finish_ticket(ticket) else {
            return Error::unavailable(self.link.trouble());
        };
        match ticket.trouble {
            Some(trouble) => rejected(*trouble),
            None if ticket.sent > 0 && !ticket.is_repeatable() => {
                Error::unknown("the answer did not come in time")
            }
            None if self.link.is_up() => Error::unavailable("the answer did not come in time"),
            None => Error::unavailable(self.link.trouble()),
        }
    }

    fn grant_is_late(&mut self, no: LeaseNo) -> Error {
        let ticket = self.leases.get(no).and_then(|lease| lease.grant);
        let ticket = ticket.and_then(|ticket| self.requests.get(ticket));
        let error = match ticket {
            Some(ticket) if ticket.trouble.is_some() => {
                ticket.trouble.clone().map_or(Error::Timeout, |trouble| rejected(*trouble))
            }
            Some(ticket) if ticket.sent > 0 => Error::unknown("no lease was granted in time"),
            _ => Error::unavailable(self.link.trouble()),
        };
        self.revoke_lease(no, None);
        error
    }

    pub(super) fn call_was_answered(
        &mut self,
        op: OpId,
        ticket: TicketId,
        answer: pb::SessionResponse,
    ) {
        self.finish_ticket(ticket);
        if self.stop_waiting(op) {
            self.push(Output::Answered(op, Box::new(answer)));
        }
    }

    pub(super) fn call_was_refused(&mut self, op: OpId, ticket: TicketId, failure: pb::Failure) {
        self.finish_ticket(ticket);
        if self.stop_waiting(op) {
            let error = if failure.indeterminate {
                Error::unknown(failure.message)
            } else {
                rejected(failure)
            };
            self.push(Output::Failed(op, error));
        }
    }

    /// A call that must not be repeated has lost its connection.
    pub(super) fn call_is_unknown(&mut self, ticket: TicketId, message: &str) {
        let Some(ticket) = self.finish_ticket(ticket) else { return };
        if let Task::Call(op) = ticket.task
            && self.stop_waiting(op)
        {
            self.push(Output::Failed(op, Error::unknown(message)));
        }
    }
}
