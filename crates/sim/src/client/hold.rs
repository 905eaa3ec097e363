//! What a client holds, until when it may say so, and the work that it does meanwhile.

use fencepost_core::command::{
    Action, LeaseRef, Mode, Release, ReleaseAs, ReleaseHeld, ReleaseMany, RenewAs, RenewHeld,
};
use fencepost_core::event::{Event, EventKind};
use fencepost_core::outcome::Grant;
use fencepost_core::{LockName, Millis, Token};
use fencepost_node::io::{Class, Micros};

use super::agent::Client;
use super::job::Job;
use super::ops::{Purpose, Want};
use super::session::allowance;
use super::{Belief, ClientAction};

/// A lock that is held.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) name: LockName,
    pub(super) token: Token,
    pub(super) exclusive: bool,
    pub(super) ttl_ms: u64,
    /// Until when, by the client's own clock.
    pub(super) until: Micros,
    /// Whether its user was told.
    reported: bool,
    /// Whether it was acquired by owner name, without a lease of the client's.
    pub(super) owned: bool,
    /// The number of changes to the lease at which it was seen to be held and not asked for.
    pub(super) settled: Option<u64>,
    /// All that was acquired together.
    together: Vec<LockName>,
    /// How long the work takes.
    work: u64,
}

impl Client {
    pub(super) fn hold_mut(&mut self, name: &LockName, token: Token) -> Option<&mut Hold> {
        self.holds.iter_mut().find(|hold| hold.name == *name && hold.token == token)
    }

    /// Locks were granted, not before `since`, when the lease had `remaining` to live.
    pub(super) fn granted(&mut self, want: &Want, token: Token, remaining: Millis, since: Micros) {
        let ttl_ms = want.ttl_ms;
        let until =
            (since.0 + remaining.0 * 1_000).saturating_sub(allowance(ttl_ms.max(remaining.0)));
        let together: Vec<LockName> = want.locks.iter().map(|(name, _)| name.clone()).collect();
        let work = self.draw_work(&together, ttl_ms);
        for (name, mode) in &want.locks {
            if self.hold_mut(name, token).is_some() {
                continue;
            }
            // The same client cannot have held it until now without having lost it.
            let old = self.holds.iter().find(|hold| hold.name == *name).map(|hold| hold.token);
            if let Some(old) = old {
                self.lose_hold(name, old);
            }
            self.holds.push(Hold {
                name: name.clone(),
                token,
                exclusive: *mode == Mode::Exclusive,
                ttl_ms,
                until: Micros(until),
                reported: false,
                owned: want.owner,
                settled: None,
                together: if together.len() > 1 { together.clone() } else { Vec::new() },
                work,
            });
            self.report_or_wait(name, token);
        }
        let short = Micros(until) < Micros(self.local.0 + ttl_ms * 500);
        if want.owner {
            let third = if short { 0 } else { ttl_ms * 1_000 / 3 };
            let at = Micros(self.local.0 + third);
            self.agenda.add(at, Job::RenewOwned(together[0].clone(), token));
        } else if short {
            self.renew();
        }
    }

    /// A grant with less than half of the lease left is told only after a renewal.
    fn report_or_wait(&mut self, name: &LockName, token: Token) {
        let now = self.local;
        let Some(hold) = self.hold_mut(name, token) else { return };
        if hold.reported || hold.until.0 < now.0 + hold.ttl_ms * 500 {
            return;
        }
        hold.reported = true;
        let (work, exclusive) = (hold.work, hold.exclusive);
        self.agenda.add(Micros(now.0 + work), Job::EndHold(name.clone(), token));
        if exclusive {
            for _ in 0..self.dice.roll(3) {
                // A careless user writes without looking at the time again.
                let at = Micros(now.0 + self.dice.roll(work + work / 4 + 1));
                self.agenda.add(at, Job::Write(name.clone(), token));
            }
        }
        self.believe(name, token);
        if self.number.0 > 0 && self.dice.chance(self.plan.freezes) {
            let length = self.dice.between(200, 3 * self.plan.ttl.1);
            self.frozen_until = Some(Micros(now.0 + length * 1_000));
        }
    }

    /// Says until when it holds, and looks again before that.
    fn believe(&mut self, name: &LockName, token: Token) {
        let cautious = self.plan.cautious;
        let Some(hold) = self.hold_mut(name, token).filter(|hold| hold.reported) else { return };
        let (until, exclusive) = (hold.until, hold.exclusive);
        let margin = if cautious { hold.ttl_ms * 500 - allowance(hold.ttl_ms) / 2 } else { 0 };
        let at = Micros(until.0.saturating_sub(margin));
        let (lock, name) = (name.clone(), name.clone());
        self.out.push(ClientAction::Believe(Belief::Holds { lock, token, until, exclusive }));
        self.agenda.add(at, Job::Guard(name, token));
    }

    /// A renewal that was sent at `sent` keeps the lock.
    pub(super) fn extend(&mut self, name: &LockName, token: Token, sent: Micros) {
        let Some(hold) = self.hold_mut(name, token) else { return };
        let length = (hold.ttl_ms * 1_000).saturating_sub(allowance(hold.ttl_ms));
        self.extend_to(name, token, Micros(sent.0 + length));
    }

    fn extend_to(&mut self, name: &LockName, token: Token, until: Micros) {
        let Some(hold) = self.hold_mut(name, token) else { return };
        if until <= hold.until {
            return;
        }
        hold.until = until;
        if hold.reported {
            self.believe(name, token);
        } else {
            self.report_or_wait(name, token);
        }
    }

