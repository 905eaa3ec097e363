//! The way of an acquire: the local line, a lease, the request, the grant.
//!
//! How an acquire ends without a grant is in `end_acquire.rs`; what happens after it in `hold.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_acquired::State;

use super::Session;
use super::body::Body;
use super::io::{HoldId, LeaseNo, LockSpec, OpId, Output, Place, Wait};
use super::lease::Use;
use super::mutant::Mutant;
use super::requests::{Numbering, Task, TicketId, check_len};
use super::time::{Moment, wire_ms};
use super::timers::Timer;
use crate::error::Error;

/// Locks in one acquire, as the service bounds it.
pub(super) const NAMES_MAX: usize = 128;
/// How long past its end a wait is left to the service, which ends it by itself.
const WAIT_SLACK: Duration = Duration::from_millis(100);
/// How many leases one acquire may use up before it has a place in the queue.
const LEASES_MAX: u32 = 3;
/// What surrounds a name on the wire, and everything else of an acquire that is not the user's.
const NAME_LEN: usize = 24;
const ACQUIRE_LEN: usize = 128;

/// An acquire that was not reported yet.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) spec: Arc<LockSpec>,
    pub(super) phase: Phase,
    /// When the user's patience ends.
    wait_until: Moment,
    /// When the present phase ends.
    pub(super) deadline: Moment,
    pub(super) lease: Option<LeaseNo>,
    leases_used: u32,
    /// Whether the service has said that it has a place in the queue.
    was_queued: bool,
    /// The place that was told last.
    place: Option<Place>,
    /// The count of changes at which the service was last asked how things stand.
    looked_at: Option<u64>,
    /// The request that takes it back.
    pub(super) undo: Option<TicketId>,
    /// Whether somebody waits for the outcome.
    pub(super) is_awaited: bool,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// In the local line.
    InLine,
    /// Waits for a lease.
    Leasing,
    /// The service was asked.
    Asked(TicketId),
    /// Granted; the lease must be shown to live for long enough.
    Proving(HoldId),
    /// It is being taken back, and this is what will be reported.
    Ending(Error),
}

impl LockSpec {
    /// How long work may go on without a confirmed renewal.
    pub(super) fn window(&self) -> Duration {
        self.safety_window.unwrap_or(self.ttl / 2).min(self.ttl)
    }

    /// How often to renew: three times in a TTL, and early enough for the window.
    fn interval(&self) -> Duration {
        (self.ttl / 3).min(self.window() * 2 / 3)
    }

    fn check(&self) -> Result<(), Error> {
        if self.names.is_empty() {
            return Err(Error::invalid("no lock was named"));
        }
        if self.names.len() > NAMES_MAX {
            return Err(Error::invalid("more than 128 locks at once"));
        }
        if self.names.len() > 1
            && self.names.iter().collect::<BTreeSet<_>>().len() < self.names.len()
        {
            return Err(Error::invalid("a lock was named twice"));
        }
        if self.window().is_zero() {
            return Err(Error::invalid("the safety window is empty"));
        }
        if self.reentrant && self.names.len() > 1 {
            return Err(Error::invalid("several locks at once cannot be reentrant"));
        }
        let names = self.names.iter().map(|name| name.len() + NAME_LEN);
        check_len(names.sum::<usize>() + self.metadata.len() + self.value.len() + ACQUIRE_LEN)
    }
}

impl Session {
    pub(super) fn acquire(&mut self, op: OpId, spec: Arc<LockSpec>) {
        if let Err(error) = spec.check() {
            self.push(Output::Failed(op, error));
            return;
        }
        if spec.reentrant && self.enter_again(op, &spec) {
            return;
        }
        let patience = match spec.wait {
            Wait::Try => Some(self.config.request_timeout),
            Wait::AtMost(span) => Some(span),
            Wait::Forever => None,
        };
        let deadline = patience.map_or(Moment::NEVER, |span| self.now.after(span));
        let is_through = if self.mutant(Mutant::NoLine) {
            true
        } else {
            self.lines.join(op, &spec.names, spec.mode)
        };
        if !is_through && spec.wait == Wait::Try {
            self.let_next_through(op);
            let holder = self.config.client_id.clone();
            self.push(Output::Failed(op, Error::Denied { holder }));
            return;
        }
        let attempt = Attempt {
            spec,
            phase: Phase::InLine,
            wait_until: deadline,
            deadline,
            lease: None,
            leases_used: 0,
            was_queued: false,
            place: None,
            looked_at: None,
            undo: None,
            is_awaited: true,
        };
        self.attempts.insert(op, attempt);
        self.timers.arm(Timer::Op(op), deadline);
        if is_through {
            self.start_attempt(op);
        }
    }

    /// Gives up an acquire's place in the local lines, and lets those through that stood behind.
    pub(super) fn let_next_through(&mut self, op: OpId) {
        for next in self.lines.leave(op) {
            self.start_attempt(next);
        }
    }

    fn start_attempt(&mut self, op: OpId) {
        let Some(attempt) = self.attempts.get_mut(&op) else { return };
        attempt.phase = Phase::Leasing;
        attempt.leases_used += 1;
        let (ttl, interval) = (attempt.spec.ttl, attempt.spec.interval());
        let no = self.lease_for(op, ttl, interval);
        let Some(attempt) = self.attempts.get_mut(&op) else { return };
        attempt.lease = Some(no);
        if self.leases.get(no).is_some_and(|lease| lease.is_granted) {
            self.ask_for_locks(op);
        }
    }

