//! A client's lease: made, renewed, lost.
//!
//! A renewal counts from when it was *sent*. It moves the end of what the client holds only when
//! nothing has happened to its contenders that it does not know of: an operator may have asked
//! for a lock, and then the lease lives on while the lock passes to somebody else.

use std::collections::BTreeMap;

use fencepost_core::command::{LeaseGrant, LeaseRef, LeaseRenew, LeaseRevoke, Renewal};
use fencepost_core::outcome::{Granted, RenewResult, Renewed};
use fencepost_core::query::LockView;
use fencepost_core::{Action, LeaseId, LockName, Millis, Token};
use fencepost_node::io::{Class, Micros};

use super::Request;
use super::agent::Client;
use super::counter::Counter;
use super::job::Job;
use super::ops::{OpNumber, Purpose};

/// A lease of a client, as the client sees it.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) lease: LeaseRef,
    pub(super) ttl_ms: u64,
    pub(super) counter: Counter,
    /// When each renewal that is not answered was sent.
    pub(super) renewals: BTreeMap<u64, Micros>,
}

/// What the client takes off a length of time, for clocks that do not run alike.
pub(super) fn allowance(ttl_ms: u64) -> u64 {
    ttl_ms * 1_000 / 100 + 50_000
}

impl Client {
    /// Asks for a lease, unless there is one.
    pub(super) fn begin_session(&mut self) {
        let asked = self.ops.values().any(|op| matches!(op.purpose, Purpose::GrantLease { .. }));
        if self.session.is_some() || asked {
            return;
        }
        let (low, high) = self.plan.ttl;
        let ttl_ms = self.dice.between(low, high);
        let id = if self.plan.reuse_ids && self.number.0 > 0 {
            0x1000 + i64::from(self.number.0)
        } else {
            0
        };
        let seq = self.counter.take();
        let grant = LeaseGrant {
            id: LeaseId(id),
            ttl: Millis(ttl_ms),
            client: self.name.clone(),
            ..LeaseGrant::default()
        };
        let request = self.own_command(seq, Action::LeaseGrant(grant));
        self.begin(request, Purpose::GrantLease { seq, ttl_ms });
    }

    pub(super) fn lease_granted(&mut self, granted: Granted, ttl_ms: u64) {
        let lease = LeaseRef { id: granted.id, epoch: granted.epoch };
        self.session =
            Some(Session { lease, ttl_ms, counter: Counter::default(), renewals: BTreeMap::new() });
        self.renew();
        self.set_limits();
    }

    /// The lease was not granted, or is gone. Tries again a little later.
    pub(super) fn begin_session_later(&mut self) {
        let wait = self.dice.between(100_000, 700_000);
        self.agenda.add(Micros(self.local.0 + wait), Job::Begin);
    }

    /// Sends a renewal, with a number of its own, and sees to it that the next one follows.
    pub(super) fn renew(&mut self) {
        let Some(session) = &mut self.session else { return };
        self.next_renewal += 1;
        let number = self.next_renewal;
        session.renewals.insert(number, self.local);
        let renewal = Renewal { lease: session.lease, number };
        let third = session.ttl_ms * 1_000 / 3;
        let action = Action::LeaseRenew(LeaseRenew { renewals: vec![renewal] });
        let request = Client::plain_command(Class::Renewal, action);
        self.begin(request, Purpose::Renew);
        self.agenda.add(Micros(self.local.0 + third), Job::Renew);
        // One chain of renewals for each lease: a job that finds another lease does its own.
        let mut chains = 0;
        self.agenda.retain(|job| {
            chains += u32::from(matches!(job, Job::Renew));
            !matches!(job, Job::Renew) || chains == 1
        });
    }

    /// A renewal was not answered in time. The next one goes out soon.
    pub(super) fn renewal_failed(&mut self) {
        self.agenda.add(Micros(self.local.0 + 30_000), Job::Renew);
    }

