//! The one place that grants.
//!
//! A lock's holders are the longest compatible prefix of its queue. After every step, each queue
//! that changed is walked from its frontier, the first key that does not hold, and grants are
//! made until one must wait. So the grant is made in the same step that looks at the lease, and
//! a waiter whose lease is gone can never be given the lock.

use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;

use crate::command::Mode;
use crate::event::{EventKind, Holding};
use crate::ids::{ClientId, Key, LeaseId, LockName, LogTime, Millis, Revision, Token, Value};
use crate::lease::Lease;
use crate::lock::{Many, Queue};
use crate::mutant::Mutant;
use crate::outcome::{Grant, GrantMany, Outcome};
use crate::record::{Answers, Contender, Record, Role, Spot, queue_form};
use crate::state::State;
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    /// Grants what can be granted in the queues that this step has touched.
    pub(crate) fn settle(&mut self) {
        let mut next = 0;
        // Granting several locks at once can touch further queues.
        while let Some(name) = self.touched.get(next).cloned() {
            self.settle_lock(&name);
            next += 1;
        }
        self.touched.clear();
    }

    fn settle_lock(&mut self, name: &LockName) {
        let mut is_first = true;
        while is_first || self.may_grant_further(name) {
            is_first = false;
            let Some(front) = self.state.front(name) else { return };
            let record = front.record;
            if record.holds() {
                self.pass(name, record.spot());
                continue;
            }
            if !self.state.is_grantable(name, &front) {
                return;
            }
            if let Some(group) =
                record.group().filter(|_| !self.state.mutant(Mutant::GroupPiecemeal))
            {
                if !self.grant_group(group) {
                    return;
                }
                continue;
            }
            let (key, alone) = (front.key.clone(), matches!(front.queue, Queue::One(_)));
            let exclusive = front.mode() == Some(Mode::Exclusive);
            let holding = self.grant(name, &key, alone);
            // Nobody has room beside an exclusive holder.
            if exclusive && !self.state.mutant(Mutant::SharedJoinsExclusive) {
                self.heir = Some((name.clone(), holding));
                return;
            }
        }
    }

    /// Whether this entry may grant one more waiter of a queue. If not, the next one goes on.
    fn may_grant_further(&mut self, name: &LockName) -> bool {
        self.state.work.key_visits += 1;
        if self.state.grants_left > 0 {
            self.state.grants_left -= 1;
            return true;
        }
        let front = self.state.front(name);
        if front.is_some_and(|one| one.record.holds() || self.state.is_grantable(name, &one)) {
            self.state.timers.arm(LogTime(0), Timer::Grants(name.clone()));
        }
        false
    }

    fn pass(&mut self, name: &LockName, spot: Spot) {
        if let Some(Queue::Many(many)) = self.state.locks.get_mut(name) {
            many.pass(spot);
        }
    }

    fn grant(&mut self, name: &LockName, key: &Key, alone: bool) -> Holding {
        let (holding, remaining, answers) = self.hold(name, key, alone);
        let grant = self.state.grant_of(key, holding.token, holding.lease, remaining);
        self.announce(holding.clone(), answers, &Outcome::Acquired(grant));
        holding
    }

    /// Grants several locks together if each could be granted by itself.
    fn grant_group(&mut self, created: Revision) -> bool {
        let Some(keys) = self.state.groups.get(&created).cloned() else {
            return false;
        };
        let at_all_heads = keys.iter().all(|key| {
            let Some((name, _)) = queue_form(key) else {
                return false;
            };
            let front = self.state.front(&name).filter(|front| front.key == key);
            front.is_some_and(|front| self.state.is_grantable(&name, &front))
        });
        if !at_all_heads {
            return false;
        }
        self.state.groups.remove(&created);
        let mut held = Vec::with_capacity(keys.len());
        for key in &keys {
            let Some((name, _)) = queue_form(key) else { continue };
            held.push(self.hold(&name, key, false));
            self.touched.push(name);
        }
        let (lease, remaining) = (held[0].0.lease, held[0].1);
        let grant = self.state.grant_of(&keys[0], Token::from(created), lease, remaining);
        let Grant { token, lease, remaining, .. } = grant;
        let outcome = Outcome::AcquiredMany(GrantMany { keys, token, lease, remaining }.into());
        for (holding, _, answers) in held {
            self.announce(holding, answers, &outcome);
        }
        true
    }

    /// Takes a lock in whose queue nobody stands, so that `hold_free` can make its holder. Says
    /// no if somebody does, or if the lock stands free for a while. Most grants are made this
    /// way, without walking any queue.
    pub(crate) fn take_free(&mut self, key: &Key, lease: LeaseId, name_len: usize) -> bool {
        let name = LockName::prefix_of(key, name_len);
        if self.state.delayed(&name, lease).is_some() {
            return false;
        }
        match self.state.locks.entry(name) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Queue::One(key.clone()));
                self.passed_on |= self.emptied;
                true
            }
        }
    }

    /// Makes the holder of a lock that was taken while free.
    pub(crate) fn hold_free(
        &mut self,
        key: Key,
        value: Value,
        id: LeaseId,
        mut contender: Contender,
    ) -> Outcome {
        contender.granted = self.change();
        contender.wait_until = LogTime::NEVER;
        self.tell_at_once(&mut contender);
        let bounds = (contender.budget_ends(), contender.hold_ends());
        let now = self.state.now;
        let (mut client, mut remaining) = (ClientId::default(), Millis::ZERO);
        if let Some(lease) = self.start_hold(&key, id, bounds) {
            // It took its place, too.
            lease.changes += 1;
            lease.keys.insert(key.clone());
            (client, remaining) = (lease.client.clone(), lease.remaining(now));
        }
        let record = self.new_record(value, id, Role::Contender(contender));
        let grant = self.state.grant_of(&key, record.token(), id, remaining);
        let holding = Holding { key: key.clone(), token: record.token(), lease: id, client };
        self.insert_attached(key, record);
        self.emit(EventKind::Granted(holding));
        Outcome::Acquired(grant)
    }

    /// Makes a contender a holder. If it stands alone in its queue, its record alone says that it
    /// holds.
    fn hold(&mut self, name: &LockName, key: &Key, alone: bool) -> (Holding, Millis, Answers) {
        let now = self.state.now;
        let revision = self.state.revision;
        let record = self.state.keys.get_mut(key).expect("a key in a queue has a record");
        let (spot, lease, token) = (record.spot(), record.lease, record.token());
        let contender = record.contender_mut().expect("only contenders are granted");
        self.state.timers.disarm(contender.wait_until, Timer::Wait(key.clone()));
        contender.granted = revision;
        contender.since = now;
        contender.wait_until = LogTime::NEVER;
        if let Some(extra) = &mut contender.extra {
            extra.grouped = false;
        }
        let answers = contender.answers();
        let bounds = (contender.budget_ends(), contender.hold_ends());
        if !alone && let Some(Queue::Many(many)) = self.state.locks.get_mut(name) {
            if many.frontier_spot() == Some(spot) {
                many.granted(spot);
            } else {
                many.granted_out_of_turn();
            }
        }
        let owner = self.start_hold(key, lease, bounds);
        let owner = owner.map(|lease| (lease.client.clone(), lease.remaining(now)));
        let (client, remaining) = owner.unwrap_or_default();
        (Holding { key: key.clone(), token, lease, client }, remaining, answers)
    }

    /// What begins with a hold: its bounds, and the lease that was made for it, if one was. Hands
    /// the lease back, so that it is looked up once.
    fn start_hold(
        &mut self,
        key: &Key,
        id: LeaseId,
        bounds: (Option<LogTime>, Option<LogTime>),
    ) -> Option<&mut Lease> {
        if let Some(budget_ends) = bounds.0 {
            self.state.timers.arm(budget_ends, Timer::Budget(key.clone()));
        }
        if let Some(hold_ends) = bounds.1 {
            self.state.timers.arm(hold_ends, Timer::HoldMax(key.clone()));
        }
        self.end_delay(key);
        let now = self.state.now;
        let lease = self.state.leases.get_mut(&id)?;
        lease.changes += 1;
        if lease.sole_lock.is_some() && lease.deadline == LogTime::NEVER {
            lease.deadline = now.after(lease.ttl);
            self.state.timers.arm(lease.deadline, Timer::Lease(id));
        }
        Some(lease)
    }

    /// A grant during a lock-delay can only be to the client that was lost. It is back, so there
    /// is nothing left to wait for.
    fn end_delay(&mut self, key: &Key) {
        if self.state.delays.is_empty() {
            return;
        }
        let Some((name, _)) = queue_form(key) else { return };
        if let Some(delay) = self.state.delays.remove(&name) {
            self.state.timers.disarm(delay.until, Timer::Delay(name));
        }
    }

    /// Tells the waiting calls, and everyone who watches.
    fn announce(&mut self, holding: Holding, answers: Answers, outcome: &Outcome) {
        self.amend_answers(&holding.key, holding.lease, answers, outcome);
        self.emit(EventKind::Granted(holding));
    }
}

