//! What waits to be sent on one stream.
//!
//! Filled by the node's loop and by the fan-out of events, which must not wait; emptied when the
//! stream is polled, where things are turned into messages. However much is put in between two
//! polls, the stream is woken once. Bounded: a reader that is too slow loses its stream, not our
//! memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use fencepost_core::event::EventKind;
use fencepost_core::outcome::Place;
use fencepost_core::{Event, LogTime, Outcome, Revision};
use fencepost_node::io::RequestId;
use fencepost_node::shell::{Delivery, Found, Mailbox};
use fencepost_proto::v1;
use fencepost_proto::v1::session_response::Response;
use prost::Message as _;
use tonic::Status;

use crate::error::{Failure, Wrong};
use crate::limits;
use crate::pending::Verdict;
use crate::reads::Read;
use crate::watch::{Buffered, Cursor, Look};

/// Something to be said on a stream.
#[derive(Debug)]
pub(crate) enum Item {
    /// The node has answered.
    Delivery(RequestId, Delivery),
    /// A wait has ended.
    Verdict(RequestId, Verdict),
    /// How a wait stands.
    Place(RequestId, Box<Place>),
    /// What an acquire is answered with, now that its tokens are signed.
    Signed(RequestId, Box<Result<(v1::Header, Response), Failure>>),
    /// A message that is ready.
    Response(Box<v1::SessionResponse>),
    /// Events for a watch.
    Events(WatchEvents),
    /// A watch was ended because its reader is too slow. It can go on from here.
    WatchCut(u64, Revision),
    /// A watch must look at the history again.
    WatchBehind(u64, Cursor),
    /// Everything up to this revision was told to a watch.
    Progress(u64, Revision),
    /// Everything up to this revision was told to all watches that are at the present.
    Mark(Revision),
}

/// Events for a watch.
#[derive(Debug)]
pub(crate) struct WatchEvents {
    pub(crate) watch: u64,
    pub(crate) events: Vec<Arc<Event>>,
    /// The log time when they were seen.
    pub(crate) now: LogTime,
    /// Where they are counted until they are sent.
    pub(crate) buffered: Arc<Buffered>,
}

/// Items for which an idle stream keeps room: what one client that asks one thing at a time needs.
const ITEMS_IDLE_MAX: usize = 4;
/// What an item costs beside what it carries.
const ITEM_BYTES: usize = 128;

impl Item {
    fn bytes(&self) -> usize {
        ITEM_BYTES
            + match self {
                Item::Delivery(_, Delivery::Answer(Ok(reply))) => match &reply.outcome {
                    Outcome::Put(Some(kv)) => kv.value.len(),
                    Outcome::Deleted(_, kvs) => kvs.iter().map(|kv| kv.value.len()).sum(),
                    Outcome::DeletedPart(part) => {
                        part.removed.iter().map(|kv| kv.value.len()).sum()
                    }
                    Outcome::LeasesRenewed(renewed) => renewed.len() * 40,
                    _ => 0,
                },
                Item::Delivery(_, Delivery::Found(Ok(found))) => found_bytes(found),
                Item::Delivery(..) => 0,
                Item::Signed(_, answer) => signed_bytes(answer),
                Item::Events(events) => events.events.iter().map(|event| event_bytes(event)).sum(),
                Item::Response(response) => response.encoded_len(),
                _ => 0,
            }
    }
}

/// What the signed tokens of an acquire take.
fn signed_bytes(answer: &Result<(v1::Header, Response), Failure>) -> usize {
    match answer {
        Ok((_, Response::Acquired(shown))) => shown.signed_tokens.iter().map(String::len).sum(),
        _ => 0,
    }
}

/// Roughly what a query has found.
fn found_bytes(found: &Found) -> usize {
    let read = found.downcast_ref::<Read>().map(Read::bytes);
    read.or_else(|| found.downcast_ref::<Look>().map(Look::bytes)).unwrap_or_default()
}

/// Roughly what an event takes on the wire.
pub(crate) fn event_bytes(event: &Event) -> usize {
    let values = match &event.kind {
        EventKind::Put { kv, prev } => {
            kv.value.len() + prev.as_ref().map_or(0, |prev| prev.value.len() + prev.key.len())
        }
        EventKind::Deleted { prev, .. } => prev.value.len() + prev.key.len(),
        _ => 0,
    };
    64 + event.key().len() + values
}

