//! A task among those of the user, which hands out answers where they are awaited.
//!
//! Whoever wakes a task from outside its runtime mostly wakes a thread. Where cores are few, that thread
//! runs in place of the session's, finds one answer, and sleeps again before the next one is there; and the
//! first request that follows from an answer wakes the session, which sends it alone. So if there are many
//! answers they are left to a porter, which is woken once, hands out all of them from within, lets those
//! who got one ask for what they want next, and then wakes the session once.
//!
//! Nobody depends on it: what a runtime that is busy or blocked does not fetch in time is taken back by the
//! session, which then hands out by itself, as it does if there is no runtime.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::handout::Handout;
use super::inbox::Inbox;
use crate::boot_time::BootTime;

/// How long a porter may take from when something is left for it until those who got it have asked for
/// more. It hardly ever needs a tenth of that, unless somebody keeps its thread to himself.
const PATIENCE: Duration = Duration::from_millis(1);

/// Where the session leaves what the porter fetches.
pub(super) struct Post {
    inbox: Arc<Inbox>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    bag: Vec<Handout>,
    porter: Porter,
    /// The session is over, and the porter's work with it.
    is_closed: bool,
}

#[derive(Default)]
enum Porter {
    /// There is none, or it was late and has not come back.
    #[default]
    Away,
    /// It waits for something to do.
    Ready(Waker),
    /// It was called, or has begun, at that time.
    Busy(BootTime),
}

impl Post {
    /// A post, with a porter if the user has a runtime.
    pub(super) fn open(inbox: &Arc<Inbox>, users: Option<&Handle>) -> Arc<Post> {
        let post = Arc::new(Post { inbox: Arc::clone(inbox), state: Mutex::default() });
        if let Some(runtime) = users {
            runtime.spawn(work(OnDuty(Arc::clone(&post))));
        }
        post
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves these for the porter. `false` if there is none who would come soon; then nothing was taken.
    pub(super) fn leave(&self, handouts: &mut Vec<Handout>, now: BootTime) -> bool {
        let mut state = self.state();
        let called = match std::mem::take(&mut state.porter) {
            Porter::Away => return false,
            Porter::Ready(waker) => {
                state.porter = Porter::Busy(now);
                Some(waker)
            }
            Porter::Busy(since) => {
                state.porter = Porter::Busy(since);
                None
            }
        };
        state.bag.append(handouts);
        drop(state);
        if let Some(called) = called {
            called.wake();
        }
        true
    }

    /// Takes back what the porter does not fetch in time, and hears by itself again what users want.
    /// How long to wait before the next look, if the porter is at work.
    pub(super) fn look_after(&self, now: BootTime) -> Option<Duration> {
        let state = self.state();
        let Porter::Busy(since) = state.porter else { return None };
        let left = PATIENCE.saturating_sub(now.since(since));
        if !left.is_zero() {
            return Some(left);
        }
        self.relieve(state);
        None
    }

    /// Nothing more will be left here.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.relieve(state);
    }

    /// Does the porter's work in its place, and lets it find out.
    fn relieve(&self, mut state: MutexGuard<'_, State>) {
        let porter = std::mem::take(&mut state.porter);
        let bag = std::mem::take(&mut state.bag);
        drop(state);
        bag.into_iter().for_each(Handout::hand_out);
        self.inbox.let_go();
        if let Porter::Ready(waker) = porter {
            waker.wake();
        }
    }

    /// What is to be handed out, once there is something. Nothing, if there will be nothing more.
    fn poll_fetch(&self, cx: &mut Context<'_>, now: BootTime) -> Poll<Option<Vec<Handout>>> {
        let mut state = self.state();
        if state.is_closed {
            return Poll::Ready(None);
        }
        if state.bag.is_empty() {
            state.porter = Porter::Ready(cx.waker().clone());
            return Poll::Pending;
        }
        state.porter = Porter::Busy(now);
        self.inbox.hold();
        Poll::Ready(Some(std::mem::take(&mut state.bag)))
    }
}

