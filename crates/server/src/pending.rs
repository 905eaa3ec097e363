//! Calls that wait for a lock.
//!
//! Owns: who on this member must be told when a contender is granted or ends. Guarantees: whatever
//! order the reply and the events of an acquire come in, the call is told once, and of its own
//! place in the queue, not of an earlier one of the same lease. Refuses: to decide anything. The
//! queue is in the state; what is kept here dies with the process, and nobody misses it.
//!
//! The hazards, all of which a member that follows meets. The reply comes from the leader and the
//! events from the log, so either may be first. The events may still tell of an earlier place of
//! the same lease at the same lock, also after the reply. And a snapshot may take the place of the
//! events altogether.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use fencepost_core::event::{Cause, Event, EventKind};
use fencepost_core::{Key, Millis, Revision, Token};

/// What became of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The lock is held.
    Granted {
        /// The fencing token.
        token: Token,
        /// How long the lease lived on when this was seen.
        remaining: Millis,
    },
    /// The place in the queue is gone, for this cause.
    Ended(Cause),
    /// The place in the queue is gone, and what became of it was not seen.
    Gone,
}

/// How a contender stands in the present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It holds.
    Holds {
        /// The fencing token.
        token: Token,
        /// How long its lease still lives.
        remaining: Millis,
    },
    /// It waits.
    Waits,
    /// It is not there.
    Absent,
}

/// A wait that was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    key: Key,
    number: u64,
}

/// Who is to be told of which contenders. `P` is where a verdict is sent to.
#[derive(Debug)]
pub(crate) struct Registry<P> {
    places: HashMap<Key, Vec<Entry<P>>, foldhash::quality::RandomState>,
    /// The contenders that somebody waits for, in order, so that they can be looked at in turn. Most
    /// calls are answered without ever waiting.
    waited_for: BTreeSet<Key>,
    next: u64,
    len: usize,
}

#[derive(Debug)]
struct Entry<P> {
    number: u64,
    stage: Stage,
    postbox: P,
}

#[derive(Debug)]
enum Stage {
    /// The acquire was proposed and not answered. What was seen last of its key may concern it or
    /// not: only the reply can tell.
    Asked(Option<Seen>),
    /// It waits since this revision.
    Waits(Revision),
}

#[derive(Clone, Debug)]
struct Seen {
    revision: Revision,
    verdict: Verdict,
}

impl Seen {
    /// Whether this concerns a contender that stood in the queue at `since`.
    ///
    /// A grant may need no change of a key, so it may come at the very revision of the reply. An
    /// end always raises the revision: one at the revision of the reply made room for the new
    /// place in the same step, and is that of an earlier one.
    fn concerns(&self, since: Revision) -> bool {
        match self.verdict {
            Verdict::Granted { .. } => self.revision >= since,
            Verdict::Ended(_) | Verdict::Gone => self.revision > since,
        }
    }
}

impl<P> Default for Registry<P> {
    fn default() -> Registry<P> {
        let (places, waited_for) = (HashMap::default(), BTreeSet::new());
        Registry { places, waited_for, next: 0, len: 0 }
    }
}

impl<P> Registry<P> {
    /// Notes a call, *before* its acquire is proposed: the grant may be seen before the reply.
    pub(crate) fn register(&mut self, key: Key, postbox: P) -> Ticket {
        let number = self.next;
        self.next += 1;
        self.len += 1;
        let entry = Entry { number, stage: Stage::Asked(None), postbox };
        self.places.entry(key.clone()).or_default().push(entry);
        Ticket { key, number }
    }

    /// The acquire waits, as of this revision. If its end was seen already, this is it, and the
    /// call is forgotten.
    pub(crate) fn queued(&mut self, ticket: &Ticket, since: Revision) -> Option<Verdict> {
        let entries = self.places.get_mut(&ticket.key)?;
        let entry = entries.iter_mut().find(|entry| entry.number == ticket.number)?;
        match &entry.stage {
            Stage::Asked(Some(seen)) if seen.concerns(since) => {
                let verdict = seen.verdict.clone();
                self.forget(ticket);
                Some(verdict)
            }
            Stage::Asked(_) | Stage::Waits(_) => {
                entry.stage = Stage::Waits(since);
                self.waited_for.insert(ticket.key.clone());
                None
            }
        }
    }

