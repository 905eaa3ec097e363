//! What an answer means for the client that gets it.

use fencepost_core::Key;
use fencepost_core::event::Cause;
use fencepost_core::outcome::{Outcome, Reason};
use fencepost_core::query::LockView;
use fencepost_node::io::Micros;

use super::acts::contender_key;
use super::agent::Client;
use super::job::Job;
use super::ops::{OpNumber, Purpose, Want};

impl Client {
    /// A command was done.
    pub(super) fn done(&mut self, number: OpNumber, outcome: Outcome) {
        let Some(op) = self.ops.get(&number) else { return };
        match op.purpose.clone() {
            Purpose::GrantLease { seq, ttl_ms } => {
                self.finish(number);
                self.counter.close(seq);
                match outcome {
                    Outcome::LeaseGranted(granted) => self.lease_granted(granted, ttl_ms),
                    _ => self.begin_session_later(),
                }
            }
            Purpose::Renew => {
                self.finish(number);
                if let Outcome::LeasesRenewed(answers) = outcome {
                    self.renewed(&answers);
                }
            }
            Purpose::Acquire(want) => self.acquire_answered(number, &want, outcome),
            Purpose::Cancel { seq, of } => {
                self.finish(number);
                self.close_lease_seq(seq);
                if let Some(Purpose::Acquire(want)) = self.ops.get(&of).map(|op| &op.purpose) {
                    let seq = want.seq;
                    self.close_lease_seq(seq);
                    self.abandon(of);
                }
                self.lose_if_gone(&outcome);
            }
            Purpose::Lease { seq } => {
                self.finish(number);
                self.close_lease_seq(seq);
                self.lose_if_gone(&outcome);
            }
            Purpose::Own { seq } => {
                self.finish(number);
                self.counter.close(seq);
            }
            Purpose::RenewOwned { name, token } => {
                let sent = op.call_sent;
                self.finish(number);
                let grant = match &outcome {
                    Outcome::Renewed(grant) => Some(grant),
                    Outcome::Rejected(Reason::HeldTooLong) => return,
                    _ => None,
                };
                self.owned_renewed(&name, token, grant, sent);
            }
            Purpose::Look { .. } | Purpose::Read { .. } | Purpose::Insist | Purpose::Nothing => {
                self.finish(number);
            }
        }
    }

    fn acquire_answered(&mut self, number: OpNumber, want: &Want, outcome: Outcome) {
        if want.cancelled {
            // Only the cancellation's answer counts. It is asked for until it comes.
            return;
        }
        let Some(op) = self.ops.get_mut(&number) else { return };
        match outcome {
            Outcome::Queued(_) | Outcome::Reserved(_) => {
                op.since = op.call_sent;
                let at = Micros(self.local.0 + self.dice.between(150_000, 500_000));
                self.agenda.add(at, Job::Again(number));
                return;
            }
            Outcome::Acquired(grant) => {
                let since = op.since;
                self.granted(want, grant.token, grant.remaining, since);
            }
            Outcome::AcquiredMany(grant) => {
                let since = op.since;
                self.granted(want, grant.token, grant.remaining, since);
            }
            other if !want.owner => self.lose_if_gone(&other),
            _ => {}
        }
        self.finish(number);
        if want.owner {
            self.counter.close(want.seq);
        } else {
            self.close_lease_seq(want.seq);
        }
    }

    fn close_lease_seq(&mut self, seq: fencepost_core::Seq) {
        if let Some(session) = &mut self.session {
            session.counter.close(seq);
        }
    }

    /// An answer that says that the lease is gone.
    fn lose_if_gone(&mut self, outcome: &Outcome) {
        let gone = matches!(
            outcome,
            Outcome::Rejected(Reason::LeaseNotFound(_) | Reason::LeaseEpochStale(..))
                | Outcome::Ended(Cause::Expired | Cause::Revoked)
        );
        if gone {
            self.lose_session();
        }
    }

    /// A lock was read.
    pub(super) fn viewed(&mut self, number: OpNumber, view: &LockView) {
        let Some(op) = self.ops.remove(&number) else { return };
        let other = view.holders.iter().find(|holder| holder.client != self.name);
        if let Some(other) = other {
            self.token_of_another = other.token.0;
        }
        match op.purpose {
            Purpose::Look { token, renewed, changes } => {
                self.looked(view, token, renewed, changes);
            }
            Purpose::Read { force: true } => self.force(view),
            _ => {}
        }
    }

    /// Something happened at this key. Whoever waits there asks at once.
    pub(super) fn poll_soon(&mut self, key: &Key) {
        let lease = self.session.as_ref().map_or(0, |session| session.lease.id.0);
        let waits = self.ops.iter().filter(|(_, op)| op.call.is_none()).filter(|(_, op)| {
            let Purpose::Acquire(want) = &op.purpose else { return false };
            let here = |name| contender_key(name, lease) == *key;
            !want.cancelled && want.locks.iter().any(|(name, _)| here(name))
        });
        let waits: Vec<OpNumber> = waits.map(|(&number, _)| number).collect();
        for number in waits {
            self.send(number);
        }
    }
}