/// What waits to be sent on one stream.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Who sends it on the thread of whoever puts something in, if that can be done.
    speaker: OnceLock<Weak<dyn Speak>>,
}

/// Empties an outbox on any thread.
pub(crate) trait Speak: Send + Sync {
    /// Sends all that waits, without waiting. `false` if something is left for the stream's own task.
    fn speak(&self) -> bool;
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    waker: Option<Waker>,
    /// Nothing more is taken. What is there is sent, then this.
    finish: Option<Option<Status>>,
}

impl State {
    fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        self.bytes = self.bytes.saturating_sub(item.bytes());
        Some(item)
    }
}

impl Outbox {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so it is never left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets somebody send what is [pushed at once](Outbox::push_at_once).
    pub(crate) fn set_speaker(&self, speaker: Weak<dyn Speak>) {
        // A stream has one.
        let _ = self.speaker.set(speaker);
    }

    fn wake(mut state: MutexGuard<'_, State>) {
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Puts all of these in, in order.
    pub(crate) fn push_all(&self, items: impl IntoIterator<Item = Item>) {
        Outbox::wake(self.put(items));
    }

    /// The same, and sends them on this thread if nobody else is at it, instead of waking the stream.
    pub(crate) fn push_at_once(&self, items: impl IntoIterator<Item = Item>) {
        let state = self.put(items);
        // Without a waker, the stream is being polled, and will find them.
        let is_asleep = state.waker.is_some();
        drop(state);
        let speaker = || self.speaker.get().and_then(Weak::upgrade);
        if is_asleep && !speaker().is_some_and(|speaker| speaker.speak()) {
            Outbox::wake(self.state());
        }
    }

    fn put(&self, items: impl IntoIterator<Item = Item>) -> MutexGuard<'_, State> {
        let mut state = self.state();
        for item in items {
            if state.finish.is_some() {
                break;
            }
            state.bytes += item.bytes();
            state.items.push_back(item);
            // However large, one alone is not the reader's fault.
            if state.bytes > limits::OUTBOX_BYTES_MAX && state.items.len() > 1 {
                state.items.clear();
                state.bytes = 0;
                state.finish = Some(Some(Failure::from(Wrong::SlowReader).into()));
            }
        }
        state
    }

    pub(crate) fn push(&self, item: Item) {
        self.push_all([item]);
    }

    /// Takes nothing more. The stream ends after what is there, with this status if there is one.
    pub(crate) fn finish(&self, status: Option<Status>) {
        let mut state = self.state();
        if state.finish.is_none() {
            state.finish = Some(status);
        }
        Outbox::wake(state);
    }

    /// Whether nothing more is taken.
    pub(crate) fn is_finished(&self) -> bool {
        self.state().finish.is_some()
    }

    /// The stream is being polled: until it is told that there is nothing, it needs no waking.
    pub(crate) fn awake(&self) {
        self.state().waker = None;
    }

    /// The next item, if there is one.
    pub(crate) fn pop(&self) -> Option<Item> {
        self.state().pop()
    }

    /// The next item, or how the stream ends.
    pub(crate) fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Item, Status>>> {
        let mut state = self.state();
        if let Some(item) = state.pop() {
            return Poll::Ready(Some(Ok(item)));
        }
        match &mut state.finish {
            None => {
                // An idle stream keeps little room for what it may say one day.
                if state.items.capacity() > ITEMS_IDLE_MAX {
                    state.items = VecDeque::new();
                }
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(status) => Poll::Ready(status.take().map(Err)),
        }
    }
}

/// Takes the node's answers for a stream.
pub(crate) struct Answers(pub(crate) Arc<Outbox>);

impl Mailbox for Answers {
    fn deliver(&self, deliveries: Vec<(RequestId, Delivery)>) {
        self.0.push_all(items(deliveries));
    }

