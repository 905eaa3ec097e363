//! What the commands on locks do, in terms of the model's lists.

use fencepost_core::command::{
    Acquire, AcquireAs, AcquireMany, Action, Caller, Cancel, CancelTarget, ForceRelease, LeaseRef,
    Mode, RenewAs, RenewHeld, Wait,
};
use fencepost_core::{ClientId, LeaseId, LockName};

use super::keys::{key, text, utf8};
use super::{Answer, Item, Lease, Model, NEVER, Told, fits};

const CANCELLED: &str = "ended Cancelled";

impl Model {
    pub(super) fn act(&mut self, action: &Action) -> Told {
        match action {
            Action::LeaseGrant(one) => self.grant(one.id.0, one.ttl.0),
            Action::LeaseRenew(one) => self.renew(one),
            Action::LeaseRevoke(one) => self.revoke(one),
            Action::Put(put) => {
                self.check_put(put)?;
                self.put(put);
                text("put")
            }
            Action::DeleteRange(one) => self.delete(&one.range),
            Action::Txn(txn) => self.txn(txn),
            Action::Acquire(one) => self.acquire_one(one),
            Action::AcquireMany(one) => self.acquire_many(one),
            Action::Cancel(one) => self.cancel(one),
            Action::Release(one) => {
                self.check(one.lease)?;
                self.release(std::slice::from_ref(&one.name), one.lease.id.0, one.token.0)
            }
            Action::ReleaseMany(one) => {
                self.check(one.lease)?;
                self.release(&one.names, one.lease.id.0, one.token.0)
            }
            Action::ForceRelease(one) => self.force(one),
            Action::DeleteLock(one) if self.queue(&utf8(&one.name)).is_empty() => text("done"),
            Action::DeleteLock(_) => Err("lock_in_use".into()),
            Action::AcquireAs(one) => self.acquire_as(one),
            Action::RenewAs(one) => self.renew_as(one, None),
            Action::RenewHeld(one) => {
                let RenewHeld { name, client, ttl, token } = one.clone();
                self.renew_as(&RenewAs { name, client, ttl }, Some(token.0))
            }
            Action::ReleaseAs(one) => self.release_as(&one.name, &one.client, None),
            Action::ReleaseHeld(one) => self.release_as(&one.name, &one.client, Some(one.token.0)),
            other => unreachable!("the model does not cover {other:?}"),
        }
    }

    fn acquire_one(&mut self, acquire: &Acquire) -> Told {
        self.check_own(acquire.lease)?;
        let (lock, lease) = (utf8(&acquire.name), acquire.lease.id.0);
        let key = key(&lock, lease);
        match self.item(&key).cloned() {
            None => self.join(vec![(lock, acquire.mode)], lease, acquire.wait, false),
            Some(item) if item.foreign => Err("place_taken".into()),
            Some(item) if item.mode != acquire.mode => Err("mode_conflict".into()),
            Some(item) => self.join_again(&item, 0, acquire.wait),
        }
    }

    /// A lease that was made for an owner's lock takes no others.
    fn check_own(&mut self, meant: LeaseRef) -> Result<(), String> {
        self.check(meant)?;
        let sole = self.lease(meant.id.0).is_some_and(|one| one.sole.is_some());
        if sole { Err("lease_for_one_lock".into()) } else { Ok(()) }
    }

    /// The same lease asks for the same lock again: it has its place already.
    fn join_again(&mut self, item: &Item, ttl: u64, wait: Wait) -> Told {
        if item.held {
            self.extend(item.lease, ttl);
            return text(format!("held again {}", item.created));
        }
        if wait.is_try() {
            return text("denied");
        }
        // The place is kept for the most patient of those who wait on it.
        let until = self.until(wait);
        let place = self.item(&item.key).expect("it stands there");
        place.wait_until = place.wait_until.max(until);
        Ok(Answer::Place(item.key.clone(), item.created))
    }

    fn acquire_many(&mut self, acquire: &AcquireMany) -> Told {
        self.check_own(acquire.lease)?;
        let lease = acquire.lease.id.0;
        let locks: Vec<_> = acquire.locks.iter().map(|(name, mode)| (utf8(name), *mode)).collect();
        for (lock, _) in &locks {
            if let Some(item) = self.item(&key(lock, lease)) {
                return Err(if item.foreign { "place_taken" } else { "already_queued" }.into());
            }
        }
        self.join(locks, lease, acquire.wait, true)
    }

    fn join(&mut self, locks: Vec<(String, Mode)>, lease: i64, wait: Wait, grouped: bool) -> Told {
        for (lock, mode) in &locks {
            let mut contenders = self.queue(lock).into_iter().filter(|one| !one.foreign);
            let counts = |one: Mode| matches!(one, Mode::Permit(_));
            if counts(*mode) && contenders.any(|one| counts(one.mode) && one.mode != *mode) {
                return Err("permits_conflict".into());
            }
        }
        let free = locks.iter().all(|(lock, mode)| fits(&self.queue(lock), *mode));
        if wait.is_try() && !free {
            return text("denied");
        }
        let mut place = Answer::Text(String::new());
        for (lock, mode) in &locks {
            let key = key(lock, lease);
            let created = self.create(&key, lease, *mode, wait, grouped);
            place = Answer::Place(if grouped { String::new() } else { key }, created);
        }
        Ok(place)
    }

    fn owner(&self, client: &str, lock: &str) -> Option<i64> {
        let sole = Some((client.to_string(), lock.to_string()));
        self.leases.iter().find(|one| one.sole == sole).map(|one| one.id)
    }

