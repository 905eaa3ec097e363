//! How much there is of everything, for gauges.

use crate::lock::Queue;
use crate::state::State;

/// How much the state holds. Costs nothing to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Locks that somebody holds or wants.
    pub locks: usize,
    /// Leases, also those that are due and not removed yet.
    pub leases: usize,
    /// Clients that are remembered.
    pub clients: usize,
    /// Keys, those of contenders included.
    pub keys: usize,
    /// Bytes by the state's own account.
    pub bytes: u64,
    /// Bytes that it may take; zero for no bound.
    pub quota: u64,
}

/// Who stands in all queues together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// Those who hold.
    pub holders: usize,
    /// Those who wait.
    pub waiters: usize,
}

impl Sizes {
    /// How much there is of all of it together.
    pub fn sum(&self) -> usize {
        self.locks + self.leases + self.clients + self.keys
    }
}

impl State {
    /// How much there is of everything.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            locks: self.locks.len(),
            leases: self.leases.len(),
            clients: self.clients.len(),
            keys: self.keys.len(),
            bytes: self.used_bytes(),
            quota: self.quota.bytes,
        }
    }

    /// Counts those who hold and those who wait. Looks at every lock once, so it is for a
    /// beginning; from there on events tell what changes.
    pub fn crowd(&self) -> Crowd {
        let mut crowd = Crowd::default();
        for queue in self.locks.values() {
            let (held, foreign) = self.counted(queue);
            crowd.holders += held;
            crowd.waiters += queue.len() - held - foreign;
        }
        crowd
    }

    /// How many of a queue hold, and how many are no contenders.
    pub(crate) fn counted(&self, queue: &Queue) -> (usize, usize) {
        match queue {
            Queue::One(key) => match self.keys[key].contender() {
                Some(contender) => (usize::from(contender.holds()), 0),
                None => (0, 1),
            },
            Queue::Many(many) => (many.held(), many.foreign()),
        }
    }
}