async fn work(on_duty: OnDuty) {
    let post = &on_duty.0;
    while let Some(bag) = poll_fn(|cx| post.poll_fetch(cx, BootTime::now())).await {
        bag.into_iter().for_each(Handout::hand_out);
        // Those who got something come first.
        tokio::task::yield_now().await;
        post.inbox.let_go();
    }
}

/// A porter. If its runtime ends, the session does without.
struct OnDuty(Arc<Post>);

impl Drop for OnDuty {
    fn drop(&mut self) {
        self.0.relieve(self.0.state());
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::core::{Input, Moment, Released};
    use crate::error::Error;
    use crate::shell::Order;

    type Answer = oneshot::Receiver<Result<Released, Error>>;

    fn at(micros: u64) -> BootTime {
        BootTime::of(Moment::from_micros(micros))
    }

    fn handout() -> (Handout, Answer) {
        let (to, answer) = oneshot::channel();
        (Handout::Released(to, Released::InTime), answer)
    }

    fn left(post: &Post, now: BootTime) -> Answer {
        let (handout, answer) = handout();
        assert!(post.leave(&mut vec![handout], now));
        answer
    }

    fn is_there(answer: &mut Answer) -> bool {
        answer.try_recv().is_ok()
    }

    fn post() -> (Arc<Post>, Arc<Inbox>) {
        let inbox = Arc::new(Inbox::default());
        (Post::open(&inbox, None), inbox)
    }

    fn fetch(post: &Post, now: BootTime) -> Poll<Option<Vec<Handout>>> {
        post.poll_fetch(&mut Context::from_waker(Waker::noop()), now)
    }

    #[test]
    fn without_a_runtime_nothing_is_taken() {
        let (post, _inbox) = post();
        let (handout, _answer) = handout();
        let mut handouts = vec![handout];
        assert!(!post.leave(&mut handouts, at(0)));
        assert_eq!(handouts.len(), 1);
    }

    #[test]
    fn what_is_not_fetched_in_time_is_taken_back_and_the_next_is_refused() {
        let (post, _inbox) = post();
        assert!(fetch(&post, at(0)).is_pending());
        let mut answer = left(&post, at(100));
        let mut second = left(&post, at(900));
        assert_eq!(post.look_after(at(1_000)), Some(Duration::from_micros(100)));
        assert!(!is_there(&mut answer));
        assert_eq!(post.look_after(at(1_100)), None);
        assert!(is_there(&mut answer) && is_there(&mut second));
        assert!(!post.leave(&mut vec![handout().0], at(1_200)));
        // It comes after all, finds nothing, and is called again next time.
        assert!(fetch(&post, at(5_000)).is_pending());
        left(&post, at(6_000));
    }

    #[test]
    fn users_are_heard_although_the_porter_does_not_come_back() {
        let (post, inbox) = post();
        assert!(fetch(&post, at(0)).is_pending());
        left(&post, at(0));
        assert!(fetch(&post, at(10)).is_ready());
        inbox.push(Order::Tell(Input::Tick));
        let mut heard = Box::pin(inbox.wait());
        let mut is_heard =
            || heard.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_heard());
        assert_eq!(post.look_after(at(1_010)), None);
        assert!(is_heard());
    }

    #[tokio::test]
    async fn users_are_heard_again_when_everything_is_handed_out() {
        let inbox = Arc::new(Inbox::default());
        let post = Post::open(&inbox, Some(&Handle::current()));
        // The porter begins.
        tokio::task::yield_now().await;
        let answer = left(&post, BootTime::now());
        assert_eq!(answer.await, Ok(Ok(Released::InTime)));
        inbox.push(Order::Tell(Input::Tick));
        inbox.wait().await;
    }

    #[test]
    fn at_its_end_nobody_is_left_without_an_answer() {
        for is_closed in [true, false] {
            let (post, _inbox) = post();
            let porter = OnDuty(Arc::clone(&post));
            assert!(fetch(&post, at(0)).is_pending());
            let mut answer = left(&post, at(0));
            if is_closed {
                post.close();
                assert!(matches!(fetch(&post, at(1)), Poll::Ready(None)));
            } else {
                drop(porter);
            }
            assert!(is_there(&mut answer), "closed: {is_closed}");
            assert!(!post.leave(&mut vec![handout().0], at(2)));
        }
    }
}
