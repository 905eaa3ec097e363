//! A key takes its place in a queue.

use alloc::collections::btree_map::Entry;

use crate::ids::{Key, LeaseId, LockName, Value};
use crate::lock::Queue;
use crate::mutant::Mutant;
use crate::record::{Contender, Record, Role, Spot};
use crate::step::Step;
use crate::timer::Timer;

/// What a step does after a key has taken its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It settles.
    Settle,
    /// It may change further queues first. They are settled in the order in which they changed.
    GoOn,
}

impl Step<'_> {
    /// Makes a contender, whose key is not there yet. Answers with its spot in the queue.
    pub(crate) fn stand(
        &mut self,
        name: LockName,
        key: Key,
        value: Value,
        lease: LeaseId,
        contender: Contender,
        then: Then,
    ) -> Spot {
        let record = self.new_record(value, lease, Role::Contender(contender));
        let spot = record.spot();
        self.enter(name, &key, &record, then);
        self.insert_record(key, record);
        spot
    }

    /// Puts a new key into its queue. Whether it is granted is decided when the step settles.
    pub(crate) fn enter(&mut self, name: LockName, key: &Key, record: &Record, then: Then) {
        let mode = record.contender().map(|contender| contender.mode);
        let mut waits = false;
        let first_waiting = match self.state.locks.entry(name.clone()) {
            Entry::Vacant(place) => {
                place.insert(Queue::One(key.clone()));
                self.passed_on |= self.emptied;
                true
            }
            Entry::Occupied(mut place) => {
                let first_waiting = place.get_mut().join(key, record, &self.state.keys);
                waits = mode.is_some_and(|mode| place.get().lets_wait(mode));
                first_waiting
            }
        };
        let nothing_to_settle = waits && then == Then::Settle;
        if (first_waiting && !nothing_to_settle) || self.state.mutant(Mutant::PermitOvertakes) {
            self.touched.push(name);
        }
        let Some(contender) = record.contender() else { return };
        self.state.timers.arm(contender.wait_until, Timer::Wait(key.clone()));
        self.bind(key, contender);
        if contender.is_grouped() {
            self.state.groups.entry(record.created).or_default().push(key.clone());
        }
        self.note_change(record.lease);
    }
}
