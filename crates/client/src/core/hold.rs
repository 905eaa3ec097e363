//! What is held, and until when it may be believed.
//!
//! Invariant C1: a hold's cutoff is never after its deadline, and its deadline never after what a
//! renewal that was sent and confirmed allows. Invariant C2: a renewal extends a hold only if the
//! session can account for every change of the lease's places in queues; otherwise somebody may
//! have taken the lock away, and the service is asked first. Invariant C3: a loss is final.

use std::sync::Arc;
use std::time::Duration;

use fencepost_proto::v1 as pb;

use super::Session;
use super::acquire::{Attempt, Phase};
use super::io::{Held, HoldId, LeaseNo, LockSpec, Loss, Mode, OpId, Output, Validity};
use super::lease::Use;
use super::mutant::Mutant;
use super::time::Moment;
use super::timers::Timer;
use crate::error::Error;

/// How often a lease is renewed before its grant is given up as too short to be of use.
const PROOFS_MAX: u32 = 8;

#[derive(Debug)]
pub(super) struct Hold {
    /// The acquire that got it, which stands for it in the local lines.
    pub(super) op: OpId,
    pub(super) lease: LeaseNo,
    pub(super) names: Arc<[String]>,
    keys: Vec<String>,
    mode: Mode,
    reentrant: bool,
    pub(super) token: i64,
    signed_token: String,
    window: Duration,
    pub(super) validity: Validity,
    /// How many guards share it. None until it is reported.
    pub(super) guards: u32,
    proofs: u32,
    pub(super) is_lost: bool,
    /// The count of changes that the service is being asked about, and how many of the locks were
    /// not answered for yet.
    pub(super) doubt: Option<(u64, usize)>,
}

impl Hold {
    /// What a guard gets. Only a hold that others may enter keeps what it hands out.
    fn held(&mut self, hold: HoldId, lease_id: i64) -> Box<Held> {
        let (keys, signed_token) = if self.reentrant {
            (self.keys.clone(), self.signed_token.clone())
        } else {
            (std::mem::take(&mut self.keys), std::mem::take(&mut self.signed_token))
        };
        Box::new(Held {
            hold,
            names: Arc::clone(&self.names),
            keys,
            token: self.token,
            signed_token,
            lease_id,
            validity: self.validity,
        })
    }

    /// Whether enough is left for the user to begin with.
    fn is_usable(&self, now: Moment, ttl: Duration) -> bool {
        let left = self.validity.deadline.since(now);
        left >= ttl / 2 && self.validity.cutoff.since(now) >= self.window / 4
    }

    fn extend(&mut self, sent: Moment, until: Moment) {
        let cutoff = sent.after(self.window).min(until);
        self.validity.deadline = self.validity.deadline.max(until);
        self.validity.cutoff = self.validity.cutoff.max(cutoff);
    }
}

impl Session {
    /// The service has granted what an acquire asked for.
    pub(super) fn hold(&mut self, op: OpId, answer: pb::SessionAcquired) {
        let Some(attempt) = self.attempts.get_mut(&op) else { return };
        let Phase::Asked(_) = attempt.phase else { return };
        let Some(no) = attempt.lease else { return };
        let Some(lease) = self.leases.get_mut(no) else { return };
        self.holds_made += 1;
        let id = HoldId(self.holds_made);
        attempt.phase = Phase::Proving(id);
        lease.usage = Use::Hold(id);
        // Every lock was entered and granted: two changes each.
        let locks = u64::try_from(attempt.spec.names.len()).unwrap_or(u64::MAX);
        lease.changes = lease.changes.map(|changes| changes.saturating_add(2 * locks));
        lease.settled_number = self.renewals.next_number();
        let mut hold = Hold {
            op,
            lease: no,
            names: Arc::clone(&attempt.spec.names),
            keys: answer.keys,
            mode: attempt.spec.mode,
            reentrant: attempt.spec.reentrant,
            token: answer.fencing_token,
            signed_token: answer.signed_token,
            window: attempt.spec.window(),
            validity: Validity::default(),
            guards: 0,
            proofs: 0,
            is_lost: false,
            doubt: None,
        };
        // A renewal that was answered since the locks were asked for may have come after the grant,
        // and after something that happened to it.
        let doubtful =
            lease.changes_seen.filter(|&seen| lease.changes.is_none_or(|known| seen > known));
        let is_unaccounted = lease.changes.is_none();
        if doubtful.is_none() {
            hold.extend(lease.confirmed, lease.alive_until);
        }
        self.holds.insert(id, hold);
        if is_unaccounted {
            // The first renewal will raise a doubt: better now than when time is short.
            self.schedule_renewal(no, self.now);
        }
        match doubtful {
            None => self.report_if_usable(id),
            Some(changes) => self.doubt(id, changes),
        }
    }

    /// Tells the user of a grant, if its lease is known to live for long enough. Otherwise it is
    /// renewed first.
    pub(super) fn report_if_usable(&mut self, id: HoldId) {
        let now = self.now;
        let Some(hold) = self.holds.get_mut(&id) else { return };
        let Some(lease) = self.leases.get(hold.lease) else { return };
        if hold.is_usable(now, lease.ttl) {
            hold.guards = 1;
            let (op, cutoff, no) = (hold.op, hold.validity.cutoff, hold.lease);
            let held = hold.held(id, lease.id);
            self.timers.arm(Timer::Lease(no), cutoff);
            self.attempts.remove(&op);
            self.timers.disarm(Timer::Op(op));
            self.push(Output::Acquired(op, held));
            self.share_with_waiting(id);
            return;
        }
        hold.proofs += 1;
        let (op, no) = (hold.op, hold.lease);
        if hold.proofs > PROOFS_MAX {
            let message = "its TTL is too short for this connection".to_owned();
            self.fail_attempt(op, Error::LeaseLost { message });
        } else if lease.unconfirmed == 0 {
            self.send_renewals(&[no]);
        }
    }

