//! Renewals: one message for many leases, early enough, and fast again if one goes unanswered.

use std::collections::VecDeque;
use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use super::Session;
use super::incarnation::Incarnation;
use super::io::{LeaseNo, Output};
use super::lease::{Lease, Use};
use super::mutant::Mutant;
use super::requests::jittered;
use super::time::{Moment, believed_until, from_wire_ms};
use super::timers::Timer;

/// Leases in one message. The service takes more; this keeps a message small beside others.
const PER_MESSAGE_MAX: usize = 4_096;
/// How many sendings are remembered. The answer to one that is forgotten proves nothing.
const SENDINGS_MAX: usize = 4_096;
/// The shortest pause between two renewals of one lease.
const RETRY_MIN: Duration = Duration::from_millis(15);

#[derive(Debug, Default)]
pub(super) struct Renewals {
    last_number: u64,
    /// Oldest first.
    sent: VecDeque<Sent>,
}

/// A message of renewals that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    at: Moment,
    /// How far the cluster had come then, as the session knew it.
    seen: Option<Incarnation>,
}

impl Renewals {
    /// The number of the next renewal to be sent.
    pub(super) fn next_number(&self) -> u64 {
        self.last_number + 1
    }

    fn send(&mut self, at: Moment, seen: Option<Incarnation>) -> u64 {
        self.last_number += 1;
        if self.sent.len() >= SENDINGS_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { number: self.last_number, at, seen });
        self.last_number
    }

    fn sent(&self, number: u64) -> Option<Sent> {
        let place = self.sent.binary_search_by_key(&number, |sent| sent.number).ok()?;
        self.sent.get(place).copied()
    }
}

impl Session {
    /// Sends the renewals that are due, and those that soon will be along with them.
    pub(super) fn renew_due(&mut self) {
        if !self.link.is_up() {
            // They go out first on the next connection.
            return;
        }
        while let Some(first) = self.leases.first_renewal() {
            if first > self.now {
                self.timers.arm(Timer::Renew, first);
                return;
            }
            let batch = self.renewal_batch();
            self.send_renewals(&batch);
        }
    }

    fn renewal_batch(&self) -> Vec<LeaseNo> {
        let soon = |lease: &Lease| self.now.after(lease.interval / 4);
        self.leases.to_renew(soon, PER_MESSAGE_MAX)
    }

    /// Renews these leases now, whether they are due or not.
    pub(super) fn send_renewals(&mut self, batch: &[LeaseNo]) {
        let Some(link) = self.link.up_id() else { return };
        let number = self.renewals.send(self.now, self.link.incarnation);
        let mut renewals = Vec::with_capacity(batch.len());
        for &no in batch {
            let Some(lease) = self.leases.get_mut(no) else { continue };
            renewals.push(pb::LeaseKeepAliveRequest { id: lease.id, epoch: lease.epoch, number });
            let pause = (lease.ttl / 24)
                .mul_f64(1.5_f64.powi(i32::try_from(lease.unconfirmed.min(8)).unwrap_or(8)));
            let pause = pause.clamp(RETRY_MIN, (lease.ttl / 6).max(RETRY_MIN));
            lease.unconfirmed = lease.unconfirmed.saturating_add(1);
            let again = self.now.after(jittered(&mut self.rng, pause));
            self.schedule_renewal(no, again);
        }
        let request_id = self.requests.next_request();
        let request = Some(Request::Renew(pb::RenewMany { renewals }));
        self.send_frame(link, pb::SessionRequest { request_id, once: None, request });
    }

    /// On a new connection: whatever has gone without an answer for a while is renewed at once.
    pub(super) fn renew_after_reconnect(&mut self) {
        let now = self.now;
        for no in self.leases.wanted() {
            let Some(lease) = self.leases.get_mut(no) else { continue };
            lease.unconfirmed = 0;
            // A lease that is revoked when its stream ends needs a renewal to know of this one.
            let is_users = matches!(lease.usage, Use::User { .. });
            let at = lease.confirmed.after(lease.interval / 2).max(now).min(lease.renew_at);
            let at = if is_users { now } else { at };
            self.schedule_renewal(no, at);
        }
        self.renew_due();
    }

    pub(super) fn renewed(&mut self, header: Option<&pb::Header>, many: pb::RenewedMany) {
        let first = many.renewed.first().and_then(|one| self.renewals.sent(one.number));
        if let Err(failure) = self.check_set_back(first.and_then(|sent| sent.seen), header) {
            self.cluster_was_set_back(&failure.message);
            return;
        }
        for one in many.renewed {
            self.renewed_one(&one);
        }
    }

    fn renewed_one(&mut self, answer: &pb::LeaseKeepAliveResponse) {
        let Some(mut sent) = self.renewals.sent(answer.number).map(|sent| sent.at) else { return };
        if self.mutant(Mutant::CountsFromAnswer) {
            sent = self.now;
        }
        if self.mutant(Mutant::IgnoresNumbers) {
            sent = self.renewals.sent.back().map_or(sent, |last| last.at);
        }
        let trusts_clocks = self.mutant(Mutant::TrustsClocks);
        let Some(no) = self.leases.by_id(answer.id) else { return };
        let Some(lease) = self.leases.get_mut(no) else { return };
        if answer.number < lease.first_number {
            return;
        }
        if answer.ttl_ms <= 0 && !answer.held_too_long {
            self.lease_is_gone(no);
            return;
        }
        if answer.held_too_long {
            lease.is_spent = true;
            return;
        }
        lease.is_spent = false;
        lease.unconfirmed = 0;
        let mut until = believed_until(sent, lease.ttl.min(from_wire_ms(answer.ttl_ms)));
        if trusts_clocks {
            until = sent.after(lease.ttl);
        }
        lease.changes_seen = lease.changes_seen.max(Some(answer.changes));
        let is_news = sent > lease.confirmed;
        lease.confirmed = lease.confirmed.max(sent);
        lease.alive_until = lease.alive_until.max(until);
        let next = lease.confirmed.after(lease.interval);
        let usage = lease.usage;
        if lease.is_wanted() {
            self.schedule_renewal(no, next.max(self.now));
        }
        match usage {
            Use::Attempt(op) => self.attempt_was_renewed(op, answer.changes),
            Use::Hold(hold) => self.hold_was_renewed(hold, sent, until, answer),
            Use::User { .. } if is_news => self.user_lease_was_renewed(no),
            Use::User { .. } | Use::Undoing(_) | Use::Idle | Use::Ending => {}
        }
    }

    pub(super) fn user_lease_was_renewed(&mut self, no: LeaseNo) {
        let Some(until) = self.leases.get(no).map(|lease| lease.alive_until) else { return };
        let waiting = self.take_waiting_for_renewal(no);
        if waiting.is_empty() {
            self.push(Output::LeaseExtended(no, until, None));
        }
        for op in waiting {
            self.push(Output::LeaseExtended(no, until, Some(op)));
        }
    }
}
