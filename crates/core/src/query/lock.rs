//! Who holds a lock, who waits for it, and why.

use alloc::vec::Vec;

use crate::command::Mode;
use crate::ids::{ClientId, Key, LeaseId, LockName, LogTime, Millis, Revision, Token, Value};
use crate::lock::Queue;
use crate::range::KeyRange;
use crate::record::{Contender, Record, contender_key, queue_form};
use crate::scan::StepBudget;
use crate::state::State;

/// A lock as users see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockView {
    /// Its name.
    pub name: LockName,
    /// Those who hold it, in order of their tokens.
    pub holders: Vec<Holder>,
    /// How many hold it in all; `holders` may have been cut short.
    pub holding: u64,
    /// Those who wait, in order.
    pub waiters: Vec<Waiter>,
    /// How many stand behind the holders in all; `waiters` may have been cut short.
    pub waiting: u64,
    /// Keys in the queue that are no contenders, and block. May have been cut short.
    pub foreign: Vec<Key>,
    /// Until when the lock stands free after its last holder was lost.
    pub delayed_until: Option<LogTime>,
    /// Every token below this is fenced off.
    pub fence_floor: Token,
    /// And these single ones.
    pub fenced: Vec<Token>,
}

impl LockView {
    /// Whether one of the holders that are shown has this token.
    pub fn is_held_with(&self, token: Token) -> bool {
        self.holders.iter().any(|holder| holder.token == token)
    }
}

/// How much of a lock is looked at. The answer to a [`State::look`] costs as much as this allows,
/// however many hold the lock or want it.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// At most so many holders.
    pub holders_max: usize,
    /// At most so many waiters.
    pub waiters_max: usize,
    /// At most so many bytes of their metadata in all. Whose does not fit is shown without it.
    pub metadata_bytes_max: usize,
}

impl Sight {
    /// All that there is, but for the waiters.
    pub const fn waiters(waiters_max: usize) -> Sight {
        Sight { holders_max: usize::MAX, waiters_max, metadata_bytes_max: usize::MAX }
    }
}

/// Keys of a queue that one look goes through to find waiters between foreign ones.
const WALK_MAX: usize = 10_000;

/// A holder: the record of a held lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// Its key.
    pub key: Key,
    /// Its client.
    pub client: ClientId,
    /// Its lease.
    pub lease: LeaseId,
    /// Its fencing token.
    pub token: Token,
    /// When it joined the queue; the same number as the token.
    pub create_revision: Revision,
    /// When it was granted, or its key was written since.
    pub mod_revision: Revision,
    /// How often its key was written.
    pub version: u64,
    /// The user's own bytes.
    pub metadata: Value,
    /// There are such bytes, and they are not shown.
    pub is_metadata_cut: bool,
    /// How it shares the lock.
    pub mode: Mode,
    /// How long it has held.
    pub held_for: Millis,
    /// How long its lease still lives.
    pub remaining: Millis,
    /// When it ends.
    pub expires_at: LogTime,
    /// When an operator's release takes effect.
    pub forced_at: Option<LogTime>,
}

/// A waiter: an entry of the wait queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiter {
    /// Its own key.
    pub key: Key,
    /// Its client.
    pub client: ClientId,
    /// Its own lease.
    pub lease: LeaseId,
    /// When it joined, which is its place in the order.
    pub create_revision: Revision,
    /// The key just ahead of it.
    pub predecessor: Key,
    /// One is next. Foreign keys ahead count too: they are in the way.
    pub position: u64,
    /// How it would share the lock.
    pub mode: Mode,
    /// How long it has waited.
    pub waited_for: Millis,
    /// Until when it waits at most.
    pub wait_until: Option<LogTime>,
    /// It waits for other locks too, and takes all of them at once.
    pub reserved: bool,
}

impl State {
    /// Everything about one lock, with at most `waiters_max` of its waiters. A lock that nobody
    /// holds or wants is free, whatever its name.
    pub fn lock(&self, name: &LockName, waiters_max: usize) -> LockView {
        self.look(name, &Sight::waiters(waiters_max))
    }

    /// What of a lock one wants to see.
    pub fn look(&self, name: &LockName, sight: &Sight) -> LockView {
        let mut view = LockView { name: name.clone(), ..LockView::default() };
        view.delayed_until =
            self.delays.get(name).map(|delay| delay.until).filter(|&until| until > self.now);
        if let Some(floor) = self.floors.get(name) {
            view.fence_floor = floor.below;
            view.fenced.clone_from(&floor.tokens);
        }
        if let Some(queue) = self.locks.get(name) {
            self.fill_queue(&mut view, queue, sight);
        }
        view
    }

    /// What of a lock concerns one lease: whether it holds, or where it waits.
    pub fn look_of(&self, name: &LockName, lease: LeaseId) -> LockView {
        let none = Sight { holders_max: 0, waiters_max: 0, metadata_bytes_max: 0 };
        let mut view = self.look(name, &none);
        let key = contender_key(name, lease);
        match self.contender_record(&key) {
            Some((record, contender)) if contender.holds() => {
                view.holders.push(self.holder(&key, record, contender));
            }
            _ => view.waiters.extend(self.waiter_at(name, &key)),
        }
        view
    }

