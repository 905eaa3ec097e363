//! How an acquire ends without a grant: refused, out of time, or not wanted any more.
//!
//! Guarantees: what is reported as anything but unknown holds nothing. If the service may have
//! acted on the request, it is asked to undo it, and the report waits for the answer; if that does
//! not come, the report says "unknown". The lease is not renewed from then on, so that in the
//! worst case its TTL ends what is left.

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use super::acquire::Phase;
use super::io::{OpId, Output};
use super::lease::Use;
use super::mutant::Mutant;
use super::requests::{Numbering, Task, TicketId};
use super::timers::Timer;
use super::{Moment, Session};
use crate::error::Error;

impl Session {
    /// The time of an acquire is up.
    pub(super) fn attempt_is_due(&mut self, op: OpId) {
        let Some(attempt) = self.attempts.get_mut(&op) else { return };
        if self.now < attempt.deadline {
            self.timers.arm(Timer::Op(op), attempt.deadline);
            return;
        }
        if let Phase::Ending(_) = attempt.phase {
            let message = "a cancelled acquire was not confirmed";
            self.report_failure(op, Error::unknown(message));
            return;
        }
        let error = self.why_not_in_time(op);
        self.fail_attempt(op, error);
    }

    /// Nobody waits for the acquire any more.
    pub(super) fn abandon(&mut self, op: OpId) {
        let Some(attempt) = self.attempts.get_mut(&op) else { return };
        attempt.is_awaited = false;
        self.fail_attempt(op, Error::Closed);
    }

    fn why_not_in_time(&self, op: OpId) -> Error {
        let ticket = match self.attempts.get(&op).map(|attempt| &attempt.phase) {
            Some(Phase::Asked(ticket)) => Some(*ticket),
            Some(Phase::Leasing) => {
                let lease = self.attempt_lease(op).and_then(|no| self.leases.get(no));
                lease.and_then(|lease| lease.grant)
            }
            _ => return Error::Timeout,
        };
        let ticket = ticket.and_then(|ticket| self.requests.get(ticket));
        match ticket.and_then(|ticket| ticket.trouble.as_ref()) {
            Some(trouble) => rejected((**trouble).clone()),
            None if ticket.is_some_and(|ticket| ticket.sent > 0) && self.link.is_up() => {
                Error::Timeout
            }
            None => Error::unavailable(self.link.trouble()),
        }
    }

    /// Ends an acquire for `error`, undoing what the service may have done.
    pub(super) fn fail_attempt(&mut self, op: OpId, error: Error) {
        let Some(attempt) = self.attempts.get(&op) else { return };
        match attempt.phase {
            Phase::InLine | Phase::Leasing => self.end_attempt(op, error, true),
            Phase::Asked(ticket) => self.cancel(op, ticket, error),
            Phase::Proving(_) => self.return_locks(op, error),
            Phase::Ending(_) => {}
        }
    }

    fn cancel(&mut self, op: OpId, ticket: TicketId, error: Error) {
        let was_sent = self.requests.get(ticket).is_some_and(|ticket| ticket.sent > 0);
        if !was_sent || self.mutant(Mutant::LeavesPlaces) {
            self.drop_ticket(ticket);
            self.end_attempt(op, error, true);
            return;
        }
        // The acquire's number stays open until the cancellation is confirmed: a number that was
        // acknowledged could not be cancelled any more.
        let seq = self.drop_ticket(ticket).and_then(|ticket| ticket.seq);
        let (Some(no), Some(seq)) = (self.attempt_lease(op), seq) else {
            self.end_attempt(op, error, true);
            return;
        };
        let Some(lease) = self.leases.get(no) else {
            self.end_attempt(op, error, false);
            return;
        };
        let (lease_id, lease_epoch) = (lease.id, lease.epoch);
        let body = Request::Cancel(pb::SessionCancel { lease_id, lease_epoch, seq }).into();
        if self.mutant(Mutant::ReportsTooEarly) {
            self.report_failure(op, error.clone());
        }
        self.begin_ending(op, error);
        let keep_for = Some(self.lifetime(no));
        let ticket = self.request(Task::Cancel(op), Numbering::Lease(no), body, keep_for);
        self.undo_with(op, ticket);
    }

    /// Waits for the confirmation that nothing is left, for a bounded time.
    fn begin_ending(&mut self, op: OpId, error: Error) {
        let until = self.now.after(self.config.cancel_grace);
        let Some(attempt) = self.attempts.get_mut(&op) else { return };
        attempt.phase = Phase::Ending(error);
        attempt.deadline = until;
        let no = attempt.lease;
        self.timers.arm(Timer::Op(op), until);
        if let Some(no) = no {
            self.leases.schedule(no, Moment::NEVER);
            if let Some(lease) = self.leases.get_mut(no) {
                lease.usage = Use::Undoing(op);
            }
        }
        // Those behind it in the local line go on when its end is reported, so that nobody is
        // seen to overtake. If nobody waits for the report, that is now.
        if self.attempts.get(&op).is_some_and(|attempt| !attempt.is_awaited) {
            self.let_next_through(op);
        }
    }

