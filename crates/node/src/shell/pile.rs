//! Things pile up, and one worker takes the whole pile.
//!
//! That is what makes batches: however many pushed while the worker was busy, it is woken once and
//! takes all of it with one swap.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::edge;

/// A bounded pile.
#[derive(Debug)]
pub struct Pile<T> {
    state: Mutex<State<T>>,
    /// Wakes the worker.
    some: Condvar,
    /// Wakes those who wait for room.
    room: Condvar,
    bound: usize,
}

#[derive(Debug)]
struct State<T> {
    items: Vec<T>,
    closed: bool,
    /// Whether the worker sleeps. A wake-up is a system call, so it is only made for a sleeper.
    sleeps: bool,
    /// Somebody does the worker's work in its place.
    is_claimed: bool,
    waiting_for_room: usize,
}

impl<T> State<T> {
    fn is_idle(&self) -> bool {
        self.items.is_empty() && self.sleeps && !self.is_claimed
    }
}

/// What a worker got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Everything that was there.
    Some,
    /// Nothing came in time.
    Nothing,
    /// Nothing is there, and nothing will come.
    Closed,
}

impl<T> Pile<T> {
    /// An empty pile. Whoever pushes waits while it has `bound` things or more.
    #[must_use]
    pub fn new(bound: usize) -> Pile<T> {
        let state = State {
            items: Vec::new(),
            closed: false,
            sleeps: false,
            is_claimed: false,
            waiting_for_room: 0,
        };
        Pile { state: Mutex::new(state), some: Condvar::new(), room: Condvar::new(), bound }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while it is held, so it is never left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts all of these on the pile, in order, and leaves `items` empty. Waits for room. `false`
    /// if the pile is closed: then they are dropped.
    pub fn push_all(&self, items: &mut Vec<T>) -> bool {
        let mut state = self.state();
        while state.items.len() >= self.bound && !state.closed {
            state.waiting_for_room += 1;
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting_for_room -= 1;
        }
        if state.closed {
            items.clear();
            return false;
        }
        state.items.append(items);
        self.wake(state);
        true
    }

    /// Wakes the worker if it sleeps and there is something for it. The pile is free by then: on a busy core
    /// the worker may run at once, and would only find out that it has to wait.
    fn wake(&self, mut state: MutexGuard<'_, State<T>>) {
        let has_work = !state.items.is_empty() && !state.is_claimed;
        let wakes = has_work && std::mem::take(&mut state.sleeps);
        drop(state);
        if wakes {
            self.some.notify_one();
        }
    }

    /// Lets the caller work in place of the worker, if that one has nothing to do. What is pushed
    /// meanwhile waits until the pile is [given back](Pile::give_back).
    pub fn claim(&self) -> bool {
        let mut state = self.state();
        let can_claim = state.is_idle() && !state.closed;
        state.is_claimed |= can_claim;
        can_claim
    }

    /// The worker works again. Only for whoever has [claimed](Pile::claim) the pile.
    pub fn give_back(&self) {
        let mut state = self.state();
        state.is_claimed = false;
        self.wake(state);
    }

    /// Puts one thing on the pile. See [`Pile::push_all`].
    pub fn push(&self, item: T) -> bool {
        self.push_all(&mut vec![item])
    }

    /// Takes everything into `into`, which should be empty. Waits until there is something, for
    /// `patience` at most.
    pub fn take(&self, into: &mut Vec<T>, patience: Option<Duration>) -> Taken {
        let until = patience.map(|patience| edge::now() + patience);
        let mut state = self.state();
        loop {
            if !state.items.is_empty() && !state.is_claimed {
                std::mem::swap(&mut state.items, into);
                if state.waiting_for_room > 0 {
                    self.room.notify_all();
                }
                return Taken::Some;
            }
            if state.closed && state.items.is_empty() {
                return Taken::Closed;
            }
            let left = until.map(|until| until.saturating_duration_since(edge::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Taken::Nothing;
            }
            state.sleeps = true;
            state = match left {
                None => self.some.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.some.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleeps = false;
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.state().items.is_empty()
    }

    /// Whether nothing waits, and the worker has nothing to do. If nobody else pushes, that stays so.
    pub fn is_idle(&self) -> bool {
        self.state().is_idle()
    }

    /// Lets nothing more onto the pile, and drops what is there.
    pub fn abandon(&self) {
        let dropped = {
            let mut state = self.state();
            state.closed = true;
            std::mem::take(&mut state.items)
        };
        self.close();
        // What is dropped may do anything, so the pile is free again by now.
        drop(dropped);
    }

    /// Lets nothing more onto the pile. What is there can still be taken.
    pub fn close(&self) {
        self.state().closed = true;
        self.some.notify_all();
        self.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_pushed_onto_a_claimed_pile_waits_until_it_is_given_back() {
        let pile = Arc::new(Pile::new(8));
        let theirs = Arc::clone(&pile);
        let worker = std::thread::spawn(move || {
            let mut taken = Vec::new();
            (theirs.take(&mut taken, None), taken)
        });
        // It can be claimed as soon as the worker sleeps.
        while !pile.claim() {
            std::thread::yield_now();
        }
        assert!(!pile.claim(), "only once");
        assert!(!pile.is_idle());
        assert!(pile.push(1) && pile.push(2));
        pile.close();
        assert!(!worker.is_finished(), "somebody else is at it");
        pile.give_back();
        assert_eq!(worker.join().expect("it ends"), (Taken::Some, vec![1, 2]));
        assert!(!pile.claim(), "nobody works for a pile that is closed");
    }
}
