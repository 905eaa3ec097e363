//! Byte budgets for received data that is not a complete message yet.
//!
//! Guarantees: what is charged to one connection, and to all connections of a server together, never
//! exceeds their limits. Refuses: waiting for room. Two half-sent messages that wait for each other's
//! room would wait until their deadline, so the one that does not fit is refused at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Failure, Wrong};
use crate::limits;

/// The bytes that may be charged, and those that are.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    used: AtomicUsize,
    max: usize,
    /// The budget that this one is a part of.
    whole: Option<Arc<ByteBudget>>,
}

impl ByteBudget {
    /// The budget of a server.
    pub(crate) fn for_server() -> Arc<ByteBudget> {
        ByteBudget::new(limits::UNREAD_BYTES_MAX, None)
    }

    /// The budget of one connection of that server.
    pub(crate) fn for_connection(server: &Arc<ByteBudget>) -> Arc<ByteBudget> {
        ByteBudget::new(limits::CONNECTION_UNREAD_BYTES_MAX, Some(Arc::clone(server)))
    }

    fn new(max: usize, whole: Option<Arc<ByteBudget>>) -> Arc<ByteBudget> {
        Arc::new(ByteBudget { used: AtomicUsize::new(0), max, whole })
    }

    /// How many bytes are charged.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) -> Result<(), Failure> {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let result = match &self.whole {
            _ if before.saturating_add(bytes) > self.max => {
                Err(Wrong::TooMuchOpen("bytes of unfinished messages", self.max).into())
            }
            Some(whole) => whole.add(bytes),
            None => Ok(()),
        };
        if result.is_err() {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        result
    }

    fn remove(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.remove(bytes);
        }
    }
}

/// What one unfinished message is charged. Given back on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<ByteBudget>,
    bytes: usize,
}

impl Charge {
    pub(crate) fn new(budget: &Arc<ByteBudget>) -> Charge {
        Charge { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Changes the charge to so many bytes. It stays as it was if they do not fit.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), Failure> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.budget.add(more)?,
            None => self.budget.remove(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// The same for a buffer that every connection may have: only what exceeds it is charged, so
    /// that ordinary traffic does not touch the shared counters.
    pub(crate) fn resize_beyond_free(&mut self, bytes: usize) -> Result<(), Failure> {
        self.resize(bytes.saturating_sub(limits::FREE_UNREAD_BYTES))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.remove(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_that_does_not_fit_changes_nothing() {
        let server = ByteBudget::new(100, None);
        let connection = ByteBudget::new(80, Some(Arc::clone(&server)));
        let other = ByteBudget::new(80, Some(Arc::clone(&server)));
        let (mut first, mut second) = (Charge::new(&connection), Charge::new(&other));
        first.resize(60).expect("it fits");
        first.resize(81).expect_err("more than its connection may have");
        second.resize(41).expect_err("more than the server has left");
        assert_eq!((connection.used(), other.used(), server.used()), (60, 0, 60));
        second.resize(40).expect("it fits exactly");
        first.resize(10).expect("less always fits");
        assert_eq!(server.used(), 50);
        drop((first, second));
        assert_eq!((connection.used(), other.used(), server.used()), (0, 0, 0));
    }
}
