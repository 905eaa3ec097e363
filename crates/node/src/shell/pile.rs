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
    waiting_for_room: usize,
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
        let state = State { items: Vec::new(), closed: false, sleeps: false, waiting_for_room: 0 };
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
        if std::mem::take(&mut state.sleeps) {
            self.some.notify_one();
        }
        true
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
            if !state.items.is_empty() {
                std::mem::swap(&mut state.items, into);
                if state.waiting_for_room > 0 {
                    self.room.notify_all();
                }
                return Taken::Some;
            }
            if state.closed {
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
        let state = self.state();
        state.items.is_empty() && state.sleeps
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
