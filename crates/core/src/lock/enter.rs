//! A key takes its place in a queue.

use alloc::collections::btree_map::Entry;

use crate::ids::{Key, LockName};
use crate::lock::Queue;
use crate::mutant::Mutant;
use crate::record::Record;
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    /// Puts a new key into its queue. Whether it is granted is decided when the step settles.
    pub(crate) fn enter(&mut self, name: LockName, key: &Key, record: &Record) {
        let first_waiting = match self.state.locks.entry(name.clone()) {
            Entry::Vacant(place) => {
                place.insert(Queue::One(key.clone()));
                self.passed_on |= self.emptied;
                true
            }
            Entry::Occupied(mut place) => place.get_mut().join(key, record, &self.state.keys),
        };
        if first_waiting || self.state.mutant(Mutant::PermitOvertakes) {
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
