//! What the commands on leases and keys do, in terms of the model's lists.

use fencepost_core::LeaseId;
use fencepost_core::command::{Caller, LeaseRenew, LeaseRevoke, Mode, Op, Put, Txn, Wait};
use fencepost_core::range::KeyRange;

use super::{Answer, Item, Lease, Model, NEVER, Told, split};

pub(super) fn text(text: impl Into<String>) -> Told {
    Ok(Answer::Text(text.into()))
}

pub(super) fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into()
}

pub(super) fn key(lock: &str, lease: i64) -> String {
    format!("{lock}/{lease:x}")
}

impl Model {
    pub(super) fn grant(&mut self, asked: i64, ttl: u64) -> Told {
        if self.lease(asked).is_some() {
            return Err("lease_exists".into());
        }
        let id = if asked == 0 { self.choose_id("") } else { asked };
        self.last_epoch += 1;
        let (epoch, deadline) = (self.last_epoch, self.now + ttl);
        self.leases.push(Lease { id, epoch, ttl, deadline, sole: None });
        text(format!("lease {id} ttl {ttl} epoch {epoch}"))
    }

    /// The next id that no lease has, and whose place in `lock` is free.
    pub(super) fn choose_id(&mut self, lock: &str) -> i64 {
        self.last_lease += 1;
        let id = self.last_lease;
        let taken = self.lease(id).is_some() || self.item(&key(lock, id)).is_some();
        if taken { self.choose_id(lock) } else { id }
    }

    pub(super) fn renew(&mut self, renew: &LeaseRenew) -> Told {
        let mut told = Vec::new();
        for one in &renew.renewals {
            let alive = self.check(one.lease).is_ok();
            let now = self.now;
            let lease = self.lease(one.lease.id.0).filter(|_| alive);
            told.push(lease.map_or("gone".into(), |lease| {
                lease.deadline = lease.deadline.max(now + lease.ttl);
                let waits = lease.deadline == NEVER;
                format!("alive for {}", if waits { lease.ttl } else { lease.deadline - now })
            }));
        }
        text(told.join(", "))
    }

    pub(super) fn revoke(&mut self, revoke: &LeaseRevoke) -> Told {
        self.check(revoke.lease)?;
        let keys = self.end_lease(revoke.lease.id.0, "Revoked");
        text(format!("revoked with {keys} keys"))
    }

    pub(super) fn end_lease(&mut self, id: i64, cause: &str) -> usize {
        let attached = self.items.iter().filter(|one| one.lease == id);
        let keys: Vec<_> = attached.map(|one| one.key.clone()).collect();
        keys.iter().for_each(|key| self.remove(key, cause, cause));
        self.leases.retain(|one| one.id != id);
        self.windows.retain(|one| one.0 != Caller::Lease(LeaseId(id)));
        keys.len()
    }

    /// Removes a key. A group that still waits goes whole, the others for a cause of their own.
    pub(super) fn remove(&mut self, key: &str, cause: &str, of_others: &str) {
        let Some(item) = self.item(key).cloned() else { return };
        self.change();
        let together = self.together(&item);
        for one in &together {
            let cause = if one.key == key { cause } else { of_others };
            if !one.held && !one.foreign {
                self.fates.push((one.key.clone(), one.created, format!("ended {cause}")));
            }
            self.items.retain(|other| other.key != one.key);
        }
        if item.grouped {
            self.fates.push((String::new(), item.created, format!("ended {cause}")));
        }
    }

    pub(super) fn create(
        &mut self,
        key: &str,
        lease: i64,
        mode: Mode,
        wait: Wait,
        grouped: bool,
    ) -> u64 {
        let created = self.change();
        let form = split(key);
        let lock = form.clone().map(|(lock, _)| lock);
        let second = self.items.iter().any(|one| one.lock == lock && one.created == created);
        let sole = self.lease(lease).and_then(|one| one.sole.clone());
        let other = sole.is_some_and(|(_, own)| lock.as_ref() != Some(&own));
        let foreign = form.is_some_and(|(_, own)| own != lease || second || other);
        let wait_until = self.until(wait);
        self.last_order += 1;
        let (order, key) = (self.last_order, key.into());
        let (held, forced) = (false, NEVER);
        self.items.push(Item {
            order,
            key,
            lock,
            lease,
            created,
            foreign,
            held,
            mode,
            grouped,
            wait_until,
            forced,
        });
        created
    }

    pub(super) fn until(&self, wait: Wait) -> u64 {
        match wait {
            Wait::AtMost(length) if !wait.is_try() => self.now + length.0,
            _ => NEVER,
        }
    }

    pub(super) fn check_put(&mut self, put: &Put) -> Result<(), String> {
        if (put.ignore_value || put.ignore_lease) && self.item(&utf8(&put.key)).is_none() {
            return Err("key_not_found".into());
        }
        if !put.lease.is_none() && self.lease(put.lease.0).is_none() {
            return Err("lease_not_found".into());
        }
        Ok(())
    }

    pub(super) fn put(&mut self, put: &Put) {
        let key = utf8(&put.key);
        let Some(mut item) = self.item(&key).cloned() else {
            self.create(&key, put.lease.0, Mode::Exclusive, Wait::WhileLeased, false);
            return;
        };
        self.change();
        if put.ignore_lease || item.lease == put.lease.0 {
            return;
        }
        // It keeps its place, but whoever is taken from its lease can never hold again.
        self.remove(&key, "Deleted", "Incomplete");
        (item.lease, item.held, item.grouped) = (put.lease.0, false, false);
        (item.wait_until, item.forced) = (NEVER, NEVER);
        item.foreign = item.lock.is_some();
        self.items.push(item);
        self.items.sort_by_key(|one| one.order);
    }

    pub(super) fn delete(&mut self, range: &KeyRange) -> Told {
        let inside = self.items.iter().filter(|one| range.contains(one.key.as_bytes()));
        let keys: Vec<_> = inside.map(|one| one.key.clone()).collect();
        keys.iter().for_each(|key| self.remove(key, "Deleted", "Incomplete"));
        text(format!("deleted {}", keys.len()))
    }

    /// Transactions whose comparisons, if any, ask that keys are not there.
    pub(super) fn txn(&mut self, txn: &Txn) -> Told {
        let mut compares = txn.compares.iter();
        let free = compares.all(|one| self.item(&utf8(one.range.start())).is_none());
        let ops = if free { &txn.success } else { &txn.failure };
        let puts = ops.iter().filter_map(|op| if let Op::Put(put) = op { Some(put) } else { None });
        puts.clone().try_for_each(|put| self.check_put(put))?;
        puts.for_each(|put| self.put(put));
        text(format!("txn {free}"))
    }
}
