//! Whose turn it is at each resource.
//!
//! Guarantees: an exclusive turn is alone; the others share theirs. Turns come in the order in
//! which they were asked for. A resource that nobody uses takes no memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::token::Mode;

/// The turns of all resources.
#[derive(Debug, Default)]
pub(super) struct Turns {
    places: Mutex<HashMap<String, Arc<RwLock<()>>>>,
}

/// A turn. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    resource: String,
    kind: Option<Kind>,
}

#[derive(Debug)]
enum Kind {
    Alone { _guard: OwnedRwLockWriteGuard<()> },
    Together { _guard: OwnedRwLockReadGuard<()> },
}

impl Turns {
    /// Waits for a turn.
    pub(super) async fn take(self: &Arc<Turns>, resource: &str, mode: Mode) -> Turn {
        let place = self.guard().entry(resource.to_owned()).or_default().clone();
        // Made before waiting, so that a caller who gives up cleans up too.
        let mut turn = Turn { turns: self.clone(), resource: resource.to_owned(), kind: None };
        turn.kind = Some(match mode {
            Mode::Exclusive => Kind::Alone { _guard: place.write_owned().await },
            Mode::Shared | Mode::Permit => Kind::Together { _guard: place.read_owned().await },
        });
        turn
    }

    /// No panic happens under the guard, so a poisoned one is still whole.
    fn guard(&self) -> MutexGuard<'_, HashMap<String, Arc<RwLock<()>>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.kind = None;
        let mut places = self.turns.guard();
        // Everybody who waits or is inside has a copy, and copies are only made under this guard.
        if places.get(&self.resource).is_some_and(|place| Arc::strong_count(place) == 1) {
            places.remove(&self.resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Whether a future is done, without waiting for it.
    fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn an_exclusive_turn_is_alone_and_in_order() {
        let turns = Arc::new(Turns::default());
        let first = turns.take("a", Mode::Shared).await;
        let second = turns.take("a", Mode::Permit).await;
        let mut alone = Box::pin(turns.take("a", Mode::Exclusive));
        assert!(poll_once(alone.as_mut()).is_pending());
        let mut later = Box::pin(turns.take("a", Mode::Shared));
        assert!(poll_once(later.as_mut()).is_pending(), "nobody overtakes who waits");
        let other = turns.take("b", Mode::Exclusive).await;
        drop((first, other));
        assert!(poll_once(alone.as_mut()).is_pending());
        drop(second);
        let alone = alone.await;
        assert!(poll_once(later.as_mut()).is_pending());
        drop(alone);
        drop(later.await);
        assert!(turns.guard().is_empty(), "what nobody uses is forgotten");
    }

    #[tokio::test]
    async fn who_gives_up_leaves_nothing_behind() {
        let turns = Arc::new(Turns::default());
        let holder = turns.take("a", Mode::Exclusive).await;
        let mut waiting = Box::pin(turns.take("a", Mode::Exclusive));
        assert!(poll_once(waiting.as_mut()).is_pending());
        drop(waiting);
        drop(holder);
        assert!(turns.guard().is_empty());
    }
}
