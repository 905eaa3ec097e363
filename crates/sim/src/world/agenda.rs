//! What is to happen, in order of true time. What is planned for one moment happens in the order
//! in which it was planned, so a run has one order only.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::happening::Happening;

/// What is to happen.
#[derive(Default)]
pub(crate) struct Agenda {
    /// When, in which order, and in which slot. Kept small: a heap moves its items about.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Option<Happening>>,
    free: Vec<usize>,
    planned: u64,
}

impl Agenda {
    /// Plans something for a moment.
    pub(crate) fn plan(&mut self, at: u64, what: Happening) {
        self.planned += 1;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        self.slots[slot] = Some(what);
        self.heap.push(Reverse((at, self.planned, slot)));
    }

    /// Takes the next thing, if it happens before `end`.
    pub(crate) fn next_before(&mut self, end: u64) -> Option<(u64, Happening)> {
        let &Reverse((at, _, slot)) = self.heap.peek()?;
        if at >= end {
            return None;
        }
        self.heap.pop();
        self.free.push(slot);
        let what = self.slots[slot].take().expect("a planned slot is filled");
        Some((at, what))
    }
}