/// The first of a queue that does not hold, or is not known to.
pub(crate) struct Front<'a> {
    queue: &'a Queue,
    pub(crate) key: &'a Key,
    pub(crate) record: &'a Record,
}

impl Front<'_> {
    fn mode(&self) -> Option<Mode> {
        self.record.contender().map(|contender| contender.mode)
    }
}

impl State {
    /// The first of a lock's queue that does not hold, or is not known to.
    pub(crate) fn front(&self, name: &LockName) -> Option<Front<'_>> {
        let queue = self.locks.get(name)?;
        let key = match queue {
            Queue::One(key) => key,
            Queue::Many(many) => self.first_waiting(many)?,
        };
        let record = &*self.keys[key];
        let settled = matches!(queue, Queue::One(_)) && record.holds();
        (!settled).then_some(Front { queue, key, record })
    }

    fn first_waiting<'a>(&'a self, many: &'a Many) -> Option<&'a Key> {
        if self.mutant(Mutant::LastComeFirstServed) && many.held() == 0 {
            return many.last_key();
        }
        if self.mutant(Mutant::PermitOvertakes)
            && let Some(key) = self.overtaking_permit(many)
        {
            return Some(key);
        }
        many.frontier().map(|(_, key)| key)
    }

    /// Whether the first of a queue that does not hold can be granted now.
    pub(crate) fn is_grantable(&self, name: &LockName, front: &Front<'_>) -> bool {
        let lease = front.record.lease;
        let Some(contender) = front.record.contender() else {
            return false;
        };
        let alive = self.lease_is_live(lease) || self.mutant(Mutant::ExpiryKeepsWaiters);
        let in_time = contender.wait_until > self.now || self.mutant(Mutant::WaitNeverEnds);
        alive
            && in_time
            && self.delayed(name, lease).is_none()
            && self.has_room(front.queue, Some(front.key), contender.mode)
    }

    /// Whether the holders in a queue leave room for `mode`. `key` itself does not count.
    fn has_room(&self, queue: &Queue, key: Option<&Key>, mode: Mode) -> bool {
        let first = queue.first();
        if Some(first) == key {
            return true;
        }
        let held = match queue {
            Queue::One(_) => 1,
            Queue::Many(many) => many.held(),
        };
        if held > 0 && mode == Mode::Exclusive {
            return false;
        }
        let holders = self.keys[first].contender().filter(|one| one.holds()).map(|one| one.mode);
        held == 0 || holders.is_some_and(|holders| self.compatible(holders, mode, held))
    }

    fn compatible(&self, holders: Mode, mode: Mode, held: usize) -> bool {
        match (holders, mode) {
            (Mode::Shared, Mode::Shared) => true,
            (Mode::Permit(limit), Mode::Permit(same)) if limit == same => {
                let extra = usize::from(self.mutant(Mutant::PermitTooMany));
                held < limit as usize + extra
            }
            (Mode::Exclusive, Mode::Shared) => self.mutant(Mutant::SharedJoinsExclusive),
            _ => false,
        }
    }

    /// Whether a newcomer in `mode` would be granted at once.
    pub(crate) fn would_grant(&self, name: &LockName, mode: Mode) -> bool {
        match self.locks.get(name) {
            None => true,
            Some(Queue::Many(many)) if many.frontier().is_some() => {
                self.mutant(Mutant::PermitOvertakes) && many.permits().is_some()
            }
            Some(Queue::One(key)) if !self.keys[key].holds() => false,
            Some(queue) => self.has_room(queue, None, mode),
        }
    }

    /// Until when a lock stands free, if `lease` must wait for that.
    pub(crate) fn delayed(&self, name: &LockName, lease: LeaseId) -> Option<LogTime> {
        if self.delays.is_empty() {
            return None;
        }
        self.delayed_for(name, &self.client_of(lease))
    }

    /// Until when a lock stands free, if `client` must wait for that. The client that was lost
    /// need not: the delay protects its own work.
    pub(crate) fn delayed_for(&self, name: &LockName, client: &ClientId) -> Option<LogTime> {
        let delay = self.delays.get(name).filter(|delay| delay.until > self.now)?;
        let same = !client.is_empty() && *client == delay.client;
        (!same).then_some(delay.until)
    }

    /// The grant of somebody who holds already. Renewing does not keep what an operator has asked
    /// for.
    pub(crate) fn present_grant(&self, key: &Key, record: &Record) -> Grant {
        let lease = self.leases.get(&record.lease);
        let remaining = lease.map(|lease| lease.remaining(self.now)).unwrap_or_default();
        let mut grant = self.grant_of(key, record.token(), record.lease, remaining);
        if let Some(until) = record.contender().and_then(Contender::forced) {
            grant.remaining = grant.remaining.min(until.since(self.now));
        }
        grant
    }

    /// The grant of a new holder, whose lease still lives for `remaining`.
    fn grant_of(&self, key: &Key, token: Token, lease: LeaseId, remaining: Millis) -> Grant {
        let token = if self.mutant(Mutant::TokenPerKey) { Token(1) } else { token };
        Grant { key: key.clone(), lease, token, remaining }
    }
}