    fn acquire_as(&mut self, acquire: &AcquireAs) -> Told {
        let lock = utf8(&acquire.name);
        if let Some(lease) = self.owner(acquire.client.as_str(), &lock) {
            let item = self.item(&key(&lock, lease)).cloned().expect("the lease lives with it");
            return self.join_again(&item, acquire.ttl.0, acquire.wait);
        }
        if acquire.wait.is_try() && !fits(&self.queue(&lock), Mode::Exclusive) {
            return text("denied");
        }
        let id = self.choose_id(&lock);
        self.last_epoch += 1;
        let (epoch, ttl) = (self.last_epoch, acquire.ttl.0);
        let sole = Some((acquire.client.as_str().into(), lock.clone()));
        self.leases.push(Lease { id, epoch, ttl, deadline: NEVER, sole });
        self.join(vec![(lock, Mode::Exclusive)], id, acquire.wait, false)
    }

    fn release_as(&mut self, name: &[u8], client: &ClientId, token: Option<u64>) -> Told {
        let lock = utf8(name);
        let Some(lease) = self.owner(client.as_str(), &lock) else {
            return text(if self.queue(&lock).is_empty() { "not found" } else { "denied" });
        };
        let item = self.item(&key(&lock, lease)).cloned().expect("the lease lives with it");
        if token.is_some_and(|token| token != item.created) {
            return Err(if item.held { "token_mismatch" } else { "not_holder" }.into());
        }
        self.remove(&item.key, "Cancelled", "Cancelled");
        text("released")
    }

    fn renew_as(&mut self, renew: &RenewAs, token: Option<u64>) -> Told {
        let lock = utf8(&renew.name);
        let Some(lease) = self.owner(renew.client.as_str(), &lock) else {
            return text(if self.queue(&lock).is_empty() { "not found" } else { "denied" });
        };
        let item = self.item(&key(&lock, lease)).cloned().expect("the lease lives with it");
        if item.held && token.is_some_and(|token| token != item.created) {
            return Err("token_mismatch".into());
        }
        self.join_again(&item, renew.ttl.0, Wait::Try)
    }

    fn cancel(&mut self, cancel: &Cancel) -> Told {
        self.check(cancel.lease)?;
        let lease = cancel.lease.id;
        let (seq, wanted, created) = match &cancel.target {
            CancelTarget::Contender(name, token) => (0, key(&utf8(name), lease.0), token.0),
            CancelTarget::Call(..) => unreachable!("calls are left out"),
            CancelTarget::Seq(seq) => {
                self.check_own(cancel.lease)?;
                let window = self.window(&Caller::Lease(lease));
                let (floor, answers) = window.map_or((0, Vec::new()), |one| (one.1, one.2.clone()));
                if seq.0 < floor {
                    return Err("seq_too_old".into());
                }
                match answers.into_iter().find(|one| one.0 == seq.0) {
                    Some((_, Answer::Place(key, created))) => (seq.0, key, created),
                    Some(_) => return text("not found"),
                    None => return self.cancelled(lease, seq.0, Answer::Ahead),
                }
            }
        };
        let meant = |one: &&Item| {
            let named = one.key == wanted || wanted.is_empty() && one.lease == lease.0;
            !one.foreign && one.created == created && named
        };
        let keys: Vec<_> = self.items.iter().filter(meant).map(|one| one.key.clone()).collect();
        keys.iter().for_each(|key| self.remove(key, "Cancelled", "Cancelled"));
        match (keys.is_empty(), seq) {
            (true, _) => text("not found"),
            (false, 0) => text(CANCELLED),
            (false, _) => self.cancelled(lease, seq, Answer::Text(CANCELLED.into())),
        }
    }

    /// The request with this number is dead, whether it has arrived or not.
    fn cancelled(&mut self, lease: LeaseId, seq: u64, answer: Answer) -> Told {
        let by = Caller::Lease(lease);
        if self.window(&by).is_none() {
            self.windows.push((by.clone(), 0, Vec::new()));
        }
        self.keep(&by, seq, answer);
        text(CANCELLED)
    }

    fn release(&mut self, names: &[LockName], lease: i64, token: u64) -> Told {
        let mut held = Vec::new();
        for name in names {
            let lock = utf8(name);
            let empty = self.queue(&lock).is_empty();
            match self.item(&key(&lock, lease)) {
                None if empty => {}
                Some(item) if item.held && item.created == token => held.push(item.key.clone()),
                Some(item) if item.held => return Err("token_mismatch".into()),
                _ => return Err("not_holder".into()),
            }
        }
        held.iter().for_each(|key| self.remove(key, "Released", "Incomplete"));
        text(if held.is_empty() { "not found" } else { "released" })
    }

    fn force(&mut self, force: &ForceRelease) -> Told {
        let queue = self.queue(&utf8(&force.name));
        let holders: Vec<_> = queue.into_iter().filter(|one| one.held).cloned().collect();
        let Some(item) = holders.iter().find(|one| one.created == force.token.0) else {
            return if holders.is_empty() {
                text("not found")
            } else {
                Err("token_mismatch".into())
            };
        };
        let deadline = self.lease(item.lease).map_or(0, |one| one.deadline);
        let until = item.forced.min(deadline);
        if force.now || until <= self.now {
            self.remove(&item.key, "Forced", "Incomplete");
            return text("released");
        }
        self.item(&item.key).expect("it stands there").forced = until;
        text(format!("pending until {until}"))
    }
}
