//! Stands in a lock's queue, or takes the lock.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::command::{Acquire, Mode, Terms, Wait};
use crate::event::Cause;
use crate::ids::{CallId, ClientId, Key, LeaseId, LockName, LogTime, Millis, Revision, Seq};
use crate::lease::Ending;
use crate::lock::{Queue, Then};
use crate::mutant::Mutant;
use crate::outcome::{Denial, Outcome, Place, Reason};
use crate::record::{
    Contender, Extra, Record, Role, Spot, contender_key, contender_key_of, lease_named_by,
    with_contender_key,
};
use crate::state::State;
use crate::step::Step;
use crate::timer::Timer;

/// What matters of an acquire whose place is there already.
pub(crate) struct Again<'a> {
    pub(crate) name: &'a LockName,
    /// The new length of the lease; zero keeps the old one.
    pub(crate) ttl: Millis,
    pub(crate) wait: Wait,
    pub(crate) call: Option<CallId>,
}

impl Step<'_> {
    pub(crate) fn acquire(&mut self, acquire: Acquire, seq: Seq) -> Result<Outcome, Reason> {
        let lease = acquire.lease.id;
        self.contending_lease(acquire.lease)?;
        let key = contender_key_of(&acquire.name, lease);
        self.state.check_lease_room(lease, &key)?;
        let (value, metadata) = (&acquire.terms.value, &acquire.terms.metadata);
        if let Err(full) =
            self.state.check_contenders_growth([key.len()].into_iter(), value, metadata)
            && !self.state.keys.contains_key(&key)
        {
            return Err(full);
        }
        if self.take_free(&key, lease, acquire.name.len()) {
            let value = acquire.terms.value.clone();
            let contender = self.contender(acquire.mode, acquire.wait, acquire.terms, seq, false);
            return Ok(self.hold_free(key, value, lease, contender));
        }
        self.acquire_contended(acquire, key, seq)
    }

    /// Somebody stands in the queue, or the lock stands free for a while.
    fn acquire_contended(
        &mut self,
        acquire: Acquire,
        key: Key,
        seq: Seq,
    ) -> Result<Outcome, Reason> {
        let lease = acquire.lease.id;
        if self.state.keys.contains_key(&key)
            && let Some(outcome) = self.acquire_again(&acquire, &key, seq)?
        {
            return Ok(outcome);
        }
        self.end_dead_ahead(&acquire.name);
        self.check_room(&acquire.name, acquire.mode)?;
        if acquire.wait.is_try()
            && let Some(denial) =
                self.state.denial(&acquire.name, acquire.mode, &self.state.client_of(lease))
            && !self.state.mutant(Mutant::TryStays)
        {
            return Ok(Outcome::Denied(denial));
        }
        let value = acquire.terms.value.clone();
        let contender = self.contender(acquire.mode, acquire.wait, acquire.terms, seq, false);
        let name = LockName::prefix_of(&key, acquire.name.len());
        let spot = self.stand(name, key.clone(), value, lease, contender, Then::Settle);
        if self.touched.is_empty() {
            // There is nothing to settle, so it waits.
            return Ok(Outcome::Queued(self.state.place_of(&acquire.name, &key, spot).into()));
        }
        self.settle();
        self.unbind_granted(&key);
        let answer = self.present_answer(&acquire.name, lease);
        Ok(answer.expect("the contender was just created"))
    }

    /// A key stands where the acquire's would. Nothing, if it is gone now.
    fn acquire_again(
        &mut self,
        acquire: &Acquire,
        key: &Key,
        seq: Seq,
    ) -> Result<Option<Outcome>, Reason> {
        self.end_overdue_wait(key);
        let Some(record) = self.state.keys.get(key) else { return Ok(None) };
        match record.contender().map(|contender| contender.mode) {
            None => Err(Reason::PlaceTaken(acquire.name.clone())),
            Some(mode) if mode != acquire.mode => Err(Reason::ModeConflict),
            Some(_) if self.state.mutant(Mutant::ReentryQueuesAgain) => {
                self.remove(key, Cause::Released);
                Ok(None)
            }
            Some(_) => {
                let (wait, call) = (acquire.wait, acquire.terms.call);
                let again = Again { name: &acquire.name, ttl: Millis::ZERO, wait, call };
                self.enter_again(&again, key, seq).map(Some)
            }
        }
    }

    /// The same lease asks for the same lock again: it has its place already.
    pub(crate) fn enter_again(
        &mut self,
        again: &Again<'_>,
        key: &Key,
        seq: Seq,
    ) -> Result<Outcome, Reason> {
        let record = &self.state.keys[key];
        let (lease, spot) = (record.lease, record.spot());
        if record.holds() {
            self.refresh_lease(lease, again.ttl)?;
            self.reattach(again.name, lease, again.call, again.wait);
            return Ok(Outcome::Renewed(self.state.present_grant(key, &self.state.keys[key])));
        }
        if again.wait.is_try() {
            return Ok(Outcome::Denied(self.state.denial_by_first(again.name)));
        }
        self.share_answer(key, seq);
        self.wait_longer(key, self.wait_until(again.wait));
        // An owner's place without a call would have nobody to end it.
        if again.call.is_some() || !self.is_sole(lease) {
            self.reattach(again.name, lease, again.call, again.wait);
        }
        Ok(Outcome::Queued(self.state.place_of(again.name, key, spot).into()))
    }

    /// A wait that is over, but whose place is not removed yet, cannot be joined: nobody would be
    /// granted because of it. Says whether there was one.
    pub(crate) fn end_overdue_wait(&mut self, key: &Key) -> bool {
        let contender = self.state.contender_record(key).map(|(_, contender)| contender);
        let overdue = contender.is_some_and(|one| !one.holds() && one.wait_until <= self.state.now);
        if overdue && !self.state.mutant(Mutant::WaitNeverEnds) {
            self.remove_with_group(key, Cause::TimedOut);
        }
        overdue
    }

    /// A place is kept for the most patient of those who wait on it. Whoever waits less is told
    /// so by the member that serves it.
    fn wait_longer(&mut self, key: &Key, until: LogTime) {
        let contender = self.state.keys.get_mut(key).and_then(|record| record.contender_mut());
        let Some(contender) = contender.filter(|contender| contender.wait_until < until) else {
            return;
        };
        self.state.timers.disarm(contender.wait_until, Timer::Wait(key.clone()));
        contender.wait_until = until;
        self.state.timers.arm(until, Timer::Wait(key.clone()));
    }

    /// Until when a wait that begins now lasts.
    fn wait_until(&self, wait: Wait) -> LogTime {
        match wait {
            Wait::AtMost(length) if !wait.is_try() => self.state.now.after(length),
            Wait::Try | Wait::AtMost(_) | Wait::WhileLeased => LogTime::NEVER,
        }
    }

    /// A second acquire waits on the same place: the grant completes both answers.
    pub(crate) fn share_answer(&mut self, key: &Key, seq: Seq) {
        let contender = self.state.keys.get_mut(key).and_then(|record| record.contender_mut());
        let Some(contender) = contender else { return };
        if contender.seq == Seq::NONE && !contender.is_grouped() {
            contender.seq = seq;
        } else if seq != Seq::NONE {
            contender.extra_mut().shared_answer = true;
        }
    }

    /// Builds a contender that waits.
    pub(crate) fn contender(
        &self,
        mode: Mode,
        wait: Wait,
        terms: Terms,
        seq: Seq,
        grouped: bool,
    ) -> Contender {
        let now = self.state.now;
        let wait_until = self.wait_until(wait);
        let extra = Extra {
            grouped,
            shared_answer: false,
            call: terms.call,
            bound: terms.call.is_some() && !wait.is_try(),
            lock_delay: terms.lock_delay,
            budget: terms.budget,
            hold_max: terms.hold_max,
            forced: None,
        };
        let extra = (extra != Extra::default()).then(|| Box::new(extra));
        let (metadata, granted) = (terms.metadata, Revision::NONE);
        Contender { mode, since: now, granted, seq, wait_until, metadata, extra }
    }

    /// Ends the leases in a queue that are due but not removed yet, so that nobody is turned away
    /// by the dead. There are none unless more was due than one entry may end; and as many again
    /// may end this way. Behind somebody alive who waits, it would help nobody.
    pub(crate) fn end_dead_ahead(&mut self, name: &LockName) {
        if self.state.timers.next().is_none_or(|next| next > self.state.now) {
            return;
        }
        let Some(queue) = self.state.locks.get(name) else { return };
        let mut dead = Vec::new();
        for key in queue.keys().take(self.state.limits.due_per_entry_max as usize) {
            let record = &self.state.keys[key];
            let live = self.state.lease_is_live(record.lease);
            if record.contender().is_some() && !live {
                dead.push(record.lease);
            } else if !record.holds() {
                break;
            }
        }
        dead.truncate(self.state.dead_left as usize);
        self.state.dead_left -= u32::try_from(dead.len()).unwrap_or(u32::MAX);
        for lease in dead {
            self.end_lease(lease, Ending::Expired);
        }
    }

    /// Refuses a contender that the queue cannot take, whatever it would wait for.
    pub(crate) fn check_room(&self, name: &LockName, mode: Mode) -> Result<(), Reason> {
        let Some(queue) = self.state.locks.get(name) else {
            return Ok(());
        };
        let max = self.state.limits.queue_len_max;
        if queue.len() >= max as usize {
            return Err(Reason::QueueFull(max));
        }
        let Mode::Permit(asked) = mode else {
            return Ok(());
        };
        let there = match queue {
            Queue::Many(many) => many.permits(),
            Queue::One(key) => match self.state.keys[key].contender().map(|one| one.mode) {
                Some(Mode::Permit(limit)) => Some(limit),
                _ => None,
            },
        };
        match there {
            Some(there) if there != asked => Err(Reason::PermitsConflict(asked, there)),
            _ => Ok(()),
        }
    }

    /// What an acquire is to be told as things stand now.
    pub(crate) fn present_answer(&self, name: &LockName, lease: LeaseId) -> Option<Outcome> {
        let (key, record) = self.state.key_in_queue(name, lease)?;
        Some(match record.holds() {
            true => Outcome::Acquired(self.state.present_grant(key, record)),
            false => Outcome::Queued(self.state.place_of(name, key, record.spot()).into()),
        })
    }

    /// Where a lease that waits for several locks stands in the queue of the first.
    pub(crate) fn present_place(&self, name: &LockName, lease: LeaseId) -> Option<Outcome> {
        let (key, record) = self.state.key_in_queue(name, lease)?;
        Some(Outcome::Reserved(self.state.place_of(name, key, record.spot()).into()))
    }

    /// Whoever repeats a request is where its answer must go from now on.
    ///
    /// What a session waits for belongs to the lease alone, and no call that joins it may end it.
    /// So does a hold that somebody was told of, from here on: neither the call that was told nor
    /// this one may take it back, because the other's client relies on it.
    pub(crate) fn reattach(
        &mut self,
        name: &LockName,
        lease: LeaseId,
        call: Option<CallId>,
        wait: Wait,
    ) {
        let key = contender_key(name, lease);
        let Some((_, contender)) = self.state.contender_record(&key) else { return };
        // Calls of one member that ask for one place at the same time settle it among themselves.
        if call.is_some() && contender.call() == call {
            return;
        }
        let is_told = contender.holds() && contender.bound_to().is_none();
        let of_session = contender.call().is_none() && !self.is_sole(lease);
        let call = call.filter(|_| !is_told && !of_session);
        if contender.call() == call {
            return;
        }
        let mut contender = contender.clone();
        self.unbind(&key, &contender);
        let extra = contender.extra_mut();
        extra.call = call;
        extra.bound = call.is_some() && !wait.is_try();
        self.bind(&key, &contender);
        if let Some(record) = self.state.keys.get_mut(&key) {
            record.role = Role::Contender(contender);
        }
    }
}