    /// Another reentrant acquire of the same lock shares the hold that is there.
    pub(super) fn enter_again(&mut self, op: OpId, spec: &LockSpec) -> bool {
        let now = self.now;
        let shared = self.holds.first_where(|hold| {
            let same = hold.reentrant && hold.names == spec.names && hold.mode == spec.mode;
            same && hold.guards > 0 && !hold.is_lost && now < hold.validity.cutoff
        });
        let Some(id) = shared else { return false };
        let Some(hold) = self.holds.get_mut(&id) else { return false };
        hold.guards += 1;
        let lease_id = self.leases.get(hold.lease).map_or(0, |lease| lease.id);
        let held = hold.held(id, lease_id);
        self.push(Output::Acquired(op, held));
        true
    }

    /// Reentrant acquires that came before the grant, and stand in the local line, share it now. If
    /// they waited for its end, a holder that waits for them would wait for ever.
    fn share_with_waiting(&mut self, id: HoldId) {
        let Some(hold) = self.holds.get(&id).filter(|hold| hold.reentrant) else { return };
        let shares = |attempt: &Attempt| {
            let spec = &attempt.spec;
            let same = spec.reentrant && spec.names == hold.names && spec.mode == hold.mode;
            same && matches!(attempt.phase, Phase::InLine)
        };
        for op in self.attempts.keys_where(shares) {
            let Some(attempt) = self.attempts.remove(&op) else { continue };
            self.timers.disarm(Timer::Op(op));
            self.enter_again(op, &attempt.spec);
            self.let_next_through(op);
        }
    }

    /// A renewal of a held lease was confirmed.
    pub(super) fn hold_was_renewed(
        &mut self,
        id: HoldId,
        sent: Moment,
        until: Moment,
        answer: &pb::LeaseKeepAliveResponse,
    ) {
        let ignores_changes = self.mutant(Mutant::IgnoresChanges);
        let Some(hold) = self.holds.get_mut(&id).filter(|hold| !hold.is_lost) else { return };
        let Some(lease) = self.leases.get(hold.lease) else { return };
        let is_accounted_for = lease.changes.is_some_and(|known| {
            let earlier = answer.number < lease.settled_number && answer.changes < known;
            earlier || answer.changes == known
        });
        if !is_accounted_for && !ignores_changes {
            self.doubt(id, answer.changes);
            return;
        }
        hold.extend(sent, until);
        let validity = hold.validity;
        if hold.guards > 0 {
            self.push(Output::Extended(id, validity));
        } else {
            self.report_if_usable(id);
        }
    }

    /// The cutoff of a hold may have come.
    pub(super) fn hold_is_due(&mut self, id: HoldId) {
        // One that was not reported yet has no cutoff: its timer was set when its lease was idle.
        let is_believed = |hold: &&Hold| hold.guards > 0 && !hold.is_lost;
        let Some(hold) = self.holds.get(&id).filter(is_believed) else { return };
        let (cutoff, no) = (hold.validity.cutoff, hold.lease);
        if self.mutant(Mutant::IgnoresCutoff) {
            return;
        }
        if self.now < cutoff {
            self.timers.arm(Timer::Lease(no), cutoff);
            return;
        }
        let is_spent = self.leases.get(no).is_some_and(|lease| lease.is_spent);
        self.lose(id, if is_spent { Loss::HeldTooLong } else { Loss::Unconfirmed });
    }

    /// The service tells that a lock was taken away, or is asked for by an operator.
    pub(super) fn hold_was_lost(&mut self, told: pb::HoldLost) {
        let Some(no) = self.leases.by_id(told.lease_id) else { return };
        let Some(Use::Hold(id)) = self.leases.get(no).map(|lease| lease.usage) else { return };
        if self.holds.get(&id).is_none_or(|hold| hold.token != told.fencing_token) {
            return;
        }
        if told.until_ms > 0 {
            self.lose(id, Loss::Asked { reason: told.reason });
        } else {
            let cause = match told.reason.as_str() {
                "" => told.cause,
                reason => format!("{}: {reason}", told.cause),
            };
            self.lose(id, Loss::Taken { cause });
        }
    }

    /// A hold is lost. Its lease is left alone until the guard is gone: while the work winds down,
    /// the service must not give the lock to anybody else.
    pub(super) fn lose(&mut self, id: HoldId, loss: Loss) {
        let Some(hold) = self.holds.get_mut(&id).filter(|hold| !hold.is_lost) else { return };
        hold.is_lost = true;
        let (op, no, is_reported) = (hold.op, hold.lease, hold.guards > 0);
        self.leases.schedule(no, Moment::NEVER);
        if is_reported {
            if let Some(lease) = self.leases.get_mut(no) {
                lease.usage = Use::Ending;
            }
            self.push(Output::Lost(id, loss));
            self.let_next_through(op);
            return;
        }
        // Nobody knew of it yet, and nobody will before it is known to be gone.
        let error = match loss {
            Loss::Taken { cause } => Error::Ended { cause },
            Loss::Asked { reason } => Error::Ended { cause: reason },
            _ => Error::LeaseLost { message: "it ended before the grant was reported".to_owned() },
        };
        self.fail_attempt(op, error);
    }

    pub(super) fn take_hold(&mut self, id: HoldId) -> Option<Hold> {
        self.holds.remove(&id)
    }
}
