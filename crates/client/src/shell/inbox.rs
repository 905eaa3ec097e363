//! What users want of the session, on its way to the session's thread.
//!
//! Pushing never waits, so that it may be done in a destructor. The number of orders is bounded by
//! the number of calls and guards that users have: each pushes at most one for its beginning and one
//! for its end.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::reply::Order;

#[derive(Default)]
pub(crate) struct Inbox {
    orders: Mutex<Orders>,
    arrived: Notify,
}

#[derive(Default)]
struct Orders {
    list: Vec<Order>,
    /// Nobody reads it any more.
    is_closed: bool,
    /// More will follow soon, and whoever said so wakes the reader then.
    is_held: bool,
}

impl Inbox {
    /// Leaves an order. If nobody reads it any more it is dropped, and with it the sender of its
    /// reply, which is how the one who waits finds out.
    pub(crate) fn push(&self, order: Order) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if !orders.is_closed {
            orders.list.push(order);
            // Only the first one has to wake the reader: it takes all.
            if orders.list.len() == 1 && !orders.is_held {
                self.arrived.notify_one();
            }
        }
    }

    /// Wakes nobody until [`Inbox::let_go`].
    pub(super) fn hold(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).is_held = true;
    }

    /// Wakes the reader for what has come meanwhile, and for whatever comes from now on.
    pub(super) fn let_go(&self) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut orders.is_held) && !orders.list.is_empty() {
            self.arrived.notify_one();
        }
    }

    /// Takes all orders. What is given must be empty: it receives the next ones, so that the same two
    /// lists go to and fro.
    pub(super) fn swap(&self, list: &mut Vec<Order>) {
        debug_assert!(list.is_empty(), "what was taken before is done");
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut orders.list, list);
    }

    /// Whether there are orders that nobody holds back.
    pub(super) fn has_orders(&self) -> bool {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        !orders.is_held && !orders.list.is_empty()
    }

    pub(super) async fn wait(&self) {
        self.arrived.notified().await;
    }

    pub(super) fn close(&self) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.is_closed = true;
        let unread = std::mem::take(&mut orders.list);
        drop(orders);
        // What is dropped here may push again.
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Input;

    #[test]
    fn orders_that_are_held_back_are_there_when_they_are_let_go() {
        let inbox = Inbox::default();
        assert!(!inbox.has_orders());
        inbox.hold();
        inbox.push(Order::Tell(Input::Tick));
        assert!(!inbox.has_orders(), "more will follow");
        inbox.let_go();
        assert!(inbox.has_orders());
        inbox.swap(&mut Vec::new());
        assert!(!inbox.has_orders(), "they were taken");
    }
}
