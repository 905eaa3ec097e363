//! What a holder holds.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::boot_time::BootTime;
use crate::core::{Held, HoldId, Input, Loss, Released};
use crate::error::Error;
use crate::shell::{HoldState, Order, Reply, Shell};

/// A fencing token: greater than that of every earlier holder of the same lock.
///
/// A resource that refuses any token below the greatest it has seen cannot be harmed by a holder
/// that has lost the lock without knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// The number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The work was stopped because the lock was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock {name} was lost: {}", told(.loss))]
pub struct Lost {
    /// The lock.
    pub name: String,
    /// Why.
    pub loss: Loss,
}

fn told(loss: &Loss) -> String {
    match loss {
        Loss::Unconfirmed => "no renewal was confirmed in time".to_owned(),
        Loss::LeaseGone => "its lease has ended".to_owned(),
        Loss::Taken { cause } => format!("it was taken away ({cause})"),
        Loss::Asked { reason } => format!("an operator asks for it ({reason})"),
        Loss::HeldTooLong => "it was held for too long".to_owned(),
        Loss::Released => "it was released".to_owned(),
    }
}

/// A lock that is held, for as long as [`is_valid`](Guard::is_valid) says so.
///
/// It is renewed by itself. It can be lost all the same: if the service is out of reach for longer
/// than the safety window, if the machine was stopped, or if an operator takes the lock away. Then
/// the [`cancel_token`](Guard::cancel_token) is cancelled and [`lost`](Guard::lost) resolves, while
/// the service still keeps everybody else out until [`deadline`](Guard::deadline).
///
/// Dropping the guard gives the lock back without waiting for the outcome; if that does not reach
/// the service, the TTL ends it. [`release`](Guard::release) says what came of it.
#[must_use = "dropping the guard gives the lock back"]
pub struct Guard {
    shell: Arc<Shell>,
    held: Held,
    state: Arc<HoldState>,
    is_done: bool,
}

impl Guard {
    pub(crate) fn new(shell: Arc<Shell>, held: Held, state: Arc<HoldState>) -> Guard {
        Guard { shell, held, state, is_done: false }
    }

    /// The lock's name; the first one, if there are several.
    pub fn name(&self) -> &str {
        self.held.names.first().map_or("", String::as_str)
    }

    /// The names of all locks that this guard holds.
    pub fn names(&self) -> &[String] {
        &self.held.names
    }

    /// The fencing token. To be sent along with every write to the resource.
    pub fn token(&self) -> Token {
        Token(self.held.token)
    }

    /// The token in a form that a resource can check by itself, if it was
    /// [asked for](crate::LockBuilder::signed).
    pub fn signed_token(&self) -> Option<&str> {
        Some(self.held.signed_token.as_str()).filter(|token| !token.is_empty())
    }

    /// The key that stands for this holder; that of the first lock, if there are several.
    pub fn key(&self) -> &str {
        self.held.keys.first().map_or("", String::as_str)
    }

    /// The lease under which the lock is held.
    pub fn lease_id(&self) -> i64 {
        self.held.lease_id
    }

    /// The service cannot give the lock to anybody else before this moment. It moves on with every
    /// renewal, and stays where it was when the lock is lost: what is left until then is there to
    /// stop the work in.
    pub fn deadline(&self) -> BootTime {
        self.state.deadline()
    }

    /// How long it is until the [`deadline`](Guard::deadline).
    pub fn remaining(&self) -> Duration {
        self.deadline().remaining()
    }

    /// Whether the lock is held. Looks at the clock itself, so it is right even if nothing else in
    /// this process has run for a while. Once it says no, it always does.
    pub fn is_valid(&self) -> bool {
        self.state.is_valid()
    }

    /// Resolves when the lock is lost.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        let state = Arc::clone(&self.state);
        async move { state.lost().await }
    }

    /// Why the lock was lost, if it was.
    pub fn loss(&self) -> Option<Loss> {
        self.state.loss()
    }

    /// A token for the work that is done under the lock. It is cancelled when the lock is lost or
    /// released. Cancelling it does nothing to the lock.
    pub fn cancel_token(&self) -> CancellationToken {
        self.state.cancel_token()
    }

    /// Runs `work` for as long as the lock is held. If it is lost, `work` is dropped where it stands.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lock was lost before `work` was done.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        let mut work = pin!(work);
        let mut lost = pin!(self.state.lost());
        poll_fn(|context| {
            // Before every step, by the clock: the step may come after a long stop.
            if !self.state.is_valid() {
                return Poll::Ready(Err(self.why_lost()));
            }
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            lost.as_mut().poll(context).map(|_| Err(self.why_lost()))
        })
        .await
    }

    fn why_lost(&self) -> Lost {
        let loss = self.loss().unwrap_or(Loss::Unconfirmed);
        Lost { name: self.name().to_owned(), loss }
    }

    /// Gives the lock back, and says what came of it.
    ///
    /// # Errors
    ///
    /// [`Error::Indeterminate`] if the service did not confirm it in time. It is tried on, and the
    /// TTL ends the lock in any case.
    pub async fn release(mut self) -> Result<Released, Error> {
        self.is_done = true;
        let shell = Arc::clone(&self.shell);
        let op = shell.next_op();
        let input = Input::Release(self.hold(), Some(op));
        shell.ask(op, input, Reply::Released).await
    }

    fn hold(&self) -> HoldId {
        self.held.hold
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_done {
            self.shell.order(Order::Tell(Input::Release(self.hold(), None)));
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("names", &self.held.names)
            .field("token", &self.held.token)
            .field("lease_id", &self.held.lease_id)
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}