    /// The lease is there: the service is asked for the locks.
    pub(super) fn ask_for_locks(&mut self, op: OpId) {
        let now = self.now;
        let Some(attempt) = self.attempts.get(&op) else { return };
        let Some(no) = attempt.lease else { return };
        let Some(lease) = self.leases.get_mut(no) else { return };
        lease.changes_seen = None;
        let timeout_ms = match attempt.spec.wait {
            Wait::Try => 0,
            Wait::AtMost(_) => wire_ms(attempt.wait_until.since(now)).max(1),
            Wait::Forever => -1,
        };
        let body = Body::Acquire(Arc::clone(&attempt.spec), lease.under(), timeout_ms);
        let ticket = self.request(Task::Acquire(op), Numbering::Lease(no), body, None);
        if let Some(attempt) = self.attempts.get_mut(&op) {
            attempt.phase = Phase::Asked(ticket);
            attempt.looked_at = None;
            if matches!(attempt.spec.wait, Wait::AtMost(_)) {
                // From here on the service ends the wait. This is for when it cannot.
                attempt.deadline = attempt.wait_until.after(WAIT_SLACK);
            }
        }
    }

    /// The service has answered an acquire.
    pub(super) fn acquire_was_answered(
        &mut self,
        op: OpId,
        ticket: TicketId,
        answer: pb::SessionAcquired,
    ) {
        match answer.state() {
            State::Queued => {
                if let Some(ticket) = self.requests.get_mut(ticket) {
                    ticket.waits = true;
                    ticket.trouble = None;
                }
                if let Some(attempt) = self.attempts.get_mut(&op) {
                    attempt.was_queued = true;
                    let is_wanted = attempt.is_awaited && matches!(attempt.phase, Phase::Asked(_));
                    let place = Place { position: answer.position, holder: answer.holder };
                    if is_wanted && attempt.place.as_ref() != Some(&place) {
                        attempt.place = Some(place.clone());
                        self.push(Output::Queued(op, place));
                    }
                }
            }
            State::Acquired | State::Renewed => {
                self.finish_ticket(ticket);
                self.hold(op, answer);
            }
            State::Denied => {
                self.finish_ticket(ticket);
                self.end_attempt(op, Error::Denied { holder: answer.holder }, true);
            }
            State::Ended => {
                self.finish_ticket(ticket);
                self.acquire_was_ended(op, answer.cause);
            }
        }
    }

    fn acquire_was_ended(&mut self, op: OpId, cause: String) {
        if let Some(lease) = self.attempt_lease(op)
            && let Some(lease) = self.leases.get_mut(lease)
        {
            lease.changes = None;
        }
        match cause.as_str() {
            "timed_out" => self.end_attempt(op, Error::Timeout, true),
            "expired" | "revoked" => {
                self.end_attempt(op, Error::LeaseLost { message: cause }, false);
            }
            _ => self.end_attempt(op, Error::Ended { cause }, true),
        }
    }

    /// A lease that was gone before the acquire had a place is replaced; after that, the place is
    /// lost, and whoever waits must know.
    pub(super) fn attempt_lost_lease(&mut self, op: OpId) {
        let Some(attempt) = self.attempts.get_mut(&op) else { return };
        let fresh_start = !attempt.was_queued && attempt.leases_used < LEASES_MAX;
        match (&attempt.phase, attempt.lease) {
            (Phase::Asked(ticket), Some(no)) if fresh_start => {
                let ticket = *ticket;
                attempt.lease = None;
                self.drop_ticket(ticket);
                self.drop_lease(no);
                self.start_attempt(op);
            }
            (Phase::Ending(_), _) => self.attempt_is_over(op, false),
            _ => {
                let message = "it ended while waiting for the lock".to_owned();
                self.end_attempt(op, Error::LeaseLost { message }, false);
            }
        }
    }

    /// The lease of a waiting acquire was renewed. A change of its places that was not told means
    /// that the answer is late or lost: the service is asked again.
    pub(super) fn attempt_was_renewed(&mut self, op: OpId, changes: u64) {
        let Some(attempt) = self.attempts.get_mut(&op) else { return };
        let Phase::Asked(ticket) = attempt.phase else { return };
        let looked_at = attempt.looked_at.replace(changes);
        let waits = self.requests.get(ticket).is_some_and(|ticket| ticket.waits);
        if waits && looked_at.is_some_and(|before| before != changes) {
            self.ask_now(ticket);
        }
    }

    pub(super) fn attempt_lease(&self, op: OpId) -> Option<LeaseNo> {
        self.attempts.get(&op)?.lease
    }

    /// The lease of an acquire, made free for whatever comes next.
    pub(super) fn detach_lease(&mut self, op: OpId) -> Option<LeaseNo> {
        let no = self.attempts.get_mut(&op)?.lease.take()?;
        let lease = self.leases.get_mut(no)?;
        matches!(lease.usage, Use::Attempt(user) | Use::Undoing(user) if user == op).then_some(no)
    }
}
