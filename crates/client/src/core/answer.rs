//! Frames from the service: each is brought to whoever waits for it.

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_response::Response;

use super::Session;
use super::io::LinkId;
use super::requests::{Task, TicketId};

impl Session {
    /// A frame has arrived.
    pub(super) fn hear(&mut self, link: LinkId, frame: pb::SessionResponse) {
        if self.is_courting(link) {
            self.hear_court(frame);
        } else if self.is_leaving(link) {
            self.deliver(frame);
        } else if self.link.up_id() == Some(link) {
            self.heard_answer(frame.request_id);
            if let Some(header) = self.deliver(frame) {
                self.consider_leader(&header);
            }
        } else if self.link.is(link) {
            self.hear_welcome(frame);
        }
    }

    /// Brings a frame to whoever waits for it. What is left is its header.
    fn deliver(&mut self, mut frame: pb::SessionResponse) -> Option<pb::Header> {
        let header = frame.header.take();
        match frame.response.take() {
            Some(Response::Renewed(many)) => self.renewed(many),
            Some(Response::HoldLost(told)) => self.hold_was_lost(told),
            Some(Response::Watch(mut news)) => {
                if news.header.is_none() {
                    news.header.clone_from(&header);
                }
                self.watch_was_answered(news);
            }
            Some(Response::Pong(_)) => {}
            response => {
                frame.response = response;
                frame.header.clone_from(&header);
                self.bring(frame);
            }
        }
        header
    }

    fn bring(&mut self, frame: pb::SessionResponse) {
        if let Some(ticket) = self.requests.ticket_of(frame.request_id) {
            self.answer(ticket, frame);
        } else if let Some(failure) = frame.failure {
            self.watch_was_refused(frame.request_id, failure);
        }
    }

    fn answer(&mut self, id: TicketId, mut frame: pb::SessionResponse) {
        let Some(ticket) = self.requests.get(id) else { return };
        let (task, repeatable) = (ticket.task.clone(), ticket.is_repeatable());
        if let Some(failure) = frame.failure.take() {
            if repeatable && (failure.indeterminate || failure.retryable) {
                self.ask_again(id, failure);
            } else {
                self.refused(id, task, failure);
            }
            return;
        }
        match (task, frame.response.take()) {
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
                frame.response = response;
                self.call_was_answered(op, id, frame);
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
