//! The queue of one lock: its keys in order of creation, and how far it is granted.
//!
//! Derived state: everything here follows from the records of the keys, so a snapshot does not
//! carry it. Most locks have one contender, and must not pay for a tree.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::ops::Bound;

use crate::command::Mode;
use crate::ids::{Key, Revision};
use crate::record::{Record, Spot};

/// The queue of one lock. It exists only while a key stands in it.
#[derive(Clone, Debug)]
pub(crate) enum Queue {
    /// One key. Whether it holds, its record says.
    One(Key),
    /// Several.
    Many(Box<Many>),
}

/// A queue of several keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Many {
    spots: BTreeMap<Spot, Key>,
    /// How many hold.
    ///
    /// Grants follow the order of `spots` and nobody overtakes, so the holders are its prefix,
    /// except for those behind a holder that became foreign.
    held: usize,
    /// The first that does not hold. Kept, so that a release finds its successor among a hundred
    /// thousand shared holders without passing them all.
    frontier: Option<Spot>,
    /// Somebody may hold behind the frontier: behind a holder that became foreign.
    strays: bool,
    /// How many are no contenders.
    foreign: usize,
    /// What the queue's permits are counted by, and how many keys ask for one.
    permits: Option<(u32, usize)>,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        match self {
            Queue::One(_) => 1,
            Queue::Many(many) => many.spots.len(),
        }
    }

    /// Adds a key at the place that its record gives it. Says whether it is the first that does
    /// not hold: if another waits ahead of it, nothing can be granted because it came.
    pub(crate) fn join(
        &mut self,
        key: &Key,
        record: &Record,
        keys: &BTreeMap<Key, Box<Record>>,
    ) -> bool {
        if let Queue::One(first) = self {
            let mut many = Many::default();
            many.insert(first.clone(), &keys[first]);
            *self = Queue::Many(many.into());
        }
        let Queue::Many(many) = self else { return true };
        many.insert(key.clone(), record);
        many.frontier == Some(record.spot())
    }

    /// Whether one that joined in this mode certainly waits: for itself it wants what others hold.
    pub(crate) fn lets_wait(&self, mode: Mode) -> bool {
        match self {
            Queue::One(_) => false,
            Queue::Many(many) => many.held > 0 && mode == Mode::Exclusive,
        }
    }

    /// The keys in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        let (one, many) = match self {
            Queue::One(key) => (Some(key), None),
            Queue::Many(many) => (None, Some(many.spots.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    pub(crate) fn first(&self) -> &Key {
        match self {
            Queue::One(key) => key,
            Queue::Many(many) => {
                many.spots.values().next().expect("a queue of several keys has a first")
            }
        }
    }

    /// The key that joined last.
    pub(crate) fn last(&self) -> &Key {
        match self {
            Queue::One(key) => key,
            Queue::Many(many) => {
                many.spots.values().next_back().expect("a queue of several keys has a last")
            }
        }
    }
}

impl Many {
    pub(crate) fn insert(&mut self, key: Key, record: &Record) {
        let spot = record.spot();
        self.spots.insert(spot, key);
        self.foreign += usize::from(record.contender().is_none());
        if record.holds() {
            self.held += 1;
            self.strays |= self.frontier.is_some_and(|frontier| frontier < spot);
        } else if self.frontier.is_none_or(|frontier| spot < frontier) {
            self.frontier = Some(spot);
        }
        if let Some(Mode::Permit(limit)) = record.contender().map(|contender| contender.mode) {
            self.permits = Some((limit, self.permits.map_or(1, |(_, count)| count + 1)));
        }
    }

    /// Removes a key. The record says whether it held when it was removed.
    pub(crate) fn remove(&mut self, record: &Record) {
        let spot = record.spot();
        self.spots.remove(&spot);
        self.foreign -= usize::from(record.contender().is_none());
        if record.holds() {
            self.held -= 1;
        }
        if self.frontier == Some(spot) {
            self.frontier = self.after(spot);
        }
        self.forget_permit(record);
    }

    fn forget_permit(&mut self, record: &Record) {
        if let Some(Mode::Permit(_)) = record.contender().map(|contender| contender.mode) {
            self.permits =
                self.permits.filter(|&(_, count)| count > 1).map(|(n, count)| (n, count - 1));
        }
    }

    /// Notes that the key at the frontier was granted.
    pub(crate) fn granted(&mut self, spot: Spot) {
        debug_assert_eq!(self.frontier, Some(spot), "only the first waiter can be granted");
        self.held += 1;
        self.frontier = self.after(spot);
    }

    /// Moves the frontier past a key that holds already: one behind a foreign key that was a
    /// holder itself until its lease was taken away.
    pub(crate) fn pass(&mut self, spot: Spot) {
        self.frontier = self.after(spot);
    }

    /// Notes a grant that no rule allows. Only planted bugs do this.
    pub(crate) fn granted_out_of_turn(&mut self) {
        self.held += 1;
    }

    /// Notes that a contender keeps its spot but blocks all behind it from now on. The record
    /// is the one from before.
    pub(crate) fn becomes_foreign(&mut self, record: &Record) {
        let spot = record.spot();
        self.foreign += 1;
        if record.holds() {
            self.held -= 1;
            self.strays = true;
            self.frontier = Some(self.frontier.map_or(spot, |frontier| frontier.min(spot)));
        }
        self.forget_permit(record);
    }

    fn after(&self, spot: Spot) -> Option<Spot> {
        let behind = (Bound::Excluded(spot), Bound::Unbounded);
        self.spots.range(behind).next().map(|(&next, _)| next)
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }

    pub(crate) fn foreign(&self) -> usize {
        self.foreign
    }

    pub(crate) fn frontier(&self) -> Option<(Spot, &Key)> {
        self.frontier.map(|spot| (spot, &self.spots[&spot]))
    }

    pub(crate) fn frontier_spot(&self) -> Option<Spot> {
        self.frontier
    }

    pub(crate) fn permits(&self) -> Option<u32> {
        self.permits.map(|(limit, _)| limit)
    }

    pub(crate) fn first_key(&self) -> Option<&Key> {
        self.spots.values().next()
    }

    pub(crate) fn last_key(&self) -> Option<&Key> {
        self.spots.values().next_back()
    }

    pub(crate) fn all_keys(&self) -> impl Iterator<Item = &Key> {
        self.spots.values()
    }

    /// The key that was created at this revision, if it stands here.
    pub(crate) fn created_at(&self, created: Revision) -> Option<&Key> {
        let from = Spot { created, sub: 0 };
        let (spot, key) = self.spots.range(from..).next()?;
        (spot.created == created).then_some(key)
    }

    /// The only key left, if there is just one.
    pub(crate) fn sole(&self) -> Option<&Key> {
        if self.spots.len() == 1 { self.spots.values().next() } else { None }
    }

    /// The key just ahead of `spot`.
    pub(crate) fn before(&self, spot: Spot) -> Option<&Key> {
        self.spots.range(..spot).next_back().map(|(_, key)| key)
    }

    /// How many do not hold up to and including `spot`, counted to `most` at the most.
    pub(crate) fn position(&self, spot: Spot, most: usize, waits: impl Fn(&Key) -> bool) -> usize {
        if self.spots.last_key_value().is_some_and(|(&last, _)| last == spot) {
            return self.spots.len() - self.held;
        }
        let Some(frontier) = self.frontier.filter(|&frontier| frontier <= spot) else { return 0 };
        let behind = self.spots.range(frontier..=spot).take(most);
        match self.strays {
            true => behind.filter(|(_, key)| waits(key)).count(),
            false => behind.count(),
        }
    }
}