    /// The locks whose names begin with `prefix` and that have holders or waiters, in order of
    /// names, from `after` on, at most `limit`. Of each, what `sight` allows; the bytes of metadata
    /// are those of all together.
    pub fn locks(
        &self,
        prefix: &[u8],
        after: Option<&LockName>,
        limit: usize,
        sight: &Sight,
    ) -> Vec<LockView> {
        self.locks_within(prefix, after, limit, sight, &mut StepBudget::new(u32::MAX)).0
    }

    /// As [`State::locks`], but only as many as the budget allows, and at least one. Whether it
    /// has left out some.
    pub fn locks_within(
        &self,
        prefix: &[u8],
        after: Option<&LockName>,
        limit: usize,
        sight: &Sight,
        budget: &mut StepBudget,
    ) -> (Vec<LockView>, bool) {
        let mut sight = *sight;
        let range = KeyRange::prefix(prefix);
        let Some(bounds) = range.bounds_after(after.map(|after| &**after)) else {
            return (Vec::new(), false);
        };
        let mut views = Vec::new();
        for (name, _) in self.locks.range::<[u8], _>(bounds) {
            if views.len() == limit || budget.is_spent() {
                return (views, true);
            }
            let view = self.look(name, &sight);
            let shown: usize = view.holders.iter().map(|one| one.metadata.len()).sum();
            sight.metadata_bytes_max = sight.metadata_bytes_max.saturating_sub(shown);
            let keys = 1 + view.holders.len() + view.waiters.len() + view.foreign.len();
            budget.spend_on_answer(keys, shown);
            views.push(view);
        }
        (views, false)
    }

    /// Walks the queue only as far as somebody is to be shown: it may be very long.
    fn fill_queue(&self, view: &mut LockView, queue: &Queue, sight: &Sight) {
        let (held, foreign) = self.counted(queue);
        view.holding = held as u64;
        view.waiting = (queue.len() - held - foreign) as u64;
        let mut metadata_left = sight.metadata_bytes_max;
        let mut predecessor = Key::default();
        // Holders stand first. Those who are not shown are passed over without a look at them.
        let shown = held.min(sight.holders_max);
        if shown < held {
            predecessor = queue.keys().nth(held - 1).cloned().unwrap_or_default();
        }
        let rest = queue.keys().skip(held).take(WALK_MAX);
        for key in queue.keys().take(shown).chain(rest) {
            let record = &self.keys[key];
            match record.contender() {
                None => view.foreign.push(key.clone()),
                Some(contender) if contender.holds() => {
                    let mut holder = self.holder(key, record, contender);
                    match metadata_left.checked_sub(holder.metadata.len()) {
                        Some(left) => metadata_left = left,
                        None => {
                            holder.metadata = Value::default();
                            holder.is_metadata_cut = true;
                        }
                    }
                    view.holders.push(holder);
                    if shown < held {
                        continue;
                    }
                }
                Some(_) if view.waiters.len() == sight.waiters_max => break,
                Some(contender) => {
                    let mut waiter = self.waiter(key, record, contender);
                    waiter.predecessor = predecessor;
                    waiter.position = (view.waiters.len() + view.foreign.len()) as u64 + 1;
                    view.waiters.push(waiter);
                }
            }
            predecessor = key.clone();
        }
    }

    fn holder(&self, key: &Key, record: &Record, contender: &Contender) -> Holder {
        let lease = self.leases.get(&record.lease);
        Holder {
            key: key.clone(),
            client: self.client_of(record.lease),
            lease: record.lease,
            token: record.token(),
            create_revision: record.created,
            mod_revision: record.modified.max(contender.granted),
            version: record.version,
            metadata: contender.metadata.clone(),
            is_metadata_cut: false,
            mode: contender.mode,
            held_for: self.now.since(contender.since),
            remaining: lease.map(|lease| lease.remaining(self.now)).unwrap_or_default(),
            expires_at: lease.map_or(self.now, |lease| lease.deadline),
            forced_at: contender.forced(),
        }
    }

    /// The waiter that stands at this key, without walking the queue.
    pub(crate) fn waiter_at(&self, name: &LockName, key: &Key) -> Option<Waiter> {
        let (record, contender) = self.contender_record(key)?;
        if contender.holds() {
            return None;
        }
        let place = self.place_of(name, key, record.spot());
        let waiter = self.waiter(key, record, contender);
        Some(Waiter { predecessor: place.predecessor, position: place.position, ..waiter })
    }

    fn waiter(&self, key: &Key, record: &Record, contender: &Contender) -> Waiter {
        let lease = queue_form(key).map_or(LeaseId::NONE, |(_, lease)| lease);
        Waiter {
            key: key.clone(),
            client: self.client_of(lease),
            lease,
            create_revision: record.created,
            predecessor: Key::default(),
            position: 0,
            mode: contender.mode,
            waited_for: self.now.since(contender.since),
            wait_until: Some(contender.wait_until).filter(|&until| until != LogTime::NEVER),
            reserved: contender.is_grouped(),
        }
    }
}
