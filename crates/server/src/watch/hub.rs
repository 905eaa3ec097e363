//! Hands what happens to everyone who wants to know.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use fencepost_core::event::{Cause, EventKind, Holding};
use fencepost_core::range::KeyRange;
use fencepost_core::{Event, LeaseId, LogTime, Revision};
use fencepost_proto::v1;

use super::index::Index;
use super::queue::{Live, Reached, Said};
use super::{Cursor, Queue};
use crate::limits;
use crate::outbox::{Item, Outbox, WatchEvents};
use crate::{parse, show};

/// Everyone who wants to know.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    /// By number.
    watches: HashMap<u64, Live>,
    /// By what they watch.
    index: Index,
    /// Who wants to hear when a lease loses a lock.
    named: HashMap<LeaseId, Vec<Arc<Outbox>>>,
    /// How far the watches are: what they were not told of they do not want.
    cursor: Cursor,
    revision: Revision,
    /// What was watched by those that have ended since the last time that the queue was told.
    ended: Vec<KeyRange>,
}

/// What one round has for one watch.
#[derive(Default)]
struct Round {
    events: BTreeMap<u64, Vec<Arc<Event>>>,
    cut: BTreeMap<u64, Revision>,
}

impl Hub {
    /// Runs until whoever made it is gone.
    pub(crate) async fn run(mut self, queue: Arc<Queue>) {
        loop {
            let said = queue.take().await;
            self.hear_all(said, &queue);
        }
    }

    pub(super) fn hear_all(&mut self, said: VecDeque<Said>, queue: &Queue) {
        for said in said {
            self.hear(said);
        }
        if !self.ended.is_empty() {
            queue.forget(self.ended.drain(..));
        }
    }

    /// Hears one thing.
    pub(crate) fn hear(&mut self, said: Said) {
        match said {
            Said::Events(events, reached) => self.happened(&events, reached),
            Said::Begin(live) => self.begin(*live),
            Said::End(number) => drop(self.end(number)),
            Said::Gap => self.go_back(),
            Said::Named(lease, outbox) => self.named.entry(lease).or_default().push(outbox),
            Said::Unnamed(lease, outbox) => self.unname(lease, &outbox),
            Said::Progress => self.tell_progress(),
            Said::Mark(outbox) => outbox.push(Item::Mark(self.revision)),
        }
    }

    fn begin(&mut self, live: Live) {
        // Its stream may have ended while it was on its way here.
        if live.outbox.is_finished() {
            self.ended.push(live.watch.range);
            return;
        }
        self.index.add(&live.watch.range, live.number);
        self.watches.insert(live.number, live);
    }

    fn end(&mut self, number: u64) -> Option<Live> {
        let live = self.watches.remove(&number)?;
        self.index.remove(&live.watch.range, number);
        self.ended.push(live.watch.range.clone());
        Some(live)
    }

    fn unname(&mut self, lease: LeaseId, outbox: &Arc<Outbox>) {
        let Some(outboxes) = self.named.get_mut(&lease) else { return };
        outboxes.retain(|one| !Arc::ptr_eq(one, outbox));
        if outboxes.is_empty() {
            self.named.remove(&lease);
        }
    }

    /// Every watch must find what it has missed in the history. It does not look behind what it was told, or the
    /// watch of something that seldom happens would ask for what the history has long forgotten.
    fn go_back(&mut self) {
        self.index = Index::default();
        for (number, live) in self.watches.drain() {
            self.ended.push(live.watch.range);
            live.outbox.push(Item::WatchBehind(number, live.cursor.max(self.cursor)));
        }
    }

    fn tell_progress(&mut self) {
        for live in self.watches.values().filter(|live| live.progress) {
            let revision = self.revision.max(live.cursor.revision);
            live.outbox.push(Item::Progress(live.number, revision));
        }
    }

