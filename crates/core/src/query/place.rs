//! How one contender stands, without looking at the others in its queue.

use crate::command::Mode;
use crate::ids::{ClientId, Key, LeaseId, LockName, Millis, Token};
use crate::outcome::Place;
use crate::record::queue_form;
use crate::state::State;

/// How one contender stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its fencing token, which counts only if it holds.
    pub token: Token,
    /// Whether it holds the lock.
    pub holds: bool,
    /// How long its lease still lives.
    pub remaining: Millis,
    /// How it shares the lock.
    pub mode: Mode,
    /// The client whose lease it is.
    pub client: ClientId,
}

impl State {
    /// How a contender stands. None, if there is no contender at this key.
    pub fn standing(&self, key: &Key) -> Option<Standing> {
        let (record, contender) = self.contender_record(key)?;
        Some(Standing {
            token: record.token(),
            holds: contender.holds(),
            remaining: self.remaining(record.lease).unwrap_or_default(),
            mode: contender.mode,
            client: self.client_of(record.lease),
        })
    }

    /// Where a contender waits. None, if it does not.
    pub fn place(&self, key: &Key) -> Option<Place> {
        let (record, contender) = self.contender_record(key)?;
        let (name, _) = queue_form(key)?;
        (!contender.holds()).then(|| self.place_of(&name, key, record.spot()))
    }

    /// Whether one holds this lock alone, so that everyone else who wants it has to wait.
    pub fn is_held_alone(&self, name: &LockName) -> bool {
        let first = self.locks.get(name).map(|queue| queue.first());
        let first = first.and_then(|key| self.contender_record(key));
        first.is_some_and(|(_, contender)| contender.holds() && contender.mode == Mode::Exclusive)
    }

    /// How long a lease still lives. None, if it does not.
    pub fn remaining(&self, lease: LeaseId) -> Option<Millis> {
        let lease = self.leases.get(&lease).filter(|lease| lease.is_live(self.now))?;
        Some(lease.remaining(self.now))
    }
}
