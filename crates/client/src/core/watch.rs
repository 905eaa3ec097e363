//! Watches that outlive their connection.
//!
//! Guarantees: every event once, in the order of (revision, sub), without a gap; or the watch ends
//! and says why. Each time a watch is sent it gets a new number on the wire, so that what is still
//! on its way from before cannot be taken for a part of what comes now.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use super::Session;
use super::end_acquire::rejected;
use super::io::{Output, WatchId, WatchNews, WatchSpec};
use super::requests::{check_len, doubled, jittered};
use super::time::Moment;
use super::timers::Timer;
use crate::error::Error;

/// After a refusal that may pass, a watch is asked for again after so long. It doubles.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Watches {
    watches: BTreeMap<WatchId, Watch>,
    /// Of the present connection: by the watch's number, and by that of the request.
    by_wire: BTreeMap<i64, WatchId>,
    by_request: BTreeMap<u64, WatchId>,
    last_wire: i64,
}

/// What surrounds the key of a watch on the wire.
const WATCH_LEN: usize = 64;

#[derive(Debug)]
struct Watch {
    spec: WatchSpec,
    /// Its number on the present connection, and that of its request.
    wire: Option<(i64, u64)>,
    /// The reader cannot take more.
    is_full: bool,
    has_started: bool,
    /// The last event that was delivered.
    delivered: Option<(i64, u32)>,
    /// Everything that happened up to this revision, when the watch was there, was delivered.
    covered: i64,
    /// How often it was refused in a row, and until when it is not asked for again.
    refusals: u32,
    again_at: Moment,
}

impl Watches {
    /// A watch is not on the wire any more.
    fn take_off(&mut self, id: WatchId) -> Option<i64> {
        let (wire, request) = self.watches.get_mut(&id)?.wire.take()?;
        self.by_wire.remove(&wire);
        self.by_request.remove(&request);
        Some(wire)
    }
}

impl Watch {
    /// Where to go on from. Events without a change of keys stand at a revision that was seen
    /// before, so whoever wants them looks at it again.
    fn resume_at(&self) -> i64 {
        let seen = self.delivered.map_or(self.covered, |(revision, _)| revision.max(self.covered));
        match seen {
            0 => self.spec.from,
            seen if self.spec.lock_events => seen,
            seen => seen + 1,
        }
    }
}

impl Session {
    pub(super) fn watch(&mut self, id: WatchId, spec: WatchSpec) {
        if self.closing {
            self.push(Output::Watched(id, WatchNews::Ended(Error::Closed)));
            return;
        }
        if let Err(error) = check_len(spec.key.len() + WATCH_LEN) {
            self.push(Output::Watched(id, WatchNews::Ended(error)));
            return;
        }
        let watch = Watch {
            spec,
            wire: None,
            is_full: false,
            has_started: false,
            delivered: None,
            covered: 0,
            refusals: 0,
            again_at: Moment::default(),
        };
        self.watches.watches.insert(id, watch);
        self.send_watch(id);
    }

    fn send_watch(&mut self, id: WatchId) {
        let Some(link) = self.link.up_id() else { return };
        let Some(watch) = self.watches.watches.get_mut(&id) else { return };
        if watch.is_full || watch.wire.is_some() {
            return;
        }
        if self.now < watch.again_at {
            self.timers.arm(Timer::Watch(id), watch.again_at);
            return;
        }
        self.watches.last_wire += 1;
        let wire = self.watches.last_wire;
        let request_id = self.requests.next_request();
        watch.wire = Some((wire, request_id));
        self.watches.by_wire.insert(wire, id);
        self.watches.by_request.insert(request_id, id);
        let spec = &watch.spec;
        let request = Request::Watch(pb::WatchRequest {
            key: spec.key.clone(),
            prefix: spec.prefix,
            start_revision: watch.resume_at(),
            watch_id: wire,
            prev_kv: spec.prev_kv,
            cancel: false,
            no_put: spec.no_put,
            no_delete: spec.no_delete,
            lock_events: spec.lock_events,
            progress: true,
        });
        self.send_frame(
            link,
            pb::SessionRequest { request_id, once: None, request: Some(request) },
        );
    }

    pub(super) fn watches_again(&mut self) {
        for id in self.watches.watches.keys().copied().collect::<Vec<_>>() {
            self.send_watch(id);
        }
    }

    pub(super) fn watches_lost_link(&mut self) {
        self.watches.by_wire.clear();
        self.watches.by_request.clear();
        for watch in self.watches.watches.values_mut() {
            watch.wire = None;
            watch.again_at = Moment::default();
        }
    }

