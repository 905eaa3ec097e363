//! A connection and the request on it, in one task.
//!
//! HTTP/2 lets many requests share a connection, so each of them is given a task. Most clients have
//! one request at a time, and for them that is one task too many: it is made for every request, and
//! it and the connection wake each other back and forth.
//!
//! Guarantees: a request that comes to a connection without any goes along in the connection's own
//! task. What comes while it is there has a task of its own, so nobody waits behind a sync that
//! another request does, or behind a stream that stays. Refuses: to look at what is asked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use hyper::rt::Executor;

use crate::response_body::reset_if_stalled;

/// How often connection and request may call each other before others get a turn.
const ROUNDS_MAX: usize = 16;

/// The connection can go on.
const CONNECTION: u8 = 1;
/// The request can go on.
const REQUEST: u8 = 2;
/// The task runs, and will look again before it rests.
const AWAKE: u8 = 4;

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Who is to go on.
#[derive(Default)]
struct Bell {
    rung: AtomicU8,
    task: Mutex<Option<Waker>>,
}

impl Bell {
    fn ring(&self, who: u8) {
        // Whoever rings first wakes the task, unless it is awake.
        if self.rung.fetch_or(who, Ordering::AcqRel) == 0 {
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(task) = task {
                task.wake();
            }
        }
    }

    /// Whether somebody is to go on. It will not be said again.
    fn answers(&self, who: u8) -> bool {
        self.rung.fetch_and(!who, Ordering::AcqRel) & who != 0
    }

    fn rise(&self, task: &Waker) {
        let mut known = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.as_ref().is_some_and(|known| known.will_wake(task)) {
            *known = Some(task.clone());
        }
        drop(known);
        self.rung.fetch_or(AWAKE, Ordering::AcqRel);
    }

