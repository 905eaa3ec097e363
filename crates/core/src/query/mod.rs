//! Questions that change nothing.

mod client;
mod explain;
mod lease;
mod lock;
mod owner;
mod place;
mod sizes;

pub use client::ClientInfo;
pub use explain::{Explanation, Link, Subject, Waiting};
pub use lease::LeaseInfo;
pub use lock::{Holder, LockView, Sight, Waiter};
pub use owner::OwnedPlace;
pub use place::Standing;
pub use sizes::{Crowd, Sizes};

use crate::event::Holding;
use crate::ids::{ClientId, LeaseId, LockName};
use crate::lock::Queue;
use crate::mutant::Mutant;
use crate::state::State;

impl State {
    /// The owner of a lease; empty if it has none or is gone.
    pub(crate) fn client_of(&self, lease: LeaseId) -> ClientId {
        self.leases.get(&lease).map(|lease| lease.client.clone()).unwrap_or_default()
    }

    pub(crate) fn lease_is_live(&self, lease: LeaseId) -> bool {
        let Some(lease) = self.leases.get(&lease) else {
            return false;
        };
        lease.is_live(self.now) || self.mutant(Mutant::DueLeaseServes)
    }

    /// The first holder of a lock.
    pub(crate) fn first_holder(&self, name: &LockName, search_max: usize) -> Option<Holding> {
        let queue = self.locks.get(name)?;
        let held = match queue {
            Queue::One(_) => 1,
            Queue::Many(many) => many.held(),
        };
        // It is the first key, unless that is foreign or nobody holds.
        let keys = queue.keys().take(if held == 0 { 0 } else { search_max });
        let mut records = keys.map(|key| (key, &self.keys[key]));
        let (key, record) = records.find(|(_, record)| record.holds())?;
        Some(record.holding(key, &self.client_of(record.lease)))
    }
}