    fn happened(&mut self, events: &[Arc<Event>], reached: Reached) {
        let (mut round, now) = (Round::default(), reached.now);
        for event in events {
            self.tell_holders(event, now);
            for number in self.index.candidates(event.key()) {
                if let Some(live) = self.watches.get_mut(&number) {
                    round.offer(live, event);
                }
            }
        }
        self.revision = self.revision.max(reached.revision);
        self.cursor = self.cursor.max(reached.cursor);
        for (number, events) in round.events {
            let Some(live) = self.watches.get(&number).filter(|_| !events.is_empty()) else {
                continue;
            };
            let buffered = Arc::clone(&live.buffered);
            let events = WatchEvents { watch: number, events, now, buffered };
            live.outbox.push(Item::Events(events));
        }
        for (number, resume) in round.cut {
            if let Some(live) = self.end(number) {
                live.outbox.push(Item::WatchCut(number, resume));
            }
        }
    }

    /// Tells those who use a lease that it has lost a lock without having let go of it.
    fn tell_holders(&self, event: &Event, now: LogTime) {
        if self.named.is_empty() {
            return;
        }
        let Some((lease, lost)) = hold_lost(event, now) else { return };
        for outbox in self.named.get(&lease).into_iter().flatten() {
            let response = v1::session_response::Response::HoldLost(lost.clone());
            let response =
                v1::SessionResponse { response: Some(response), ..v1::SessionResponse::default() };
            outbox.push(Item::Response(Box::new(response)));
        }
    }
}

impl Round {
    /// Ends a watch. It can go on at this revision, so nothing of it may have been told.
    fn cut(&mut self, live: &Live, resume: Revision) {
        if let Some(events) = self.events.get_mut(&live.number) {
            while let Some(event) = events.pop_if(|event| event.revision == resume) {
                live.buffered.remove(&event);
            }
        }
        self.cut.insert(live.number, resume);
    }

    fn offer(&mut self, live: &mut Live, event: &Arc<Event>) {
        if self.cut.contains_key(&live.number) || !live.cursor.is_before(event) {
            return;
        }
        if live.watch.wants(event) {
            let shown = live.watch.show(event);
            let (events, bytes) = live.buffered.add(&shown);
            // One event alone may be larger than the bound.
            let too_many = events > limits::WATCH_EVENTS_MAX;
            if too_many || (bytes > limits::WATCH_BYTES_MAX && events > 1) {
                live.buffered.remove(&shown);
                self.cut(live, event.revision);
                return;
            }
            self.events.entry(live.number).or_default().push(shown);
        }
        live.cursor = Cursor::after(event);
    }
}

/// The lease that has lost a lock by this event, or is about to, and what it is told.
fn hold_lost(event: &Event, now: LogTime) -> Option<(LeaseId, v1::HoldLost)> {
    let lost = |holding: &Holding, cause: &str| {
        let (name, _) = parse::queue_form(&holding.key)?;
        Some(v1::HoldLost {
            name: show::text(&name),
            lease_id: holding.lease.0,
            fencing_token: show::signed(holding.token.0),
            cause: cause.to_owned(),
            ..v1::HoldLost::default()
        })
    };
    match &event.kind {
        EventKind::Lost(holding) => Some((holding.lease, lost(holding, "deleted")?)),
        EventKind::ForceAsked { holding, until, reason } => {
            let asked = v1::HoldLost {
                until_ms: show::millis(until.since(now)),
                reason: reason.as_str().to_owned(),
                ..lost(holding, "forced")?
            };
            Some((holding.lease, asked))
        }
        EventKind::Deleted { prev, ended: Some(ended) } if ended.held => {
            // These are the client's own doing.
            if matches!(ended.cause, Cause::Released | Cause::Cancelled) {
                return None;
            }
            let (_, lease) = parse::queue_form(&prev.key)?;
            let (key, token) = (prev.key.clone(), prev.create_revision.into());
            let holding = Holding { key, token, lease, ..Holding::default() };
            Some((lease, lost(&holding, show::cause(ended.cause))?))
        }
        _ => None,
    }
}
