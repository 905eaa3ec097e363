//! Does the state agree with itself?
//!
//! Derived indexes are only as good as the discipline that keeps them. This rebuilds what can be
//! rebuilt and compares. Too slow for production, made for tests and simulations.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::{Key, LeaseId, LockName, LogTime};
use crate::lock::Queue;
use crate::record::{Contender, Record, Role, Spot, queue_form};
use crate::signing::KeyStage;
use crate::state::State;
use crate::timer::{Deadline, Timer};

type Audit = Result<(), String>;

impl State {
    /// Checks every index against what it is derived from, and says what disagrees.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_leases()?;
        self.audit_queues()?;
        self.audit_holders()?;
        self.audit_calls_and_groups()?;
        self.audit_signing_keys()?;
        self.audit_account()?;
        self.audit_timers()
    }

    /// The account of bytes and of hosts is what counting gives.
    fn audit_account(&self) -> Audit {
        let (counted, kept) = (self.counted_bytes(), (self.record_bytes, self.answer_bytes));
        if counted != kept {
            return Err(format!("bytes of records and answers: {kept:?}, counted {counted:?}"));
        }
        match self.hosts == self.counted_hosts() {
            true => Ok(()),
            false => Err(format!("clients of hosts: {:?}", self.hosts)),
        }
    }

    /// Every attached key is in its lease's set, and every lease in its client's.
    fn audit_leases(&self) -> Audit {
        for (key, record) in &self.keys {
            let Some(lease) = self.leases.get(&record.lease) else {
                if record.lease.is_none() {
                    continue;
                }
                return Err(format!(
                    "{key} is attached to lease {}, which is gone",
                    record.lease.0
                ));
            };
            if !lease.keys.contains(key) {
                return Err(format!("lease {} does not list its key {key}", record.lease.0));
            }
        }
        for (id, lease) in &self.leases {
            if let Some(key) = lease.keys.iter().find(|key| !self.attached(key, *id)) {
                return Err(format!("lease {} lists {key}, which is not attached to it", id.0));
            }
            let client = self.clients.get(&lease.client);
            if !lease.client.is_empty() && !client.is_some_and(|one| one.leases.contains(id)) {
                return Err(format!("client {} does not list its lease {}", lease.client, id.0));
            }
            if let Some(name) = &lease.sole_lock
                && self.owners.get(&(lease.client.clone(), name.clone())) != Some(id)
            {
                return Err(format!("lease {} is not listed for its owner", id.0));
            }
        }
        let sole = self.leases.values().filter(|lease| lease.sole_lock.is_some()).count();
        if sole != self.owners.len() {
            return Err(format!("{} owners for {sole} leases", self.owners.len()));
        }
        Ok(())
    }

    fn attached(&self, key: &Key, lease: LeaseId) -> bool {
        self.keys.get(key).is_some_and(|record| record.lease == lease)
    }

    /// Every key of a queue's form stands in its queue, in order, and nothing else does.
    fn audit_queues(&self) -> Audit {
        let mut expected: BTreeMap<LockName, BTreeMap<Spot, Key>> = BTreeMap::new();
        for (key, record) in &self.keys {
            match queue_form(key) {
                None if record.in_queue() => return Err(format!("{key} cannot stand in a queue")),
                None => {}
                Some(_) if !record.in_queue() => return Err(format!("{key} stands in no queue")),
                Some((name, _)) => {
                    expected.entry(name).or_default().insert(record.spot(), key.clone());
                }
            }
        }
        if !expected.keys().eq(self.locks.keys()) {
            return Err(String::from("the locks are not those that the keys make"));
        }
        for (name, queue) in &self.locks {
            if !expected[name].values().eq(queue.keys()) {
                return Err(format!("the queue of {name} is not what its keys make"));
            }
            let one = matches!(queue, Queue::One(_));
            if one != (queue.len() == 1) {
                return Err(format!("the queue of {name} has the wrong shape"));
            }
        }
        Ok(())
    }

    /// Nobody holds beside somebody incompatible, and nobody who could hold waits.
    fn audit_holders(&self) -> Audit {
        let backlog = self.timers.next().is_some_and(|next| next <= self.now);
        for (name, queue) in &self.locks {
            if !backlog && let Some(key) = self.idle_waiter(name) {
                return Err(format!("{key} could hold, and waits"));
            }
            let records: Vec<&Record> = queue.keys().map(|key| &*self.keys[key]).collect();
            let holds = records.iter().filter(|record| record.holds()).count();
            if let Queue::Many(many) = queue {
                let frontier = records.iter().find(|record| !record.holds());
                if many.held() != holds {
                    return Err(format!("{name} counts {} holders of {holds}", many.held()));
                }
                let foreign = records.iter().filter(|one| one.contender().is_none()).count();
                if many.foreign() != foreign {
                    return Err(format!("{name} counts {} foreign of {foreign}", many.foreign()));
                }
                if many.frontier().map(|(spot, _)| spot) != frontier.map(|record| record.spot()) {
                    return Err(format!("the frontier of {name} is in the wrong place"));
                }
            }
            let modes: BTreeSet<_> = records
                .iter()
                .filter_map(|record| record.contender())
                .filter(|contender| contender.holds())
                .map(|contender| contender.mode)
                .collect();
            if modes.len() > 1 || holds > modes.first().map_or(0, |mode| mode.room()) {
                return Err(format!("{holds} holders of {name} do not go together: {modes:?}"));
            }
        }
        for (key, record) in &self.keys {
            let own = queue_form(key).map(|(_, lease)| lease);
            if record.contender().is_some() && own != Some(record.lease) {
                return Err(format!("{key} contends without its own lease"));
            }
        }
        Ok(())
    }

    /// The first waiter of a lock, if it waits for nothing. Those that want several locks wait
    /// for the others.
    fn idle_waiter(&self, name: &LockName) -> Option<Key> {
        let front = self.front(name)?;
        let waits_alone = !front.record.holds() && front.record.group().is_none();
        let idle = waits_alone && self.is_grantable(name, &front);
        idle.then(|| front.key.clone())
    }

    fn audit_calls_and_groups(&self) -> Audit {
        let mut calls: BTreeMap<_, BTreeSet<Key>> = BTreeMap::new();
        let mut grouped = 0;
        for (key, record) in &self.keys {
            let Some(contender) = record.contender() else {
                continue;
            };
            if let Some(call) = contender.bound_to() {
                calls.entry((call.node, call.boot)).or_default().insert(key.clone());
            }
            if contender.is_grouped() {
                grouped += 1;
                let group = self.groups.get(&record.created);
                if !group.is_some_and(|group| group.contains(key)) {
                    return Err(format!("{key} is missing from its group"));
                }
            }
        }
        if calls != self.calls {
            return Err(String::from("the calls are not those that the contenders make"));
        }
        if grouped != self.groups.values().map(Vec::len).sum::<usize>() {
            return Err(String::from("a group lists a key that is not there"));
        }
        Ok(())
    }

    /// A member signs with one key at a time, and changes to one.
    fn audit_signing_keys(&self) -> Audit {
        let mut active = BTreeSet::new();
        let mut next = BTreeSet::new();
        for key in self.signing_keys.values() {
            let is_first = match key.stage {
                KeyStage::Active => active.insert(key.node),
                KeyStage::Next(_) => next.insert(key.node),
                KeyStage::Retired | KeyStage::Revoked => true,
            };
            if !is_first {
                return Err(format!("member {} has two keys {:?}", key.node.0, key.stage));
            }
        }
        Ok(())
    }

    /// Exactly the timers that the rest of the state asks for are armed.
    fn audit_timers(&self) -> Audit {
        let mut expected: BTreeSet<Deadline> = BTreeSet::new();
        let mut arm = |at: LogTime, timer: Timer| {
            if at != LogTime::NEVER {
                expected.insert(Deadline { at, timer });
            }
        };
        for (&id, lease) in &self.leases {
            arm(lease.deadline, Timer::Lease(id));
            arm(lease.revoke_at.unwrap_or(LogTime::NEVER), Timer::Disconnected(id));
        }
        for (id, client) in self.clients.iter().filter(|(_, client)| client.leases.is_empty()) {
            arm(client.last_seen.after(self.limits.client_kept), Timer::Client(id.clone()));
        }
        for (key, record) in &self.keys {
            if let Role::Contender(contender) = &record.role {
                arm_contender(key, contender, self.now, &mut arm);
            }
        }
        for (name, delay) in &self.delays {
            arm(delay.until, Timer::Delay(name.clone()));
        }
        for (name, floor) in &self.floors {
            arm(floor.until, Timer::Floor(name.clone()));
        }
        for (&node, &(boot, at)) in &self.lost_nodes {
            arm(at, Timer::Orphans(node, boot));
        }
        for (&key, known) in &self.signing_keys {
            if let KeyStage::Next(due) = known.stage {
                arm(due, Timer::KeyDue(key));
            }
        }
        if self.recovering_until > self.now {
            arm(self.recovering_until, Timer::Recovered);
        }
        // What is due but not ended yet may have lost its timer only by having fired.
        let missing = expected.difference(self.timers.all()).find(|one| one.at > self.now);
        if let Some(Deadline { at, timer }) = missing {
            return Err(format!("no timer at {}: {timer:?}", at.0));
        }
        let extra = self.timers.all().difference(&expected).find(|one| one.at > self.now);
        if let Some(Deadline { at, timer }) = extra {
            return Err(format!("a timer too many at {}: {timer:?}", at.0));
        }
        Ok(())
    }
}

fn arm_contender(
    key: &Key,
    contender: &Contender,
    now: LogTime,
    arm: &mut impl FnMut(LogTime, Timer),
) {
    if !contender.holds() {
        arm(contender.wait_until, Timer::Wait(key.clone()));
    }
    if let Some(until) = contender.forced() {
        arm(until, Timer::Forced(key.clone()));
    }
    if let Some(end) = contender.budget_ends().filter(|&end| end > now) {
        arm(end, Timer::Budget(key.clone()));
    }
    if let Some(end) = contender.hold_ends().filter(|&end| end > now) {
        arm(end, Timer::HoldMax(key.clone()));
    }
}