    /// Whether the task may rest: nobody has rung.
    fn rests(&self) -> bool {
        self.rung.compare_exchange(AWAKE, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The task pauses although somebody has rung. It must be woken.
    fn nods_off(&self) {
        self.rung.fetch_and(!AWAKE, Ordering::AcqRel);
    }
}

/// Rings for one of the two.
struct Ring<const WHO: u8>(Arc<Bell>);

impl<const WHO: u8> Wake for Ring<WHO> {
    fn wake(self: Arc<Self>) {
        self.0.ring(WHO);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.ring(WHO);
    }
}

/// The place beside a connection.
#[derive(Default)]
struct Place {
    is_taken: bool,
    /// A request that has come, and has not begun.
    came: Option<Running>,
}

/// Has the requests of one connection run.
#[derive(Clone)]
pub(crate) struct Along {
    bell: Arc<Bell>,
    place: Arc<Mutex<Place>>,
    /// How long an answer may make no progress.
    patience: Duration,
}

impl Along {
    pub(crate) fn new(patience: Duration) -> Along {
        Along { bell: Arc::default(), place: Arc::default(), patience }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        // Nothing panics while it is held, so it is never left half changed.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection with its requests. They must have been given to this.
    pub(crate) fn with<C: Future>(self, connection: C) -> Joined<C> {
        self.bell.ring(CONNECTION);
        Joined {
            connection: Box::pin(connection),
            request: None,
            for_connection: Arc::new(Ring::<CONNECTION>(Arc::clone(&self.bell))).into(),
            for_request: Arc::new(Ring::<REQUEST>(Arc::clone(&self.bell))).into(),
            along: self,
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Along {
    fn execute(&self, request: F) {
        let request = reset_if_stalled(request, self.patience);
        let mut place = self.place();
        if place.is_taken {
            drop(place);
            tokio::spawn(request);
            return;
        }
        place.is_taken = true;
        place.came = Some(Box::pin(request));
        drop(place);
        self.bell.ring(REQUEST);
    }
}

/// A connection, and the request that goes along with it. When the connection ends, so does the
/// request: nobody is there to be answered.
pub(crate) struct Joined<C> {
    connection: Pin<Box<C>>,
    request: Option<Running>,
    for_connection: Waker,
    for_request: Waker,
    along: Along,
}

impl<C> Joined<C> {
    fn go_on_with_request(&mut self) {
        if self.request.is_none() {
            self.request = self.along.place().came.take();
        }
        let Some(request) = &mut self.request else { return };
        let mut context = Context::from_waker(&self.for_request);
        // As in a task of its own: a request that panics has said so, and takes nobody along.
        let went = catch_unwind(AssertUnwindSafe(|| request.as_mut().poll(&mut context)));
        if !matches!(went, Ok(Poll::Pending)) {
            self.request = None;
            self.along.place().is_taken = false;
        }
    }
}

impl<C: Future> Future for Joined<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let joined = &mut *self;
        let bell = Arc::clone(&joined.along.bell);
        bell.rise(cx.waker());
        for _ in 0..ROUNDS_MAX {
            if bell.answers(REQUEST) {
                joined.go_on_with_request();
            }
            if bell.answers(CONNECTION) {
                let mut context = Context::from_waker(&joined.for_connection);
                if let Poll::Ready(ended) = joined.connection.as_mut().poll(&mut context) {
                    return Poll::Ready(ended);
                }
            }
            if bell.rests() {
                return Poll::Pending;
            }
        }
        bell.nods_off();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};
    use tokio::task::{Id, JoinHandle, id};

    use super::*;

    /// A connection that has run what comes, until it is closed, and tells which task it is.
    fn connection() -> (mpsc::Sender<Running>, JoinHandle<Id>) {
        let along = Along::new(Duration::from_secs(60));
        let (bring, mut coming) = mpsc::channel(1);
        let executor = along.clone();
        let connection = along.with(async move {
            while let Some(request) = coming.recv().await {
                executor.execute(request);
            }
            id()
        });
        (bring, tokio::spawn(connection))
    }

    /// A request that tells which task it runs in, waits, and tells it again.
    fn request() -> (Running, oneshot::Receiver<Id>, oneshot::Sender<()>, oneshot::Receiver<Id>) {
        let (begins, begun) = oneshot::channel();
        let (proceed, may_proceed) = oneshot::channel::<()>();
        let (ends, ended) = oneshot::channel();
        let request = Box::pin(async move {
            begins.send(id()).expect("the test waits");
            may_proceed.await.expect("the test goes on");
            ends.send(id()).expect("the test waits");
        });
        (request, begun, proceed, ended)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn one_request_at_a_time_runs_in_the_connections_task() {
        let (bring, connection) = connection();
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let (request, begun, proceed, ended) = request();
            bring.send(request).await.expect("the connection is there");
            tasks.push(begun.await.expect("it begins"));
            proceed.send(()).expect("it waits");
            tasks.push(ended.await.expect("it goes on"));
        }
        drop(bring);
        let own = connection.await.expect("it ends");
        assert_eq!(tasks, [own; 6]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_comes_beside_another_request_has_its_own_task() {
        let (bring, connection) = connection();
        let (first, first_begun, proceed, ended) = request();
        bring.send(first).await.expect("the connection is there");
        let first_begun = first_begun.await.expect("it begins");
        let (second, second_begun, go_on, done) = request();
        bring.send(second).await.expect("the connection is there");
        let second_begun = second_begun.await.expect("it does not wait for the first one");
        go_on.send(()).expect("it waits");
        assert_eq!(done.await.expect("it goes on"), second_begun);
        proceed.send(()).expect("it waits");
        assert_eq!(ended.await.expect("it goes on"), first_begun);
        drop(bring);
        assert_eq!(connection.await.expect("it ends"), first_begun);
        assert_ne!(first_begun, second_begun);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_that_panics_takes_nobody_along() {
        let (bring, connection) = connection();
        let panics = Box::pin(async { panic!("as it should") });
        bring.send(panics).await.expect("the connection is there");
        let (request, begun, proceed, ended) = request();
        bring.send(request).await.expect("the connection is still there");
        begun.await.expect("it begins");
        proceed.send(()).expect("it waits");
        ended.await.expect("it goes on");
        drop(bring);
        connection.await.expect("it ends");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_ends_with_its_connection() {
        let (bring, connection) = connection();
        let (request, begun, proceed, ended) = request();
        bring.send(request).await.expect("the connection is there");
        begun.await.expect("it begins");
        drop(bring);
        connection.await.expect("it ends");
        assert!(proceed.is_closed());
        ended.await.expect_err("it has not gone on");
    }
}