    /// The locks were granted, but their holder cannot have them: they are given back.
    fn return_locks(&mut self, op: OpId, error: Error) {
        let Some(Phase::Proving(hold)) = self.attempts.get(&op).map(|attempt| &attempt.phase)
        else {
            return;
        };
        let hold = *hold;
        let Some(held) = self.take_hold(hold) else { return };
        let no = held.lease;
        let body = self.release_body(&held);
        self.begin_ending(op, error);
        let keep_for = Some(self.lifetime(no));
        let ticket = self.request(Task::Return(op), Numbering::Lease(no), body, keep_for);
        self.undo_with(op, ticket);
    }

    fn undo_with(&mut self, op: OpId, ticket: TicketId) {
        if let Some(attempt) = self.attempts.get_mut(&op) {
            attempt.undo = Some(ticket);
        }
    }

    /// The service has confirmed that nothing of the acquire is left.
    pub(super) fn attempt_is_over(&mut self, op: OpId, lease_is_good: bool) {
        let Some(attempt) = self.attempts.get(&op) else { return };
        let Phase::Ending(error) = &attempt.phase else { return };
        let error = error.clone();
        if let Some(lease) = attempt.lease.and_then(|no| self.leases.get_mut(no)) {
            lease.changes = None;
            lease.numbers.close_all();
        }
        self.end_attempt(op, error, lease_is_good);
    }

    /// Ends an acquire that holds nothing, and reports it.
    pub(super) fn end_attempt(&mut self, op: OpId, error: Error, lease_is_good: bool) {
        if let Some(Phase::Asked(ticket)) = self.attempts.get(&op).map(|attempt| &attempt.phase) {
            let ticket = *ticket;
            self.finish_ticket(ticket);
        }
        if let Some(undo) = self.attempts.get_mut(&op).and_then(|attempt| attempt.undo.take()) {
            self.finish_ticket(undo);
        }
        if let Some(no) = self.detach_lease(op) {
            if lease_is_good {
                self.keep_idle(no);
            } else {
                self.drop_lease(no);
            }
        }
        self.report_failure(op, error);
        self.forget_attempt(op);
    }

    /// Tells whoever waits, once.
    pub(super) fn report_failure(&mut self, op: OpId, error: Error) {
        let Some(attempt) = self.attempts.get_mut(&op) else { return };
        if std::mem::take(&mut attempt.is_awaited) {
            self.push(Output::Failed(op, error));
            self.let_next_through(op);
        }
    }

    pub(super) fn forget_attempt(&mut self, op: OpId) {
        // Whoever still waits is told that it is not known.
        self.report_failure(op, Error::unknown("a cancelled acquire was not confirmed"));
        if let Some(no) = self.detach_lease(op) {
            self.drop_lease(no);
        }
        self.attempts.remove(&op);
        self.timers.disarm(Timer::Op(op));
        self.let_next_through(op);
    }

    /// The service refuses an acquire.
    pub(super) fn acquire_was_refused(&mut self, op: OpId, ticket: TicketId, failure: pb::Failure) {
        if is_lease_gone(&failure) {
            self.attempt_lost_lease(op);
            return;
        }
        let sent_once = self.requests.get(ticket).is_some_and(|ticket| ticket.sent == 1);
        if sent_once {
            self.finish_ticket(ticket);
            self.end_attempt(op, rejected(failure), true);
        } else {
            // An earlier sending may have had an effect.
            self.fail_attempt(op, rejected(failure));
        }
    }

    /// The service has answered a cancellation, or the return of a lock. Whatever it says, unless
    /// it could not act, nothing is left.
    pub(super) fn undo_was_answered(
        &mut self,
        op: OpId,
        ticket: TicketId,
        failure: Option<pb::Failure>,
    ) {
        self.finish_ticket(ticket);
        let lease_is_good = match &failure {
            None => true,
            Some(failure) if is_lease_gone(failure) => false,
            Some(failure) if is_not_held(failure) => true,
            Some(_) => {
                // It cannot be undone this way. Ending the lease ends everything.
                self.revoke_for_attempt(op);
                return;
            }
        };
        self.attempt_is_over(op, lease_is_good);
    }

    fn revoke_for_attempt(&mut self, op: OpId) {
        let Some(no) = self.attempt_lease(op) else { return };
        self.report_failure(op, Error::unknown("a cancelled acquire was not confirmed"));
        if let Some(attempt) = self.attempts.get_mut(&op) {
            attempt.lease = None;
        }
        self.revoke_lease(no, None);
        self.forget_attempt(op);
    }
}

/// The lease is gone, and with it everything it held.
pub(super) fn is_lease_gone(failure: &pb::Failure) -> bool {
    matches!(failure.code.as_str(), "lease_not_found" | "lease_epoch_stale")
}

/// There is nothing to give back.
pub(super) fn is_not_held(failure: &pb::Failure) -> bool {
    matches!(failure.code.as_str(), "not_holder" | "token_mismatch")
}

pub(super) fn rejected(failure: pb::Failure) -> Error {
    let pb::Failure { code, message, retryable, .. } = failure;
    Error::Rejected { code, message, retryable }
}