    /// The answer to a renewal. It counts for the sending whose number it echoes.
    pub(super) fn renewed(&mut self, answers: &[Renewed]) {
        for answer in answers {
            let Some(session) = &mut self.session else { return };
            if answer.id != session.lease.id {
                continue;
            }
            let Some(sent) = session.renewals.remove(&answer.number) else { continue };
            // Answers come in any order, and older sendings prove nothing more.
            session.renewals.retain(|&number, _| number > answer.number);
            match answer.result {
                RenewResult::Alive { changes, .. } => self.still_alive(sent, changes),
                RenewResult::HeldTooLong => {}
                RenewResult::Gone => self.lose_session(),
            }
        }
    }

    /// The lease lives. What was seen to be held at this very number of changes is held on; at
    /// everything else, one look is needed first.
    fn still_alive(&mut self, sent: Micros, changes: u64) {
        for (name, token) in self.held_by_lease() {
            let settled = self.hold_mut(&name, token).and_then(|hold| hold.settled);
            if settled == Some(changes) {
                self.extend(&name, token, sent);
                continue;
            }
            self.begin(Request::Read(name), Purpose::Look { token, renewed: sent, changes });
        }
    }

    /// A look at a lock has come back. It was asked for after the renewal was answered: what is
    /// not asked for now was not asked for when the lease was renewed.
    pub(super) fn looked(&mut self, view: &LockView, token: Token, renewed: Micros, changes: u64) {
        let name = &view.name;
        if self.hold_mut(name, token).is_none_or(|hold| hold.owned) {
            return;
        }
        let Some(found) = view.holders.iter().find(|holder| holder.token == token) else {
            self.lose_hold(name, token);
            return;
        };
        if found.forced_at.is_some() {
            // The operator wants it. Letting go is the polite answer.
            if self.dice.chance(500_000) {
                self.end_hold(name, token);
            }
            return;
        }
        if let Some(hold) = self.hold_mut(name, token) {
            hold.settled = Some(changes);
        }
        self.extend(name, token, renewed);
    }

    /// The lease is gone, and with it all that was held and waited for.
    pub(super) fn lose_session(&mut self) {
        let Some(old) = self.session.take() else { return };
        for (name, token) in self.held_by_lease() {
            self.lose_hold(&name, token);
        }
        let of_lease = self.ops.iter().filter(|(_, op)| op.purpose.is_of_lease());
        let of_lease: Vec<OpNumber> = of_lease.map(|(&number, _)| number).collect();
        for number in of_lease {
            self.abandon(number);
        }
        if self.plan.reuse_ids && self.number.0 > 0 {
            self.renew_as_zombie(old.lease);
        }
        self.begin_session_later();
    }

    /// The cluster was restored, and knows none of the leases that it granted before.
    pub(super) fn lose_everything(&mut self) {
        self.lose_session();
        let held = self.holds.iter().map(|hold| (hold.name.clone(), hold.token));
        for (name, token) in held.collect::<Vec<_>>() {
            self.lose_hold(&name, token);
        }
    }

    /// Later, when the id may have been granted again, somebody who slept all the while renews.
    fn renew_as_zombie(&mut self, lease: LeaseRef) {
        self.next_renewal += 1;
        let renewal = Renewal { lease, number: self.next_renewal };
        let action = Action::LeaseRenew(LeaseRenew { renewals: vec![renewal] });
        let request = Client::plain_command(Class::Renewal, action);
        let at = Micros(self.local.0 + self.dice.between(100_000, 4_000_000));
        self.agenda.add(at, Job::Copy(Box::new(request)));
    }

    /// Ends the lease. What it held is given up before anybody else can know.
    pub(super) fn revoke(&mut self) {
        let Some(lease) = self.session.as_ref().map(|session| session.lease) else { return };
        self.lose_session();
        let seq = self.counter.take();
        let request = self.own_command(seq, Action::LeaseRevoke(LeaseRevoke { lease }));
        self.begin(request, Purpose::Own { seq });
    }

    fn held_by_lease(&self) -> Vec<(LockName, Token)> {
        let held = self.holds.iter().filter(|hold| !hold.owned);
        held.map(|hold| (hold.name.clone(), hold.token)).collect()
    }
}
