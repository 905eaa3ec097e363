//! A key gives up its place in a queue.

use alloc::collections::btree_map::Entry;

use crate::event::{Cause, Ended, EventKind};
use crate::ids::{ClientId, Key, LeaseId, LockName, Revision, Seq};
use crate::lock::{Delay, Queue};
use crate::once::Window;
use crate::outcome::{Grant, Outcome};
use crate::record::{Answers, Contender, Record, Role, queue_form};
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    /// Takes a removed key from its lease and out of its queue. `None` if it stood in none.
    pub(crate) fn leave(&mut self, key: &Key, record: &Record, cause: Cause) -> Option<Ended> {
        let Some((name, _)) = queue_form(key).filter(|_| record.in_queue()) else {
            self.detach(key, record.lease);
            return None;
        };
        self.leave_queue(name.clone(), record);
        let Some(contender) = record.contender() else {
            self.detach(key, record.lease);
            return Some(Ended { cause, held: false, holder: None });
        };
        self.resign(key, contender);
        let spent = self.leave_lease(key, record.lease, &name);
        if contender.holds() {
            self.delay_after_loss(&name, record.lease, contender, cause);
            if spent {
                self.forgivable.push(record.lease);
            }
        } else {
            let mut answers = contender.answers();
            if cause == Cause::Incomplete {
                // The first key of the group to go has named the cause of its acquire.
                answers.seq = Seq::NONE;
            }
            self.amend_answers(key, record.lease, answers, &Outcome::Ended(cause));
        }
        Some(Ended { cause, held: contender.holds(), holder: None })
    }

    /// Takes a contender from its lease, which ends with it if it was made for it. Says whether the
    /// lease runs out because a lock was held for too long.
    fn leave_lease(&mut self, key: &Key, id: LeaseId, name: &LockName) -> bool {
        let Some(lease) = self.state.leases.get_mut(&id) else { return false };
        lease.keys.remove(key);
        lease.changes += 1;
        if lease.sole_lock.as_ref() == Some(name) {
            self.spent_leases.push((id, lease.epoch));
        }
        lease.spent
    }

    /// Takes a key out of the queue itself. An empty queue is gone.
    pub(crate) fn leave_queue(&mut self, name: LockName, record: &Record) {
        self.heir = None;
        let Entry::Occupied(mut place) = self.state.locks.entry(name) else { return };
        match place.get_mut() {
            Queue::One(_) => {
                place.remove();
                self.emptied = true;
            }
            Queue::Many(many) => {
                many.remove(record);
                if let Some(sole) = many.sole().cloned() {
                    place.insert(Queue::One(sole));
                }
                self.touched.push(place.key().clone());
                self.passed_on = true;
            }
        }
    }

    /// Drops everything that log time, calls and groups would still do to a contender.
    fn resign(&mut self, key: &Key, contender: &Contender) {
        if !contender.holds() {
            self.state.timers.disarm(contender.wait_until, Timer::Wait(key.clone()));
        }
        let Some(extra) = &contender.extra else {
            return;
        };
        if let Some(until) = extra.forced {
            self.state.timers.disarm(until, Timer::Forced(key.clone()));
        }
        if let Some(end) = contender.budget_ends() {
            self.state.timers.disarm(end, Timer::Budget(key.clone()));
        }
        if let Some(end) = contender.hold_ends() {
            self.state.timers.disarm(end, Timer::HoldMax(key.clone()));
        }
        self.unbind(key, contender);
    }

    /// A contender's call no longer decides over it.
    pub(crate) fn unbind(&mut self, key: &Key, contender: &Contender) {
        let Some(call) = contender.bound_to() else { return };
        let boot = (call.node, call.boot);
        let Some(bound) = self.state.calls.get_mut(&boot) else {
            return;
        };
        bound.remove(key);
        if bound.is_empty() {
            self.state.calls.remove(&boot);
        }
    }

    pub(crate) fn note_change(&mut self, lease: LeaseId) {
        if let Some(lease) = self.state.leases.get_mut(&lease) {
            lease.changes += 1;
        }
    }

    /// After a holder was lost, not after it let go, the lock may stand free for a while.
    fn delay_after_loss(
        &mut self,
        name: &LockName,
        lease: LeaseId,
        contender: &Contender,
        cause: Cause,
    ) {
        let asked = contender.extra.as_ref().map(|extra| extra.lock_delay).unwrap_or_default();
        let until = self.state.now.after(asked);
        let lost = matches!(cause, Cause::Expired | Cause::Orphaned);
        if !lost || until == self.state.now {
            return;
        }
        let client = self.state.client_of(lease);
        let mut delay = Delay { until, client };
        if let Some(before) = self.state.delays.get(name) {
            self.state.timers.disarm(before.until, Timer::Delay(name.clone()));
            delay.until = delay.until.max(before.until);
            // The delay of one client does not protect against the other: nobody is exempt.
            if before.client != delay.client {
                delay.client = ClientId::default();
            }
        }
        self.state.timers.arm(delay.until, Timer::Delay(name.clone()));
        self.state.delays.insert(name.clone(), delay);
    }

    /// Looks once at each lease that runs out and has lost a holder in this step.
    pub(crate) fn forgive_leases(&mut self) {
        let mut leases = core::mem::take(&mut self.forgivable);
        leases.sort_unstable();
        leases.dedup();
        leases.into_iter().for_each(|lease| self.forgive(lease));
    }

    /// A lease runs out only while a lock is held for too long.
    fn forgive(&mut self, id: LeaseId) {
        let now = self.state.now;
        let Some(lease) = self.state.leases.get(&id) else { return };
        let too_long = |key: &Key| {
            let contender = self.state.contender_record(key).map(|(_, contender)| contender);
            contender.and_then(Contender::hold_ends).is_some_and(|end| end <= now)
        };
        if !lease.keys.iter().any(too_long)
            && let Some(lease) = self.state.leases.get_mut(&id)
        {
            lease.spent = false;
        }
    }

    /// A lease that was made for one lock ends with it.
    fn spend_sole_lease(&mut self, name: &LockName, id: LeaseId) {
        let Some(lease) = self.state.leases.get(&id) else { return };
        if lease.sole_lock.as_ref() == Some(name) {
            self.spent_leases.push((id, lease.epoch));
        }
    }

    /// Losing one lock of an atomic acquisition before all were granted ends the others.
    pub(crate) fn end_group(&mut self, group: Option<Revision>) {
        let Some(created) = group else { return };
        for sibling in self.state.groups.remove(&created).unwrap_or_default() {
            self.remove(&sibling, Cause::Incomplete);
        }
    }

    /// A contender whose key was taken away from its lease keeps its place and blocks, but it
    /// holds nothing and can never be granted.
    pub(crate) fn become_foreign(&mut self, key: &Key, record: &mut Record) {
        let Some((name, lease)) = queue_form(key) else {
            return;
        };
        let before = record.clone();
        record.role = Role::Foreign;
        self.heir = None;
        let Some(contender) = before.contender() else {
            return;
        };
        self.resign(key, contender);
        self.note_change(lease);
        if let Some(Queue::Many(many)) = self.state.locks.get_mut(&name) {
            many.becomes_foreign(&before);
        }
        if contender.holds() {
            let holding = before.holding(key, &self.state.client_of(lease));
            self.emit(EventKind::Lost(holding));
        } else {
            self.amend_answers(key, lease, contender.answers(), &Outcome::Ended(Cause::Deleted));
        }
        self.spend_sole_lease(&name, lease);
        self.touched.push(name);
        self.end_group(before.group());
    }

    /// Completes the answers of the acquires that wait on a contender.
    pub(crate) fn amend_answers(
        &mut self,
        key: &Key,
        lease: LeaseId,
        answers: Answers,
        outcome: &Outcome,
    ) {
        let Some(lease) = self.state.leases.get_mut(&lease) else {
            return;
        };
        let window = if lease.sole_lock.is_none() {
            &mut lease.window
        } else {
            match self.state.clients.get_mut(&lease.client) {
                Some(client) => &mut client.window,
                None => return,
            }
        };
        let before = window.bytes();
        window.amend(answers.seq, outcome);
        if answers.shared {
            amend_shared(window, key, outcome);
        }
        self.state.answer_bytes = self.state.answer_bytes + window.bytes() - before;
    }
}

/// Completes the answers of the other acquires that wait on a contender. They asked for this one
/// lock, even if it was granted together with more.
fn amend_shared(window: &mut Window, key: &Key, outcome: &Outcome) {
    let alone = match outcome {
        Outcome::AcquiredMany(many) => Outcome::Acquired(Grant {
            key: key.clone(),
            lease: many.lease,
            token: many.token,
            remaining: many.remaining,
        }),
        other => other.clone(),
    };
    window.amend_all(&alone, |kept| matches!(kept, Outcome::Queued(place) if place.key == *key));
}