impl Step<'_> {
    /// Whether a lease was made for one owner's lock.
    fn is_sole(&self, lease: LeaseId) -> bool {
        self.state.leases.get(&lease).is_some_and(|lease| lease.sole_lock.is_some())
    }
}

impl State {
    /// Where the waiting key at `spot` stands.
    pub(crate) fn place_of(&self, name: &LockName, key: &Key, spot: Spot) -> Place {
        let queue = self.locks.get(name);
        let (predecessor, position) = match queue {
            Some(Queue::Many(many)) => {
                let waits = |key: &Key| !self.keys[key].holds();
                let position =
                    many.position(spot, self.limits.position_counted_max as usize, waits);
                (many.before(spot).cloned(), position)
            }
            _ => (None, 1),
        };
        let predecessor = predecessor.unwrap_or_default();
        let holder = queue.map(|queue| self.first_of(queue)).unwrap_or_default();
        Place { key: key.clone(), predecessor, position: position as u64, holder }
    }

    /// Why a try would not be granted, if it would not.
    pub(crate) fn denial(&self, name: &LockName, mode: Mode, client: &ClientId) -> Option<Denial> {
        if !self.would_grant(name, mode) {
            return Some(self.denial_by_first(name));
        }
        self.delayed_for(name, client).map(Denial::Delayed)
    }