    /// Whether the work must stop: nothing has renewed the lease in time.
    pub(super) fn guard(&mut self, name: &LockName, token: Token) {
        let (now, cautious) = (self.local, self.plan.cautious);
        let Some(hold) = self.hold_mut(name, token) else { return };
        let margin = if cautious { hold.ttl_ms * 500 - allowance(hold.ttl_ms) / 2 } else { 0 };
        if hold.until.0.saturating_sub(margin) <= now.0 {
            self.end_hold(name, token);
        }
    }

    /// The lock is gone, and there is nothing to give back.
    pub(super) fn lose_hold(&mut self, name: &LockName, token: Token) {
        let Some(hold) = self.hold_mut(name, token) else { return };
        if hold.reported {
            let lock = name.clone();
            self.out.push(ClientAction::Believe(Belief::HoldsNot { lock, token }));
        }
        self.holds.retain(|hold| hold.name != *name || hold.token != token);
    }

    /// Gives a lock back, and what was acquired together with it. The client stops to believe in
    /// it before it says so.
    pub(super) fn end_hold(&mut self, name: &LockName, token: Token) {
        let Some(hold) = self.hold_mut(name, token).cloned() else { return };
        let all = if hold.together.is_empty() { vec![name.clone()] } else { hold.together };
        for one in &all {
            self.lose_hold(one, token);
        }
        if hold.owned {
            let seq = self.counter.take();
            let (name, client) = (name.clone(), self.name.clone());
            // Half of them name the token, as clients do that mean no other holding.
            let action = match seq.0.is_multiple_of(2) {
                true => Action::ReleaseHeld(ReleaseHeld { name, client, token }),
                false => Action::ReleaseAs(ReleaseAs { name, client }),
            };
            let request = self.own_command(seq, action);
            self.begin(request, Purpose::Own { seq });
            return;
        }
        let Some(lease) = self.session.as_ref().map(|session| session.lease) else { return };
        self.release(lease, all, token);
        // At times it is given back twice, by two requests.
        if self.dice.chance(if self.plan.weights.wrong_release > 0 { 100_000 } else { 0 }) {
            self.release(lease, vec![name.clone()], token);
        }
    }

    pub(super) fn release(&mut self, lease: LeaseRef, names: Vec<LockName>, token: Token) {
        let Some(session) = &mut self.session else { return };
        let seq = session.counter.take();
        let action = match <[LockName; 1]>::try_from(names) {
            Ok([name]) => Action::Release(Release { name, lease, token }),
            Err(names) => Action::ReleaseMany(ReleaseMany { names, lease, token }),
        };
        if let Some(request) = self.lease_command(seq, action) {
            self.begin(request, Purpose::Lease { seq });
        }
    }

    /// Renews what was acquired by owner name.
    pub(super) fn renew_owned(&mut self, name: &LockName, token: Token) {
        let Some(hold) = self.hold_mut(name, token).filter(|hold| hold.owned) else { return };
        let third = hold.ttl_ms * 1_000 / 3;
        let (lock, client, ttl) = (name.clone(), self.name.clone(), Millis::ZERO);
        let action = match token.0.is_multiple_of(2) {
            true => Action::RenewHeld(RenewHeld { name: lock, client, ttl, token }),
            false => Action::RenewAs(RenewAs { name: lock, client, ttl }),
        };
        let request = Client::plain_command(Class::Renewal, action);
        self.begin(request, Purpose::RenewOwned { name: name.clone(), token });
        let at = Micros(self.local.0 + third);
        self.agenda.retain(
            |job| !matches!(job, Job::RenewOwned(other, same) if other == name && *same == token),
        );
        self.agenda.add(at, Job::RenewOwned(name.clone(), token));
    }

    /// The answer to a renewal by owner name that was sent at `sent`. Nothing means that the lock
    /// is not the owner's any more.
    pub(super) fn owned_renewed(
        &mut self,
        name: &LockName,
        token: Token,
        grant: Option<&Grant>,
        sent: Micros,
    ) {
        match grant {
            Some(grant) if grant.token == token => {
                let Some(hold) = self.hold_mut(name, token) else { return };
                let less = allowance(hold.ttl_ms.max(grant.remaining.0));
                let until = (sent.0 + grant.remaining.0 * 1_000).saturating_sub(less);
                self.extend_to(name, token, Micros(until));
            }
            _ => self.lose_hold(name, token),
        }
    }

    /// Something happened to a contender of this client's leases. Losses are believed; of grants,
    /// only the answer of the acquire itself tells enough.
    pub(super) fn notified(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Granted(holding) => self.poll_soon(&holding.key),
            EventKind::Deleted { prev, ended: Some(_) } => {
                let token = Token::from(prev.create_revision);
                let slash = prev.key.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                let name = LockName::from(&prev.key[..slash]);
                if self.hold_mut(&name, token).is_some() {
                    self.lose_hold(&name, token);
                }
                self.poll_soon(&prev.key);
            }
            _ => {}
        }
    }

    /// The store has taken a write, or not.
    pub(super) fn written(&mut self, name: &LockName, token: Token, accepted: bool) {
        // A refused write means that somebody with a later token was there: the lock is lost.
        if !accepted {
            self.lose_hold(name, token);
        }
    }

    /// How long the work under a lock will take, in microseconds.
    fn draw_work(&mut self, names: &[LockName], ttl_ms: u64) -> u64 {
        if names.iter().any(|name| **name == *super::plan::PROBE.as_bytes()) {
            return 20_000;
        }
        if self.dice.chance(self.plan.long_holds) {
            return self.dice.between(ttl_ms, 3 * ttl_ms) * 1_000;
        }
        match self.dice.roll(10) {
            0..=6 => self.dice.between(5_000, 250_000),
            _ => self.dice.between(100_000, 1_500_000),
        }
    }
}
