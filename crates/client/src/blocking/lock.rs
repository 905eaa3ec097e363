//! Locks, for threads.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;

use super::block_on;
use crate::core::{Loss, Place, Released};
use crate::error::Error;

/// An acquire that is being described. See [`crate::LockBuilder`], which has the same methods.
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired until `acquire` is called"]
pub struct LockBuilder {
    inner: crate::LockBuilder,
}

impl LockBuilder {
    pub(super) fn new(inner: crate::LockBuilder) -> LockBuilder {
        LockBuilder { inner }
    }

    fn map(self, change: impl FnOnce(crate::LockBuilder) -> crate::LockBuilder) -> LockBuilder {
        LockBuilder { inner: change(self.inner) }
    }

    /// As [`crate::LockBuilder::ttl`].
    pub fn ttl(self, ttl: Duration) -> LockBuilder {
        self.map(|lock| lock.ttl(ttl))
    }

    /// As [`crate::LockBuilder::wait`].
    pub fn wait(self, at_most: Duration) -> LockBuilder {
        self.map(|lock| lock.wait(at_most))
    }

    /// As [`crate::LockBuilder::try_once`].
    pub fn try_once(self) -> LockBuilder {
        self.map(crate::LockBuilder::try_once)
    }

    /// As [`crate::LockBuilder::wait_forever`].
    pub fn wait_forever(self) -> LockBuilder {
        self.map(crate::LockBuilder::wait_forever)
    }

    /// As [`crate::LockBuilder::shared`].
    pub fn shared(self) -> LockBuilder {
        self.map(crate::LockBuilder::shared)
    }

    /// As [`crate::LockBuilder::permits`].
    pub fn permits(self, n: u32) -> LockBuilder {
        self.map(|lock| lock.permits(n))
    }

    /// As [`crate::LockBuilder::metadata`].
    pub fn metadata(self, metadata: impl Into<Bytes>) -> LockBuilder {
        self.map(|lock| lock.metadata(metadata))
    }

    /// As [`crate::LockBuilder::value`].
    pub fn value(self, value: impl Into<Bytes>) -> LockBuilder {
        self.map(|lock| lock.value(value))
    }

    /// As [`crate::LockBuilder::lock_delay`].
    pub fn lock_delay(self, delay: Duration) -> LockBuilder {
        self.map(|lock| lock.lock_delay(delay))
    }

    /// As [`crate::LockBuilder::budget`].
    pub fn budget(self, budget: Duration) -> LockBuilder {
        self.map(|lock| lock.budget(budget))
    }

    /// As [`crate::LockBuilder::hold_max`].
    pub fn hold_max(self, length: Duration) -> LockBuilder {
        self.map(|lock| lock.hold_max(length))
    }

    /// As [`crate::LockBuilder::signed_if_possible`].
    pub fn signed_if_possible(self) -> LockBuilder {
        self.map(crate::LockBuilder::signed_if_possible)
    }

    /// As [`crate::LockBuilder::signed`].
    pub fn signed(self) -> LockBuilder {
        self.map(crate::LockBuilder::signed)
    }

    /// As [`crate::LockBuilder::reentrant`].
    pub fn reentrant(self) -> LockBuilder {
        self.map(crate::LockBuilder::reentrant)
    }

    /// As [`crate::LockBuilder::safety_window`].
    pub fn safety_window(self, window: Duration) -> LockBuilder {
        self.map(|lock| lock.safety_window(window))
    }

    /// As [`crate::LockBuilder::on_queued`]. It is called on the thread that waits.
    pub fn on_queued(self, tell: impl Fn(&Place) + Send + Sync + 'static) -> LockBuilder {
        self.map(|lock| lock.on_queued(tell))
    }

    /// As [`crate::LockBuilder::acquire`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn acquire(self) -> Result<Guard, Error> {
        Ok(Guard { inner: block_on(self.inner.acquire())? })
    }
}

/// A lock that is held. Has everything that [`crate::Guard`] has, and waits by blocking.
#[derive(Debug)]
#[must_use = "dropping the guard gives the lock back"]
pub struct Guard {
    inner: crate::Guard,
}

impl Guard {
    /// Blocks until the lock is lost.
    pub fn wait_lost(&self) -> Loss {
        block_on(self.inner.lost())
    }

    /// As [`crate::Guard::release`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn release(self) -> Result<Released, Error> {
        block_on(self.inner.release())
    }
}

impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        &self.inner
    }
}
