//! Requests of one owner for one lock, one after the other.
//!
//! A connection may have many requests open, and they are proposed as they come. A release and an
//! acquire that follows it must not change places: the acquire would find the lock held, be told so,
//! and lose it to the release. So each request for a lock by an owner waits until the one before it
//! was answered by the log. It does not wait for a grant: a release ends the wait of an acquire.

use std::collections::BTreeMap;

use fencepost_core::{ClientId, LockName};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// The last request for each lock by each owner on one connection.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: BTreeMap<(LockName, ClientId), oneshot::Receiver<()>>,
    /// How many are kept before those that are over are looked for.
    sweep_at: usize,
}

/// A request's turn. It ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    before: Option<oneshot::Receiver<()>>,
    _over: Option<oneshot::Sender<()>>,
}

/// Fewer are not worth a search.
const SWEEP_MIN: usize = 64;

impl Turns {
    /// The turn of the next request. At most twice as many are kept as are open.
    pub(crate) fn next(&mut self, pair: (LockName, ClientId)) -> Turn {
        if self.last.len() >= self.sweep_at {
            self.last.retain(|_, last| last.try_recv() == Err(TryRecvError::Empty));
            self.sweep_at = (2 * self.last.len()).max(SWEEP_MIN);
        }
        let (over, is_over) = oneshot::channel();
        Turn { before: self.last.insert(pair, is_over), _over: Some(over) }
    }
}

impl Turn {
    /// Waits until the request before this one was answered.
    pub(crate) async fn comes(&mut self) {
        if let Some(before) = self.before.take() {
            // It says so by being dropped.
            drop(before.await);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn pair(name: &str) -> (LockName, ClientId) {
        (LockName::from(name), ClientId::from("c"))
    }

    #[tokio::test]
    async fn a_turn_comes_when_the_one_before_is_over() {
        let mut turns = Turns::default();
        let (mut one, mut two) = (turns.next(pair("a")), turns.next(pair("a")));
        let mut other = turns.next(pair("b"));
        one.comes().await;
        other.comes().await;
        let mut waits = pin!(two.comes());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending(), "it does not wait for the first");
        drop(one);
        assert!(waits.poll(&mut context).is_ready(), "the first is over");
    }

    #[test]
    fn those_that_are_over_are_forgotten() {
        let mut turns = Turns::default();
        let open: Vec<Turn> = (0..10).map(|one| turns.next(pair(&one.to_string()))).collect();
        for one in 0..10_000 {
            drop(turns.next(pair(&format!("x{one}"))));
            assert!(turns.last.len() <= SWEEP_MIN + open.len(), "{}", turns.last.len());
        }
        for one in 0..10 {
            assert!(turns.last.contains_key(&pair(&one.to_string())));
        }
    }
}
