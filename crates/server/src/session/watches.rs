//! The watches of one stream.

use std::collections::HashMap;
use std::sync::Arc;

use fencepost_core::Revision;
use fencepost_core::history::Watch;
use fencepost_node::io::{ProposeError, RequestId};
use fencepost_node::shell::{Freshness, Query};
use fencepost_proto::v1;
use fencepost_proto::v1::session_response::Response;

use super::ask::Batch;
use super::{Kind, Session, State};
use crate::booth;
use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::outbox::WatchEvents;
use crate::watch::{Buffered, Cursor, Live, Look, Said, look};
use crate::{limits, parse, show};

/// The watches of one stream.
#[derive(Default)]
pub(super) struct Watches {
    by_number: HashMap<u64, Watching>,
    /// Their numbers, by the names that the client gave them.
    numbers: HashMap<i64, u64>,
}

struct Watching {
    request_id: u64,
    watch_id: i64,
    watch: Watch,
    progress: bool,
    buffered: Arc<Buffered>,
    /// Whether the client was told that it has begun.
    is_created: bool,
}

impl Watches {
    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    fn remove(&mut self, number: u64) -> Option<Watching> {
        let watching = self.by_number.remove(&number)?;
        self.numbers.remove(&watching.watch_id);
        Some(watching)
    }

    /// The stream has ended.
    pub(super) fn end_all(self, house: &House) {
        for number in self.by_number.into_keys() {
            house.fan_out.say(Said::End(number));
            house.metrics.watches.dec();
        }
    }
}

/// What a watch tells. Nothing, if it is gone.
type Told = Option<(u64, super::Answered)>;

impl Session {
    /// Begins a watch, or ends one.
    pub(super) fn watch(
        &self,
        state: &mut State,
        request_id: u64,
        request: &v1::WatchRequest,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        if request.cancel {
            return self.cancel_watch(state, request_id, request.watch_id);
        }
        let watch = parse::watch(request)?;
        if state.watches.numbers.contains_key(&request.watch_id) {
            return Err(Wrong::WatchExists(request.watch_id).into());
        }
        if state.watches.by_number.len() >= limits::WATCHES_MAX {
            return Err(Wrong::TooMuchOpen("watches", limits::WATCHES_MAX).into());
        }
        let number = self.house.draw_watch();
        let watching = Watching {
            request_id,
            watch_id: request.watch_id,
            watch,
            progress: request.progress,
            buffered: Arc::default(),
            is_created: false,
        };
        self.house.metrics.watches.inc();
        let (look, query) = self.look_for(number, &watching, None);
        state.watches.numbers.insert(request.watch_id, number);
        state.watches.by_number.insert(number, watching);
        state.opened(look, request_id, Kind::Look(number));
        batch.query(look, query);
        Ok(())
    }

    fn cancel_watch(
        &self,
        state: &mut State,
        request_id: u64,
        watch_id: i64,
    ) -> Result<(), Failure> {
        let number = state.watches.numbers.get(&watch_id).copied();
        let watching = number.and_then(|number| self.drop_watch(state, number));
        let watching = watching.ok_or(Wrong::WatchUnknown(watch_id))?;
        // Both the watch and the wish to end it are answered.
        for request_id in [watching.request_id, request_id] {
            let canceled = canceled(watch_id, "canceled by the client");
            self.say(request_id, Ok((self.header(), Response::Watch(canceled))));
        }
        Ok(())
    }

    /// Forgets a watch, here and in the fan-out.
    fn drop_watch(&self, state: &mut State, number: u64) -> Option<Watching> {
        self.house.fan_out.say(Said::End(number));
        let watching = state.watches.remove(number)?;
        state.in_use.remove(&watching.request_id);
        self.house.metrics.watches.dec();
        Some(watching)
    }

    /// A look at the history. The one that reaches the present lets the watch begin, on the loop,
    /// where nothing can happen in between.
    fn look_for(
        &self,
        number: u64,
        watching: &Watching,
        cursor: Option<Cursor>,
    ) -> (RequestId, Query) {
        let (watch, progress) = (watching.watch.clone(), watching.progress);
        let buffered = Arc::clone(&watching.buffered);
        let outbox = Arc::clone(&self.outbox);
        let fan_out = Arc::clone(&self.house.fan_out);
        let query = Query::once(move |machine| {
            let found = look(machine.state(), &watch, cursor);
            if found.is_present && found.compacted.is_none() {
                let cursor = found.cursor;
                let live = Live { number, watch, cursor, progress, buffered, outbox };
                fan_out.say(Said::Begin(Box::new(live)));
            }
            found
        });
        (self.line.draw(), query)
    }