    fn deliver_at_once(&self, deliveries: Vec<(RequestId, Delivery)>) {
        self.0.push_at_once(items(deliveries));
    }
}

fn items(deliveries: Vec<(RequestId, Delivery)>) -> impl Iterator<Item = Item> {
    deliveries.into_iter().map(|(request, one)| Item::Delivery(request, one))
}

impl Drop for Answers {
    /// The node has ended, or the stream has, which needs no status then.
    fn drop(&mut self) {
        self.0.finish(Some(Failure::from(Wrong::ShuttingDown).into()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn progress(number: u64) -> Item {
        Item::Progress(number, Revision(1))
    }

    #[test]
    fn however_much_is_put_in_the_stream_is_woken_once() {
        let (outbox, count) = (Outbox::default(), Arc::<Count>::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        assert!(outbox.poll_pop(&mut cx).is_pending());
        outbox.push_all((0..100).map(progress));
        outbox.push(progress(100));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        for number in 0..=100 {
            let Poll::Ready(Some(Ok(Item::Progress(next, _)))) = outbox.poll_pop(&mut cx) else {
                panic!("{number} is there");
            };
            assert_eq!(next, number);
        }
        assert!(outbox.poll_pop(&mut cx).is_pending());
        outbox.finish(None);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        assert!(matches!(outbox.poll_pop(&mut cx), Poll::Ready(None)));
    }

    /// Takes all that waits, or nothing.
    struct Speaker {
        outbox: Arc<Outbox>,
        is_able: bool,
        said: AtomicUsize,
    }

    impl Speak for Speaker {
        fn speak(&self) -> bool {
            while self.is_able && self.outbox.pop().is_some() {
                self.said.fetch_add(1, Ordering::Relaxed);
            }
            self.is_able
        }
    }

    /// An outbox with a speaker, and how often its stream was woken.
    fn spoken(is_able: bool) -> (Arc<Outbox>, Arc<Speaker>, Arc<Count>) {
        let outbox = Arc::<Outbox>::default();
        let speaker =
            Arc::new(Speaker { outbox: Arc::clone(&outbox), is_able, said: AtomicUsize::new(0) });
        let weak = Arc::downgrade(&speaker);
        outbox.set_speaker(weak);
        (outbox, speaker, Arc::default())
    }

    #[test]
    fn what_is_pushed_at_once_is_said_without_waking_the_stream() {
        let (outbox, speaker, count) = spoken(true);
        let waker = Waker::from(Arc::clone(&count));
        assert!(outbox.poll_pop(&mut Context::from_waker(&waker)).is_pending());
        for said in 1..=3 {
            outbox.push_at_once([progress(1)]);
            assert_eq!(speaker.said.load(Ordering::Relaxed), said);
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        // The stream is still woken for everything else.
        outbox.push(progress(2));
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_cannot_be_said_at_once_is_left_to_the_stream() {
        let (outbox, _speaker, count) = spoken(false);
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        assert!(outbox.poll_pop(&mut cx).is_pending());
        outbox.push_at_once([progress(1)]);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(matches!(outbox.poll_pop(&mut cx), Poll::Ready(Some(Ok(Item::Progress(1, _))))));
    }

    #[test]
    fn a_stream_that_is_awake_finds_what_was_pushed_at_once() {
        let (outbox, speaker, count) = spoken(true);
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        assert!(outbox.poll_pop(&mut cx).is_pending());
        outbox.awake();
        outbox.push_at_once([progress(1)]);
        assert_eq!(speaker.said.load(Ordering::Relaxed), 0, "it would come in between");
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        assert!(matches!(outbox.poll_pop(&mut cx), Poll::Ready(Some(Ok(Item::Progress(1, _))))));
        assert!(outbox.poll_pop(&mut cx).is_pending());
        outbox.push_at_once([progress(2)]);
        assert_eq!(speaker.said.load(Ordering::Relaxed), 1, "it sleeps again");
    }

    #[test]
    fn one_large_answer_does_not_end_the_stream() {
        let outbox = Outbox::default();
        let large =
            v1::Failure { message: "x".repeat(limits::OUTBOX_BYTES_MAX), ..v1::Failure::default() };
        let response =
            v1::SessionResponse { failure: Some(large), ..v1::SessionResponse::default() };
        outbox.push(Item::Response(Box::new(response)));
        assert!(!outbox.is_finished());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(outbox.poll_pop(&mut cx), Poll::Ready(Some(Ok(Item::Response(_))))));
        assert_eq!(outbox.state().bytes, 0);
    }

    #[test]
    fn a_reader_that_is_too_slow_loses_the_stream_and_no_memory_is_kept() {
        let outbox = Outbox::default();
        let items = limits::OUTBOX_BYTES_MAX / ITEM_BYTES + 1;
        outbox.push_all((0..2 * items as u64).map(progress));
        assert_eq!(outbox.state().items.len(), 0);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Some(Err(status))) = outbox.poll_pop(&mut cx) else {
            panic!("the stream has ended");
        };
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        assert!(matches!(outbox.poll_pop(&mut cx), Poll::Ready(None)));
    }
}