    /// The first in a lock's queue is in the way.
    pub(crate) fn denial_by_first(&self, name: &LockName) -> Denial {
        Denial::Held(self.in_the_way(name))
    }

    /// Who is first in a lock's queue, and so holds the lock if anybody does: its client, or its
    /// key if it has none. Empty, if nobody is there.
    pub fn in_the_way(&self, name: &LockName) -> ClientId {
        self.locks.get(name).map(|queue| self.first_of(queue)).unwrap_or_default()
    }

    fn first_of(&self, queue: &Queue) -> ClientId {
        let key = queue.first();
        let contends = match queue {
            Queue::Many(many) if many.foreign() == 0 => true,
            _ => self.keys[key].contender().is_some(),
        };
        let client = lease_named_by(key)
            .filter(|_| contends)
            .map(|lease| self.client_of(lease))
            .filter(|client| !client.is_empty());
        // Whoever has no name is called by the key that stands for it.
        client.unwrap_or_else(|| ClientId::from(&*alloc::format!("{key}")))
    }

    /// The key with which `lease` stands in the queue of `name`, if it does.
    pub(crate) fn key_in_queue(&self, name: &LockName, lease: LeaseId) -> Option<(&Key, &Record)> {
        with_contender_key(name, lease, |key| self.keys.get_key_value(key))
            .map(|(key, record)| (key, &**record))
    }

    /// A key's record, if it is a contender.
    pub(crate) fn contender_record(&self, key: &Key) -> Option<(&Record, &Contender)> {
        let record = self.keys.get(key)?;
        Some((record, record.contender()?))
    }
}