    /// Forgets a call.
    pub(crate) fn forget(&mut self, ticket: &Ticket) {
        // Taken out before it is looked at: mostly nobody else waits there.
        let Some((key, mut entries)) = self.places.remove_entry(&ticket.key) else { return };
        let at = entries.iter().position(|entry| entry.number == ticket.number);
        let forgotten = at.map(|at| entries.remove(at));
        self.len -= usize::from(forgotten.is_some());
        let has_waited = forgotten.is_some_and(|entry| entry.waits());
        if has_waited && !entries.iter().any(Entry::waits) {
            self.waited_for.remove(&key);
        }
        if !entries.is_empty() {
            self.places.insert(key, entries);
        }
    }

    /// The contenders behind `after` that somebody here waits for, in turn, and at most so many.
    /// Comes to the first ones again when there are none left.
    pub(crate) fn in_turn(&self, after: Option<&Key>, max: usize) -> Vec<Key> {
        let behind = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let before = (Bound::Unbounded, after.map_or(Bound::Unbounded, Bound::Included));
        let rest = after.map(|_| self.waited_for.range::<Key, _>(before));
        let all = self.waited_for.range::<Key, _>(behind).chain(rest.into_iter().flatten());
        all.take(max).cloned().collect()
    }

    /// Those who wait at this key since a revision that the state has reached.
    pub(crate) fn waiting_at(&self, key: &Key, reached: Revision) -> impl Iterator<Item = &P> {
        let entries = self.places.get(key).into_iter().flatten();
        entries.filter_map(move |entry| match entry.stage {
            Stage::Waits(since) if since <= reached => Some(&entry.postbox),
            Stage::Waits(_) | Stage::Asked(_) => None,
        })
    }

    /// How many calls are registered.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Looks at an event. Those who are concerned are forgotten, and `told`. `remaining` is asked
    /// only if somebody may be.
    pub(crate) fn observe(
        &mut self,
        event: &Event,
        remaining: impl FnOnce(&Key) -> Millis,
        told: &mut Vec<(P, Verdict)>,
    ) {
        if !can_concern(event) {
            return;
        }
        let key = event.key();
        let Some(entries) = self.places.get_mut(key) else { return };
        let verdict = match &event.kind {
            EventKind::Granted(holding) => {
                let remaining = remaining(key);
                Verdict::Granted { token: holding.token, remaining }
            }
            EventKind::Deleted { ended: Some(ended), .. } => Verdict::Ended(ended.cause),
            EventKind::Lost(_) => Verdict::Ended(Cause::Deleted),
            // A contender that is taken from its lease can never be granted.
            EventKind::Put { kv, prev: Some(prev) } if kv.lease != prev.lease => {
                Verdict::Ended(Cause::Deleted)
            }
            _ => return,
        };
        let count = decide(entries, &Seen { revision: event.revision, verdict }, told);
        self.len -= count;
        if count > 0 && !entries.iter().any(Entry::waits) {
            self.waited_for.remove(key);
        }
        if entries.is_empty() {
            self.places.remove(key);
        }
    }

    /// The state was replaced by a snapshot, and is at this revision now.
    pub(crate) fn installed(
        &mut self,
        revision: Revision,
        mut look: impl FnMut(&Key) -> Standing,
    ) -> Vec<(P, Verdict)> {
        let mut told = Vec::new();
        for (key, entries) in &mut self.places {
            let verdict = match look(key) {
                Standing::Holds { token, remaining } => Verdict::Granted { token, remaining },
                Standing::Waits => continue,
                Standing::Absent => Verdict::Gone,
            };
            self.len -= decide(entries, &Seen { revision, verdict }, &mut told);
        }
        self.places.retain(|_, entries| !entries.is_empty());
        let waits = |key: &Key| self.places.get(key).into_iter().flatten().any(Entry::waits);
        self.waited_for.retain(waits);
        told
    }
}

impl<P> Entry<P> {
    fn waits(&self) -> bool {
        matches!(self.stage, Stage::Waits(_))
    }
}

/// Whether this can be the end of a wait: what creates a contender is not.
fn can_concern(event: &Event) -> bool {
    !matches!(event.kind, EventKind::Put { prev: None, .. })
}

/// Takes out those at one key whom this concerns, in order, and says how many that were. Those whose
/// acquire is not answered keep it in mind.
fn decide<P>(entries: &mut Vec<Entry<P>>, seen: &Seen, told: &mut Vec<(P, Verdict)>) -> usize {
    let is_concerned = |entry: &mut Entry<P>| match &mut entry.stage {
        Stage::Waits(since) => seen.concerns(*since),
        Stage::Asked(last) => {
            *last = Some(seen.clone());
            false
        }
    };
    let before = told.len();
    let concerned = entries.extract_if(.., is_concerned);
    told.extend(concerned.map(|entry| (entry.postbox, seen.verdict.clone())));
    told.len() - before
}
