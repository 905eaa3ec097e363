//! A key takes its place in a queue.

use crate::ids::{Key, LockName};
use crate::lock::{Many, Queue};
use crate::record::{Record, queue_form};
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    /// Puts a new key into its queue. Whether it is granted is decided when the step settles.
    pub(crate) fn enter(&mut self, name: LockName, key: &Key, record: &Record) {
        self.touched.push(name.clone());
        match self.state.locks.get_mut(&name) {
            None => drop(self.state.locks.insert(name, Queue::One(key.clone()))),
            Some(Queue::Many(many)) => many.insert(key.clone(), record),
            Some(queue @ Queue::One(_)) => {
                let first = queue.first().clone();
                let mut many = Many::from_one(first.clone(), &self.state.keys[&first]);
                many.insert(key.clone(), record);
                *queue = Queue::Many(many.into());
            }
        }
        let Some(contender) = record.contender() else {
            return;
        };
        self.state
            .timers
            .arm(contender.wait_until, Timer::Wait(key.clone()));
        if let Some(call) = contender.call() {
            self.state
                .calls
                .entry((call.node, call.boot))
                .or_default()
                .insert(key.clone());
        }
        if contender.is_grouped() {
            self.state
                .groups
                .entry(record.created)
                .or_default()
                .push(key.clone());
        }
        if let Some((_, lease)) = queue_form(key)
            && let Some(lease) = self.state.leases.get_mut(&lease)
        {
            lease.changes += 1;
        }
    }
}
