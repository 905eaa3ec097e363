//! Watches, for threads.

use super::block_on;
use crate::error::Error;
use crate::proto::Event;

/// Events, one by one: an iterator that blocks. See [`crate::Watch`].
#[derive(Debug)]
#[must_use = "a watch tells nothing until it is asked"]
pub struct Watch {
    inner: crate::Watch,
}

impl Watch {
    pub(super) fn new(inner: crate::Watch) -> Watch {
        Watch { inner }
    }

    /// As [`crate::Watch::from`].
    pub fn from(self, revision: i64) -> Watch {
        Watch { inner: self.inner.from(revision) }
    }

    /// As [`crate::Watch::prev_kv`].
    pub fn prev_kv(self) -> Watch {
        Watch { inner: self.inner.prev_kv() }
    }

    /// As [`crate::Watch::lock_events`].
    pub fn lock_events(self) -> Watch {
        Watch { inner: self.inner.lock_events() }
    }

    /// As [`crate::Watch::started`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn started(&mut self) -> Result<i64, Error> {
        block_on(self.inner.started())
    }
}

impl Iterator for Watch {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.inner.next())
    }
}
