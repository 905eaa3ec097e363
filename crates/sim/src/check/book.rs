//! The checkers' own book of leases, queues and grants.
//!
//! Owns: what the commands, answers and events of the log say about who stands where. It is
//! written from them alone and never looks into the state, so that it can contradict it. Refuses:
//! judgement. The invariants look at the book before and after each event, and judge.

mod act;
mod lease;
mod name;
#[cfg(test)]
pub(super) mod sample;

use std::collections::BTreeMap;

use fencepost_core::command::{Mode, Wait};
use fencepost_core::event::{Cause, Event, EventKind, Holding, KeyValue};
use fencepost_core::range::{KeyRange, RangeQuery};
use fencepost_core::{Action, ClientId, Key, LeaseId, LockName, LogTime, Millis, State, Token};

use crate::seen::Time;

pub(super) use lease::LeaseRecord;
pub(super) use name::split_key;

/// A place in a queue.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) key: Key,
    pub(super) lease: LeaseId,
    pub(super) token: Token,
    pub(super) mode: Mode,
    /// Until when it may wait, in log time.
    pub(super) wait_until: LogTime,
    /// When it was made or last asked to wait longer, in true time.
    pub(super) asked_at: Time,
    /// How long it was allowed to wait, if there was a bound.
    pub(super) wait: Option<Millis>,
    pub(super) holds: bool,
    /// It was written as a key, not asked for as a lock.
    pub(super) written: bool,
    /// It blocks and can never hold.
    pub(super) foreign: bool,
    /// It was asked for together with others, and holds only when they all do.
    pub(super) grouped: bool,
    pub(super) lock_delay: Millis,
    /// An operator's release that is under way takes effect then.
    pub(super) forced_until: Option<LogTime>,
}

/// A grant, for ever.
#[derive(Clone, Debug)]
pub(super) struct GrantRecord {
    pub(super) client: ClientId,
    pub(super) mode: Mode,
    pub(super) at: Time,
    /// How it ended, and when it was first seen to have.
    pub(super) ended: Option<(Cause, Time)>,
    /// It was taken away in a way after which its holder may still believe in it.
    pub(super) excused: bool,
}

/// The book.
#[derive(Default)]
pub(super) struct Book {
    pub(super) leases: BTreeMap<LeaseId, LeaseRecord>,
    pub(super) queues: BTreeMap<LockName, Vec<Place>>,
    /// Every grant that was ever made. Kept over a restore.
    pub(super) grants: BTreeMap<(LockName, Token), GrantRecord>,
    /// The locks whose queues the present entry has touched.
    pub(super) touched: Vec<LockName>,
    /// A lock stands free until then, because its last holder was lost.
    pub(super) delays: BTreeMap<LockName, LogTime>,
}

/// Where the book is written: the entry, and the command that the next events belong to.
pub(super) struct Page<'a> {
    pub(super) at: Time,
    pub(super) now: LogTime,
    /// The command whose events these are; nothing for what log time does by itself.
    pub(super) action: Option<&'a Action>,
}

impl Book {
    /// The cluster goes on from a backup: leases and contenders are gone, grants are remembered.
    /// Keys without a lease are data, and stay, also where they block a queue.
    pub(super) fn restore(&mut self, state: &State) {
        self.leases.clear();
        self.queues.clear();
        self.delays.clear();
        self.touched.clear();
        let keys = state.range(&RangeQuery::from(KeyRange::prefix(b"")));
        let mut keys = keys.kvs;
        keys.sort_by_key(|kv| kv.create_revision);
        for kv in keys {
            if let Some((name, own)) = split_key(&kv.key) {
                let page = Page { at: Time(0), now: state.now(), action: None };
                self.enter(&page, name, own, &kv);
            }
        }
    }

