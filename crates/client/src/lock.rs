//! Acquiring locks.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use crate::core::{Input, LockSpec, Mode, OpId, Place, Wait};
use crate::error::Error;
use crate::guard::Guard;
use crate::shell::{Order, Reply, Shell};

/// How long a lease lives without a renewal, if nothing else is said.
pub const TTL_DEFAULT: Duration = Duration::from_secs(30);

/// An acquire that is being described. See [`Client::lock`](crate::Client::lock).
#[derive(Clone)]
#[must_use = "nothing is acquired until `acquire` is called and awaited"]
pub struct LockBuilder {
    shell: Arc<Shell>,
    spec: LockSpec,
    on_queued: Option<OnQueued>,
}

/// Is told how a wait stands.
type OnQueued = Arc<dyn Fn(&Place) + Send + Sync>;

impl LockBuilder {
    pub(crate) fn new(shell: Arc<Shell>, names: Arc<[String]>) -> LockBuilder {
        let spec = LockSpec { names, ttl: TTL_DEFAULT, ..LockSpec::default() };
        LockBuilder { shell, spec, on_queued: None }
    }

    /// How long the lock outlives a holder that has gone silent. Thirty seconds if not given; the
    /// service allows between half a second and a day.
    ///
    /// A short TTL makes the whole client impatient: a member that answers nothing for an eighth of
    /// the shortest TTL in use (at least 60 ms, at most 5 s) is given up for another one. The
    /// service confirms nothing faster than its disks sync and its members answer each other, so a
    /// TTL should be at least twenty times as long as that takes at bad times.
    pub fn ttl(mut self, ttl: Duration) -> LockBuilder {
        self.spec.ttl = ttl;
        self
    }

    /// Wait at most so long. Without this, an acquire waits until it is granted.
    pub fn wait(mut self, at_most: Duration) -> LockBuilder {
        self.spec.wait = if at_most.is_zero() { Wait::Try } else { Wait::AtMost(at_most) };
        self
    }

    /// Do not wait: fail with [`Error::Denied`] if somebody else has it.
    pub fn try_once(mut self) -> LockBuilder {
        self.spec.wait = Wait::Try;
        self
    }

    /// Wait until it is granted. This is so if nothing else is said.
    pub fn wait_forever(mut self) -> LockBuilder {
        self.spec.wait = Wait::Forever;
        self
    }

    /// Hold it together with everybody else who asks for it so.
    pub fn shared(mut self) -> LockBuilder {
        self.spec.mode = Mode::Shared;
        self
    }

    /// Hold one of `n` permits. Everybody must ask for the same number.
    pub fn permits(mut self, n: u32) -> LockBuilder {
        self.spec.mode = Mode::Permits(n);
        self
    }

    /// Bytes that others see beside the lock.
    pub fn metadata(mut self, metadata: impl Into<Bytes>) -> LockBuilder {
        self.spec.metadata = metadata.into();
        self
    }

    /// The value of the key that stands for this holder.
    pub fn value(mut self, value: impl Into<Bytes>) -> LockBuilder {
        self.spec.value = value.into();
        self
    }

    /// If this holder is lost, nobody gets the lock for so long.
    pub fn lock_delay(mut self, delay: Duration) -> LockBuilder {
        self.spec.lock_delay = delay;
        self
    }

    /// Holding for longer than this raises an event that watchers see.
    pub fn budget(mut self, budget: Duration) -> LockBuilder {
        self.spec.budget = budget;
        self
    }

    /// After holding for so long, the lease is no longer renewed, and the lock is lost.
    pub fn hold_max(mut self, length: Duration) -> LockBuilder {
        self.spec.hold_max = length;
        self
    }

    /// Ask for a token that a resource can check by itself, see [`Guard::signed_token`].
    ///
    /// While the member that serves this client has no key to sign with, the acquire is repeated.
    pub fn signed(mut self) -> LockBuilder {
        self.spec.signed = true;
        self
    }

    /// The same, but take the lock without it if the member cannot sign: then
    /// [`Guard::signed_token`] is `None`.
    pub fn signed_if_possible(mut self) -> LockBuilder {
        self.spec.signed_if_possible = true;
        self
    }

    /// Share the lock with every other reentrant acquire of it in this client: they get guards with
    /// the same token, and only the last one gives it back.
    ///
    /// The owner is the client, not the task: two tasks that both ask so do not exclude each other.
    pub fn reentrant(mut self) -> LockBuilder {
        self.spec.reentrant = true;
        self
    }

    /// How long work may go on without a confirmed renewal; half the TTL if not given. When it is
    /// over the guard is lost, and what is left of the TTL is there to stop the work in.
    ///
    /// More than the TTL allows for has no effect.
    pub fn safety_window(mut self, window: Duration) -> LockBuilder {
        self.spec.safety_window = Some(window);
        self
    }

    /// Calls this with the place in the queue, and who holds the lock, when the wait begins and
    /// whenever that was found to have changed.
    ///
    /// It is called by whoever polls the acquire. The service looks a few times a second, and less
    /// often if very many wait; a place that has changed again meanwhile is left out.
    pub fn on_queued(mut self, tell: impl Fn(&Place) + Send + Sync + 'static) -> LockBuilder {
        self.on_queued = Some(Arc::new(tell));
        self
    }

    /// Acquires the lock.
    ///
    /// Acquires of one name on one client are granted in the order in which this was first polled.
    /// Dropping the future gives up the place in the queue; if the lock was granted in that very
    /// moment, it is given back.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] and [`Error::Denied`] if it was not to be had; [`Error::LeaseLost`] if the
    /// service was out of reach for so long that the place in the queue was lost;
    /// [`Error::Indeterminate`] if it is not known whether it was granted, in which case it ends with
    /// its TTL; others as their texts say. After any but the last one, nothing is held.
    pub async fn acquire(self) -> Result<Guard, Error> {
        let op = self.shell.next_op();
        let mut pending = Pending { shell: &self.shell, op, is_open: true };
        let input = Input::Acquire(op, Arc::new(self.spec));
        let outcome = match self.on_queued {
            Some(tell) => {
                let (places, moves) = watch::channel(Place::default());
                let asked = self.shell.ask(op, input, |to| Reply::Acquired(to, Some(places)));
                tell_until(&*tell, moves, asked).await
            }
            None => self.shell.ask(op, input, |to| Reply::Acquired(to, None)).await,
        };
        pending.is_open = false;
        drop(pending);
        let granted = outcome?.take();
        let (held, state) = granted.ok_or_else(|| Error::protocol("the grant was taken before"))?;
        Ok(Guard::new(self.shell, *held, state))
    }
}

/// Tells how the wait stands until it is over.
async fn tell_until<T>(
    tell: &(dyn Fn(&Place) + Send + Sync),
    mut moves: watch::Receiver<Place>,
    asked: impl Future<Output = T>,
) -> T {
    let mut asked = pin!(asked);
    loop {
        tokio::select! {
            biased;
            outcome = &mut asked => return outcome,
            Ok(()) = moves.changed() => tell(&moves.borrow_and_update()),
        }
    }
}

/// An acquire that somebody waits for.
struct Pending<'a> {
    shell: &'a Shell,
    op: OpId,
    is_open: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.shell.order(Order::Tell(Input::Abandon(self.op)));
        }
    }
}

impl fmt::Debug for LockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockBuilder").field("spec", &self.spec).finish_non_exhaustive()
    }
}