    /// Looks at the history from here on.
    pub(super) fn look_again(&self, state: &mut State, number: u64, cursor: Cursor) {
        let Some(watching) = state.watches.by_number.get(&number) else { return };
        let request_id = watching.request_id;
        let (request, query) = self.look_for(number, watching, Some(cursor));
        state.opened(request, request_id, Kind::Look(number));
        let brought = self.line.bring_query(request, Freshness::Stale, query);
        booth::work_off(&self.line);
        if let Err(why) = brought {
            self.refuse(request, &why);
        }
    }

    /// What a look has brought.
    pub(super) fn looked(
        &self,
        state: &mut State,
        number: u64,
        found: Result<Look, ProposeError>,
    ) -> Vec<(u64, super::Answered)> {
        let Some(watching) = state.watches.by_number.get_mut(&number) else {
            // It was ended while it looked, and may have begun all the same.
            self.house.fan_out.say(Said::End(number));
            return Vec::new();
        };
        let (request_id, watch_id) = (watching.request_id, watching.watch_id);
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                self.drop_watch(state, number);
                return vec![(request_id, Err(why.into()))];
            }
        };
        let answer = |told| (request_id, Ok((self.header_at(found.revision), told)));
        if let Some(oldest) = found.compacted {
            self.drop_watch(state, number);
            let told = v1::WatchResponse {
                compact_revision: show::signed(oldest.0),
                ..canceled(watch_id, "history is gone where the watch was to begin")
            };
            return vec![answer(Response::Watch(told))];
        }
        let mut told = Vec::new();
        if !std::mem::replace(&mut watching.is_created, true) {
            let created =
                v1::WatchResponse { watch_id, created: true, ..v1::WatchResponse::default() };
            told.push(answer(Response::Watch(created)));
        }
        if !found.events.is_empty() {
            let events = found.events.iter().map(|event| show::event(event, found.now));
            let events = events.collect();
            let events = v1::WatchResponse { watch_id, events, ..v1::WatchResponse::default() };
            told.push(answer(Response::Watch(events)));
        }
        if !found.is_present {
            self.look_again(state, number, found.cursor);
        }
        told
    }

    /// Events that have just happened.
    pub(super) fn watched(&self, state: &mut State, happened: &WatchEvents) -> Told {
        for event in &happened.events {
            happened.buffered.remove(event);
        }
        let watching = state.watches.by_number.get(&happened.watch)?;
        let revision = happened.events.last().map(|event| event.revision).unwrap_or_default();
        let events = happened.events.iter().map(|event| show::event(event, happened.now));
        let (watch_id, events) = (watching.watch_id, events.collect());
        let told = v1::WatchResponse { watch_id, events, ..v1::WatchResponse::default() };
        Some((watching.request_id, Ok((self.header_at(revision), Response::Watch(told)))))
    }

    /// The watch was ended because its reader is too slow.
    pub(super) fn watch_cut(&self, state: &mut State, number: u64, resume: Revision) -> Told {
        let watching = self.drop_watch(state, number)?;
        let told = v1::WatchResponse {
            resume_revision: show::signed(resume.0),
            ..canceled(watching.watch_id, "events were read too slowly")
        };
        Some((watching.request_id, Ok((self.header(), Response::Watch(told)))))
    }

    /// How far the watch is.
    pub(super) fn progressed(&self, state: &State, number: u64, revision: Revision) -> Told {
        let watching = state.watches.by_number.get(&number)?;
        let told = v1::WatchResponse {
            watch_id: watching.watch_id,
            is_progress: true,
            ..v1::WatchResponse::default()
        };
        Some((watching.request_id, Ok((self.header_at(revision), Response::Watch(told)))))
    }
}

fn canceled(watch_id: i64, why: &str) -> v1::WatchResponse {
    v1::WatchResponse {
        watch_id,
        canceled: true,
        cancel_reason: why.to_owned(),
        ..v1::WatchResponse::default()
    }
}
