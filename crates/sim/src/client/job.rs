//! What a client has set itself to do later, by its own clock.

use std::collections::BTreeMap;

use fencepost_core::{LockName, Token};
use fencepost_node::io::Micros;

use super::ops::OpNumber;
use super::{CallNumber, Request};

/// Something to do later.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// Choose something to do.
    Act,
    /// Find out whether the service serves.
    Probe,
    /// Do nothing at all for a while.
    Rest,
    /// Have a lease.
    Begin,
    /// Renew the lease.
    Renew,
    /// Renew what was acquired by owner name.
    RenewOwned(LockName, Token),
    /// A call has not been answered.
    TimeOut(CallNumber),
    /// Send a request again, as a new call.
    Again(OpNumber),
    /// Give up waiting for a lock.
    CancelWait(OpNumber),
    /// Send a copy of a request that was answered long ago.
    Copy(Box<Request>),
    /// Look whether the work must stop.
    Guard(LockName, Token),
    /// Write to the store.
    Write(LockName, Token),
    /// The work is done.
    EndHold(LockName, Token),
    /// Remove a foreign key that was put into a queue.
    RemoveForeign(LockName, i64),
}

/// Jobs in order of their times.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    jobs: BTreeMap<(u64, u64), Job>,
    count: u64,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Micros, job: Job) {
        self.count += 1;
        self.jobs.insert((at.0, self.count), job);
    }

    /// Takes out the first job that is due.
    pub(super) fn take_due(&mut self, now: Micros) -> Option<Job> {
        let (&(at, _), _) = self.jobs.first_key_value()?;
        if at > now.0 { None } else { self.jobs.pop_first().map(|(_, job)| job) }
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Job) -> bool) {
        self.jobs.retain(|_, job| keep(job));
    }

    pub(super) fn next(&self) -> Option<Micros> {
        self.jobs.first_key_value().map(|(&(at, _), _)| Micros(at))
    }
}