    pub(super) fn queue(&self, name: &LockName) -> &[Place] {
        self.queues.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn place(&self, name: &LockName, key: &Key) -> Option<&Place> {
        self.queue(name).iter().find(|place| place.key == *key)
    }

    pub(super) fn place_mut(&mut self, name: &LockName, key: &Key) -> Option<&mut Place> {
        self.queues.get_mut(name)?.iter_mut().find(|place| place.key == *key)
    }

    /// Writes down an event.
    pub(super) fn note(&mut self, page: &Page<'_>, event: &Event) {
        let Some((name, own)) = split_key(event.key()) else { return };
        if !self.touched.contains(&name) {
            self.touched.push(name.clone());
        }
        match &event.kind {
            EventKind::Put { kv, prev: None } => self.enter(page, name, own, kv),
            EventKind::Put { kv, prev: Some(prev) } => {
                if kv.lease != prev.lease
                    && let Some(place) = self.place_mut(&name, &kv.key)
                {
                    place.foreign = true;
                    place.wait_until = LogTime::NEVER;
                    place.wait = None;
                }
            }
            EventKind::Deleted { prev, ended } => {
                let cause = ended.as_ref().map_or(Cause::Deleted, |ended| ended.cause);
                self.leave(page, &name, prev, cause);
            }
            EventKind::Granted(holding) => self.grant(page, name, holding),
            EventKind::Lost(holding) => {
                if let Some(place) = self.place_mut(&name, &holding.key) {
                    place.holds = false;
                    place.foreign = true;
                }
                self.end_grant(page, &name, holding.token, Cause::Deleted, true);
            }
            // A lock that is taken at once: the event carries the reason, and the holder has no time.
            EventKind::ForceAsked { until, .. } if *until <= page.now => {}
            EventKind::ForceAsked { holding, until, .. } => {
                if let Some(place) = self.place_mut(&name, &holding.key) {
                    place.forced_until = Some(*until);
                }
            }
            EventKind::OverBudget(_) => {}
        }
    }

    fn enter(&mut self, page: &Page<'_>, name: LockName, own: LeaseId, kv: &KeyValue) {
        let (mode, wait, lock_delay, grouped) = match page.action {
            Some(Action::Acquire(acquire)) => {
                (acquire.mode, acquire.wait, acquire.terms.lock_delay, false)
            }
            Some(Action::AcquireMany(acquire)) => {
                let asked = acquire.locks.iter().find(|(one, _)| *one == name);
                let mode = asked.map_or(Mode::Exclusive, |(_, mode)| *mode);
                (mode, acquire.wait, acquire.terms.lock_delay, true)
            }
            Some(Action::AcquireAs(acquire)) => {
                self.open_sole_lease(page, kv.lease, acquire);
                (Mode::Exclusive, acquire.wait, acquire.terms.lock_delay, false)
            }
            _ => (Mode::Exclusive, Wait::WhileLeased, Millis::ZERO, false),
        };
        let wait = match wait {
            Wait::AtMost(length) if !wait.is_try() => Some(length),
            _ => None,
        };
        self.queues.entry(name).or_default().push(Place {
            key: kv.key.clone(),
            lease: own,
            token: Token::from(kv.create_revision),
            mode,
            wait_until: wait.map_or(LogTime::NEVER, |length| page.now.after(length)),
            asked_at: page.at,
            wait,
            holds: false,
            written: matches!(page.action, Some(Action::Put(_) | Action::Txn(_))),
            foreign: kv.lease != own,
            grouped,
            lock_delay,
            forced_until: None,
        });
    }

    fn leave(&mut self, page: &Page<'_>, name: &LockName, prev: &KeyValue, cause: Cause) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        let Some(at) = queue.iter().position(|place| place.key == prev.key) else { return };
        let place = queue.remove(at);
        if queue.is_empty() {
            self.queues.remove(name);
        }
        if place.holds {
            // What an operator took at once, and what was removed as a key, ends without the
            // holder's knowledge: that is documented. Leases are revoked by their owners only.
            let early = place.forced_until.is_none_or(|until| until > page.now);
            let excused = match cause {
                Cause::Forced => early,
                Cause::Deleted => true,
                _ => false,
            };
            self.end_grant(page, name, place.token, cause, excused);
            if matches!(cause, Cause::Expired | Cause::Orphaned) && place.lock_delay > Millis::ZERO
            {
                let until = page.now.after(place.lock_delay);
                let delay = self.delays.entry(name.clone()).or_default();
                *delay = until.max(*delay);
            }
        }
        self.close_sole_lease(place.lease, name);
    }

    fn grant(&mut self, page: &Page<'_>, name: LockName, holding: &Holding) {
        let mut mode = Mode::Exclusive;
        if let Some(place) = self.place_mut(&name, &holding.key) {
            place.holds = true;
            place.grouped = false;
            place.wait_until = LogTime::NEVER;
            place.wait = None;
            mode = place.mode;
        }
        self.start_sole_lease(page, holding.lease);
        self.delays.remove(&name);
        let grant = GrantRecord {
            client: holding.client.clone(),
            mode,
            at: page.at,
            ended: None,
            excused: false,
        };
        self.grants.insert((name, holding.token), grant);
    }

    fn end_grant(
        &mut self,
        page: &Page<'_>,
        name: &LockName,
        token: Token,
        cause: Cause,
        excused: bool,
    ) {
        if let Some(grant) = self.grants.get_mut(&(name.clone(), token)) {
            grant.ended = Some((cause, page.at));
            grant.excused |= excused;
        }
    }

    /// A grant, by its key.
    pub(super) fn grant_at(&self, key: &Key, token: Token) -> Option<&GrantRecord> {
        let (name, _) = split_key(key)?;
        self.grants.get(&(name, token))
    }
}
