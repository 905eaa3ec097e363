//! Writes a key.

use alloc::boxed::Box;

use crate::command::Put;
use crate::event::KeyValue;
use crate::ids::{LeaseId, Value};
use crate::outcome::{Outcome, Reason};
use crate::record::queue_form;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn put(&mut self, put: Put) -> Result<Outcome, Reason> {
        // If both are wrong, etcd names the lease here, and the key in a transaction.
        self.check_lease(put.lease)?;
        self.check_put(&put)?;
        self.state.check_put_growth(&put)?;
        Ok(Outcome::Put(self.put_checked(put)))
    }

    /// As [`Step::put`], for a caller that means a plain key and not a place in a queue.
    ///
    /// A key `NAME/<hex>` whose lease is not the one it is named after stands in the queue of lock
    /// NAME, is never granted, and blocks everyone behind it. While a client has a place there, that
    /// is a mistake. What stands there already may be written again: a holder changes its own value
    /// like this.
    pub(crate) fn put_plain(&mut self, put: Put) -> Result<Outcome, Reason> {
        if let Some((name, own)) = queue_form(&put.key)
            && self.state.has_contender(&name)
        {
            let lease = if put.ignore_lease { None } else { Some(put.lease) };
            let blocks = match self.state.keys.get(&put.key) {
                None => put.lease != own,
                Some(record) => {
                    record.contender().is_some() && lease.is_some_and(|lease| lease != record.lease)
                }
            };
            if blocks {
                return Err(Reason::KeyBlocksLock(name));
            }
        }
        self.put(put)
    }

    /// Refuses a put that names a dead lease or keeps something of a key that is not there.
    pub(crate) fn check_put(&self, put: &Put) -> Result<(), Reason> {
        if (put.ignore_value || put.ignore_lease) && !self.state.keys.contains_key(&put.key) {
            return Err(Reason::KeyNotFound);
        }
        self.check_lease(put.lease)?;
        self.state.check_lease_room(put.lease, &put.key)
    }

    fn check_lease(&self, lease: LeaseId) -> Result<(), Reason> {
        if lease != LeaseId::NONE && !self.state.lease_is_live(lease) {
            return Err(Reason::LeaseNotFound(lease));
        }
        Ok(())
    }

    /// Does a put that was checked.
    pub(crate) fn put_checked(&mut self, put: Put) -> Option<Box<KeyValue>> {
        let (mut value, mut lease): (Value, LeaseId) = (put.value, put.lease);
        if put.ignore_value || put.ignore_lease {
            // The key may have gone since it was checked, with another key of the same transaction.
            let record = self.state.keys.get(&put.key)?;
            if put.ignore_value {
                value = record.value.clone();
            }
            if put.ignore_lease {
                lease = record.lease;
            }
        }
        self.write(put.key, value, lease).filter(|_| put.prev).map(Box::new)
    }
}
