//! Frames from the service: each is brought to whoever waits for it.

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_response::Response;

use super::Session;
use super::io::LinkId;
use super::requests::{Task, TicketId};

impl Session {
    /// A frame has arrived.
    pub(super) fn hear(&mut self, link: LinkId, mut frame: Box<pb::SessionResponse>) {
        if self.link.up_id() == Some(link) {
            self.heard_answer(frame.request_id);
            self.deliver(&mut frame);
            if let Some(header) = &frame.header {
                self.note_revision(header.revision);
                self.consider_leader(header);
            }
        } else if self.is_courting(link) {
            self.hear_court(*frame);
        } else if self.is_leaving(link) {
            self.deliver(&mut frame);
        } else if self.link.is(link) {
            self.hear_welcome(*frame);
        }
    }

    /// Brings a frame to whoever waits for it. Its header stays.
    fn deliver(&mut self, frame: &mut pb::SessionResponse) {
        match frame.response.take() {
            Some(Response::Renewed(many)) => self.renewed(frame.header.as_ref(), many),
            Some(Response::HoldLost(told)) => self.hold_was_lost(told),
            Some(Response::Watch(mut news)) => {
                if news.header.is_none() {
                    news.header.clone_from(&frame.header);
                }
                self.watch_was_answered(news);
            }
            Some(Response::Pong(_)) => {}
            response => self.bring(frame, response),
        }
    }

    fn bring(&mut self, frame: &mut pb::SessionResponse, response: Option<Response>) {
        if let Some(ticket) = self.requests.ticket_of(frame.request_id) {
            self.answer(ticket, frame, response);
        } else if let Some(failure) = frame.failure.take() {
            self.watch_was_refused(frame.request_id, failure);
        }
    }

    fn answer(
        &mut self,
        id: TicketId,
        frame: &mut pb::SessionResponse,
        response: Option<Response>,
    ) {
        let Some(ticket) = self.requests.get(id) else { return };
        let (task, repeatable) = (ticket.task, ticket.is_repeatable());
        if let Some(failure) = frame.failure.take() {
            if repeatable && (failure.indeterminate || failure.retryable) {
                if is_kept(&failure) {
                    self.renumber(id);
                }
                self.ask_again(id, failure);
            } else {
                self.refused(id, task, failure);
            }
            return;
        }
        if !ticket.is_stale_read()
            && let Err(failure) = self.check_set_back(ticket.seen, frame.header.as_ref())
        {
            self.refused(id, task, failure.clone());
            self.cluster_was_set_back(&failure.message);
            return;
        }
        match (task, response) {
            (Task::Grant(no), Some(Response::LeaseGranted(granted))) => {
                let first_sent = ticket.first_sent.unwrap_or_default();
                self.finish_ticket(id);
                self.lease_was_granted(no, first_sent, &granted);
            }
            (Task::Acquire(op), Some(Response::Acquired(answer))) => {
                self.acquire_was_answered(op, id, answer);
            }
            (Task::Cancel(op) | Task::Return(op), _) => self.undo_was_answered(op, id, None),
            (Task::Release { lease, locks, op }, Some(Response::Released(answer))) => {
                self.release_was_answered(id, lease, locks, op, Ok(answer.released));
            }
            (Task::Revoke(no, op), Some(Response::LeaseRevoked(answer))) => {
                self.revoke_was_answered(id, no, op, Ok(answer.keys));
            }
            (Task::Verify(hold, at), Some(Response::Lock(answer))) => {
                self.verify_was_answered(hold, at, id, answer.lock.as_ref());
            }
            (Task::Call(op), response @ Some(_)) => {
                let (request_id, header) = (frame.request_id, frame.header.clone());
                let answer = pb::SessionResponse { request_id, header, failure: None, response };
                self.call_was_answered(op, id, answer);
            }
            (task, _) => {
                let message = "an answer of the wrong kind".to_owned();
                let code = "protocol".to_owned();
                let failure = pb::Failure { code, message, indeterminate: true, retryable: false };
                self.refused(id, task, failure);
            }
        }
    }

    fn refused(&mut self, id: TicketId, task: Task, failure: pb::Failure) {
        match task {
            Task::Grant(no) => self.grant_was_refused(id, no, failure),
            Task::Acquire(op) => self.acquire_was_refused(op, id, failure),
            Task::Cancel(op) | Task::Return(op) => self.undo_was_answered(op, id, Some(failure)),
            Task::Release { lease, locks, op } => {
                self.release_was_answered(id, lease, locks, op, Err(failure));
            }
            Task::Revoke(no, op) => self.revoke_was_answered(id, no, op, Err(failure)),
            // A lock that the service does not know is not held.
            Task::Verify(hold, at) => self.verify_was_answered(hold, at, id, None),
            Task::Call(op) => self.call_was_refused(op, id, failure),
        }
    }
}

/// A refusal that may pass, but that the state keeps as the answer to the number of its request.
fn is_kept(failure: &pb::Failure) -> bool {
    let code = failure.code.as_str();
    !failure.indeterminate
        && matches!(code, "recovering" | "leases_full" | "queue_full" | "floor_full")
}