    /// A watch that was refused may be asked for again.
    pub(super) fn watch_is_due(&mut self, id: WatchId) {
        self.send_watch(id);
    }

    pub(super) fn unwatch(&mut self, id: WatchId) {
        self.stop_watch(id);
        self.watches.watches.remove(&id);
        self.timers.disarm(Timer::Watch(id));
    }

    /// Ends a watch on the wire, not for the user.
    fn stop_watch(&mut self, id: WatchId) {
        let Some(wire) = self.watches.take_off(id) else { return };
        let Some(link) = self.link.up_id() else { return };
        let cancel = pb::WatchRequest { watch_id: wire, cancel: true, ..Default::default() };
        let request_id = self.requests.next_request();
        let request = Some(Request::Watch(cancel));
        self.send_frame(link, pb::SessionRequest { request_id, once: None, request });
    }

    pub(super) fn watch_is_full(&mut self, id: WatchId) {
        self.stop_watch(id);
        if let Some(watch) = self.watches.watches.get_mut(&id) {
            watch.is_full = true;
        }
    }

    pub(super) fn watch_has_room(&mut self, id: WatchId) {
        if let Some(watch) = self.watches.watches.get_mut(&id) {
            watch.is_full = false;
            self.send_watch(id);
        }
    }

    pub(super) fn watch_was_answered(&mut self, news: pb::WatchResponse) {
        let Some(&id) = self.watches.by_wire.get(&news.watch_id) else { return };
        let Some(watch) = self.watches.watches.get_mut(&id) else { return };
        if news.compact_revision > 0 {
            let revision = news.compact_revision;
            self.end_watch(id, Error::Compacted { revision });
            return;
        }
        if news.canceled {
            self.watch_was_cancelled(id, news);
            return;
        }
        let revision = news.header.as_ref().map_or(0, |header| header.revision);
        let mut out = Vec::new();
        watch.refusals = 0;
        if news.created && !std::mem::replace(&mut watch.has_started, true) {
            if watch.spec.from == 0 {
                watch.covered = revision;
            }
            out.push(WatchNews::Started(revision));
        }
        let mut events = news.events;
        events
            .retain(|event| watch.delivered.is_none_or(|last| (event.revision, event.sub) > last));
        if let Some(last) = events.last() {
            watch.delivered = Some((last.revision, last.sub));
        }
        if news.is_progress {
            watch.covered = watch.covered.max(revision);
        }
        if !events.is_empty() {
            out.push(WatchNews::Events(events));
        }
        for news in out {
            self.push(Output::Watched(id, news));
        }
    }

    fn watch_was_cancelled(&mut self, id: WatchId, news: pb::WatchResponse) {
        self.watches.take_off(id);
        if news.resume_revision > 0 {
            // This client was too slow to read. Nothing is lost: it goes on from what it has.
            self.send_watch(id);
            return;
        }
        let message = news.cancel_reason;
        let code = "watch_cancelled".to_owned();
        self.end_watch(id, Error::Rejected { code, message, retryable: false });
    }

    /// The service refuses a request that may be a watch's. One that it may take later, it is asked
    /// for later: nothing is lost, because the watch goes on from what it has.
    pub(super) fn watch_was_refused(&mut self, request: u64, failure: pb::Failure) {
        let Some(&id) = self.watches.by_request.get(&request) else { return };
        if !failure.retryable && !failure.indeterminate {
            self.end_watch(id, rejected(failure));
            return;
        }
        self.watches.take_off(id);
        let Some(watch) = self.watches.watches.get_mut(&id) else { return };
        let pause = doubled(RETRY, watch.refusals).min(RETRY_MAX);
        watch.refusals = watch.refusals.saturating_add(1);
        watch.again_at = self.now.after(jittered(&mut self.rng, pause));
        self.timers.arm(Timer::Watch(id), watch.again_at);
    }

    fn end_watch(&mut self, id: WatchId, error: Error) {
        self.watches.take_off(id);
        if self.watches.watches.remove(&id).is_none() {
            return;
        }
        self.timers.disarm(Timer::Watch(id));
        self.push(Output::Watched(id, WatchNews::Ended(error)));
    }

    pub(super) fn end_watches(&mut self, error: &Error) {
        for id in self.watches.watches.keys().copied().collect::<Vec<_>>() {
            self.stop_watch(id);
            self.end_watch(id, error.clone());
        }
    }
}
