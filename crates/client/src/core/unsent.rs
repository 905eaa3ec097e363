//! Requests that are to be sent, in the order in which they were made.
//!
//! New ones come to the end. One that is sent again comes to the place that it has by its age, which
//! costs more, and is rare.

use std::collections::VecDeque;

use super::requests::TicketId;

#[derive(Debug, Default)]
pub(super) struct Unsent(VecDeque<TicketId>);

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a request into its place. One that stands there already stays.
    pub(super) fn insert(&mut self, id: TicketId) {
        if self.0.back().is_none_or(|&last| last < id) {
            self.0.push_back(id);
        } else if let Err(at) = self.0.binary_search(&id) {
            self.0.insert(at, id);
        }
    }

    pub(super) fn remove(&mut self, id: TicketId) {
        if let Ok(at) = self.0.binary_search(&id) {
            self.0.remove(at);
        }
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<TicketId> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_only_once() {
        let mut unsent = Unsent::default();
        for number in [3, 5, 1, 5, 4, 2, 3] {
            unsent.insert(TicketId(number));
        }
        unsent.remove(TicketId(4));
        unsent.remove(TicketId(9));
        let order: Vec<u64> = std::iter::from_fn(|| unsent.pop()).map(|id| id.0).collect();
        assert_eq!(order, [1, 2, 3, 5]);
        assert!(unsent.is_empty());
    }
}
