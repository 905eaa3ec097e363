//! Acquires in the model: who stands where, and who holds.

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_acquired::State;
use fencepost_proto::v1::session_response::Response;

use super::store::{Kept, Mistake, Store, micros, millis, refusal};

/// One acquire, in the queues of all its names.
pub(crate) struct Claim {
    pub(crate) lease: i64,
    pub(crate) seq: u64,
    pub(crate) names: Vec<String>,
    pub(crate) mode: i32,
    pub(crate) permits: u32,
    pub(crate) token: i64,
    pub(crate) is_granted: bool,
    pub(crate) wait_until: u64,
    /// An operator has asked for it: until when it may be kept.
    pub(crate) forced_at: u64,
    pub(crate) metadata: bytes::Bytes,
    pub(crate) signed: bool,
    /// Who is to be told: streams and requests.
    pub(crate) attached: Vec<(u64, u64)>,
}

impl Claim {
    pub(crate) fn ends_at(&self) -> u64 {
        if self.is_granted { self.forced_at } else { self.wait_until }
    }

    fn room(&self) -> usize {
        match self.mode {
            0 => 1,
            1 => usize::MAX,
            _ => self.permits as usize,
        }
    }
}

pub(crate) fn key_of(name: &str, lease: i64) -> String {
    format!("{name}/{lease:x}")
}

impl Store {
    pub(crate) fn acquire(
        &mut self,
        ask: &pb::SessionAcquire,
        seq: u64,
        to: (u64, u64),
    ) -> Result<(), pb::Failure> {
        self.live(ask.lease_id, ask.lease_epoch)?;
        if ask.locks.is_empty() {
            return Err(refusal("names_empty"));
        }
        if ask.locks.iter().any(|lock| lock.name.is_empty()) {
            return Err(refusal("name_empty"));
        }
        let names: Vec<String> = ask.locks.iter().map(|lock| lock.name.clone()).collect();
        let stands = |name: &String| {
            let queue = self.queues.get(name).map_or(&[][..], Vec::as_slice);
            queue.iter().any(|claim| self.claims[claim].lease == ask.lease_id)
        };
        if names.iter().any(stands) {
            return Err(refusal("already_queued"));
        }
        self.claims_made += 1;
        let id = self.claims_made;
        let (mode, permits) = (ask.locks[0].mode, ask.locks[0].permits);
        let wait_until = match ask.timeout_ms {
            ms if ms < 0 => u64::MAX,
            ms => self.now + micros(ms),
        };
        let claim = Claim {
            lease: ask.lease_id,
            seq,
            names: names.clone(),
            mode,
            permits,
            token: self.revision + 1,
            is_granted: false,
            wait_until,
            forced_at: u64::MAX,
            metadata: ask.metadata.clone(),
            signed: ask.signed,
            attached: vec![to],
        };
        self.claims.insert(id, claim);
        for name in &names {
            self.queues.entry(name.clone()).or_default().push(id);
        }
        if ask.timeout_ms == 0 && !self.can_grant(id) {
            let holder = self.holder_of(&names[0]);
            self.unqueue(id);
            self.claims.remove(&id);
            self.keep(ask.lease_id, seq, Kept::Final(denied(holder.clone())));
            self.send(to.0, to.1, denied(holder));
            return Ok(());
        }
        self.revision += 1;
        let value = ask.terms.as_ref().map(|terms| terms.value.clone()).unwrap_or_default();
        for name in &names {
            self.write_key(&key_of(name, ask.lease_id), value.clone(), ask.lease_id);
            self.note_change(ask.lease_id);
        }
        self.keep(ask.lease_id, seq, Kept::Waits(id));
        self.settle();
        if self.claims.get(&id).is_some_and(|claim| !claim.is_granted) {
            let place = self.place(id);
            self.send(to.0, to.1, place);
        }
        Ok(())
    }

    /// A repeat of an acquire that is known already.
    pub(crate) fn acquire_again(&mut self, kept: Kept, to: (u64, u64)) {
        match kept {
            Kept::Final(response) | Kept::Granted(_, response) => self.send(to.0, to.1, response),
            Kept::Waits(id) => {
                if let Some(claim) = self.claims.get_mut(&id) {
                    claim.attached.push(to);
                    let place = self.place(id);
                    self.send(to.0, to.1, place);
                }
            }
        }
    }

    pub(crate) fn keep(&mut self, lease: i64, seq: u64, kept: Kept) {
        if let Some(lease) = self.leases.get_mut(&lease)
            && seq > 0
        {
            lease.window.answers.insert(seq, kept);
        }
    }

    fn place(&self, id: u64) -> Response {
        let claim = &self.claims[&id];
        let queue = &self.queues[&claim.names[0]];
        let at = queue.iter().position(|&one| one == id).unwrap_or(0);
        let waiting = queue[..at].iter().filter(|one| !self.claims[one].is_granted).count();
        Response::Acquired(pb::SessionAcquired {
            state: State::Queued.into(),
            position: waiting as u64 + 1,
            holder: self.holder_of(&claim.names[0]),
            ..Default::default()
        })
    }

    pub(crate) fn holder_of(&self, name: &str) -> String {
        let first = self.queues.get(name).and_then(|queue| queue.first());
        let lease = first.map(|claim| self.claims[claim].lease);
        lease
            .and_then(|lease| self.leases.get(&lease))
            .map_or_else(String::new, |lease| lease.client.clone())
    }

    fn can_grant(&self, id: u64) -> bool {
        let claim = &self.claims[&id];
        claim.names.iter().all(|name| {
            let queue = &self.queues[name];
            let at = queue.iter().position(|&one| one == id).unwrap_or(queue.len());
            let ahead = &queue[..at];
            let alike = ahead.iter().all(|one| {
                let one = &self.claims[one];
                one.is_granted && one.mode == claim.mode && one.permits == claim.permits
            });
            if self.mistake == Mistake::GrantsTwice && at <= 1 {
                return true;
            }
            alike && ahead.len() < claim.room()
        })
    }

    /// Grants what can be granted.
    pub(crate) fn settle(&mut self) {
        let waiting: Vec<u64> =
            self.claims.iter().filter(|(_, claim)| !claim.is_granted).map(|(&id, _)| id).collect();
        for id in waiting {
            if self.can_grant(id) {
                self.grant(id);
                self.tell_places();
            }
        }
    }

    /// Tells those who wait how they stand now.
    fn tell_places(&mut self) {
        let waiting = self.claims.iter().filter(|(_, claim)| !claim.is_granted);
        let waiting: Vec<(u64, Vec<(u64, u64)>)> =
            waiting.map(|(&id, claim)| (id, claim.attached.clone())).collect();
        for (id, attached) in waiting {
            for (stream, request) in attached {
                let place = self.place(id);
                self.send(stream, request, place);
            }
        }
    }

    fn grant(&mut self, id: u64) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        claim.is_granted = true;
        let (lease, token, seq) = (claim.lease, claim.token, claim.seq);
        let (names, attached) = (claim.names.clone(), std::mem::take(&mut claim.attached));
        let signed_token = if claim.signed { format!("signed.{token}") } else { String::new() };
        let remaining =
            millis(self.leases.get(&lease).map_or(0, |lease| lease.deadline - self.now));
        for name in &names {
            self.note_change(lease);
            self.grants.push((name.clone(), token, lease));
            self.lock_event(pb::event::Type::Granted, name, lease, token);
        }
        let response = Response::Acquired(pb::SessionAcquired {
            state: State::Acquired.into(),
            keys: names.iter().map(|name| key_of(name, lease)).collect(),
            fencing_token: token,
            remaining_ms: remaining,
            signed_token,
            ..Default::default()
        });
        self.keep(lease, seq, Kept::Granted(id, response.clone()));
        for (stream, request) in attached {
            self.send(stream, request, response.clone());
        }
    }

    fn unqueue(&mut self, id: u64) {
        for name in self.claims[&id].names.clone() {
            if let Some(queue) = self.queues.get_mut(&name) {
                queue.retain(|&one| one != id);
                if queue.is_empty() {
                    self.queues.remove(&name);
                }
            }
        }
    }

    /// Takes an acquire out of its queues, whether it waits or holds.
    pub(crate) fn remove_claim(&mut self, id: u64, cause: &str) {
        if !self.claims.contains_key(&id) {
            return;
        }
        self.unqueue(id);
        let claim = self.claims.remove(&id).expect("it is there");
        self.revision += 1;
        for name in &claim.names {
            self.note_change(claim.lease);
            self.erase_key(&key_of(name, claim.lease), cause);
        }
        if claim.is_granted {
            // These are the client's own doing.
            if !matches!(cause, "released" | "cancelled") {
                let told = pb::HoldLost {
                    name: claim.names[0].clone(),
                    lease_id: claim.lease,
                    fencing_token: claim.token,
                    cause: cause.to_owned(),
                    until_ms: 0,
                    reason: String::new(),
                };
                self.tell_holder(claim.lease, told);
            }
            return;
        }
        let ended = Response::Acquired(pb::SessionAcquired {
            state: State::Ended.into(),
            cause: cause.to_owned(),
            ..Default::default()
        });
        self.keep(claim.lease, claim.seq, Kept::Final(ended.clone()));
        for (stream, request) in claim.attached {
            self.send(stream, request, ended.clone());
        }
    }

    /// Ends an acquire by its number, also if it has not arrived yet.
    pub(crate) fn cancel(&mut self, lease: i64, seq: u64) -> Result<Response, pb::Failure> {
        let window = &self.leases[&lease].window;
        if seq < window.floor {
            return Err(refusal("seq_too_old"));
        }
        let ended = Response::Acquired(pb::SessionAcquired {
            state: State::Ended.into(),
            cause: "cancelled".to_owned(),
            ..Default::default()
        });
        match window.answers.get(&seq).cloned() {
            None => {
                self.keep(lease, seq, Kept::Final(ended.clone()));
                Ok(ended)
            }
            Some(Kept::Final(_)) => Ok(ended),
            Some(Kept::Waits(id) | Kept::Granted(id, _)) => {
                let was_there = self.claims.contains_key(&id);
                self.remove_claim(id, "cancelled");
                if was_there {
                    self.keep(lease, seq, Kept::Final(ended.clone()));
                }
                self.settle();
                Ok(ended)
            }
        }
    }

    pub(crate) fn release(&mut self, ask: &pb::SessionRelease) -> Result<Response, pb::Failure> {
        self.live(ask.lease_id, ask.lease_epoch)?;
        let own = self.claims.iter().find(|(_, claim)| {
            claim.lease == ask.lease_id && claim.names == ask.names && claim.is_granted
        });
        let Some((&id, claim)) = own else {
            return Ok(released(false));
        };
        if claim.token != ask.fencing_token {
            return Ok(released(false));
        }
        self.remove_claim(id, "released");
        self.settle();
        Ok(released(true))
    }

    /// An operator asks for a lock, or takes it at once.
    pub(crate) fn force(&mut self, name: &str, token: i64, now: bool, reason: &str) -> Option<u64> {
        let queue = self.queues.get(name)?;
        let id = *queue.iter().find(|id| self.claims[id].token == token)?;
        let claim = &self.claims[&id];
        if !claim.is_granted {
            return None;
        }
        let lease = claim.lease;
        let until = self.leases[&lease].deadline.min(claim.forced_at);
        if now {
            self.remove_claim(id, "forced");
            self.settle();
            return Some(0);
        }
        self.claims.get_mut(&id)?.forced_at = until;
        self.note_change(lease);
        let left = millis(until - self.now);
        let told = pb::HoldLost {
            name: name.to_owned(),
            lease_id: lease,
            fencing_token: token,
            cause: String::new(),
            until_ms: left.max(1),
            reason: reason.to_owned(),
        };
        self.tell_holder(lease, told);
        Some(until - self.now)
    }

    /// Somebody deletes a holder's key.
    pub(crate) fn delete_key_of(&mut self, name: &str) {
        if let Some(&id) = self.queues.get(name).and_then(|queue| queue.first()) {
            self.remove_claim(id, "deleted");
            self.settle();
        }
    }

    pub(crate) fn lock_view(&self, name: &str) -> pb::Lock {
        let queue = self.queues.get(name).map_or(&[][..], Vec::as_slice);
        let mut lock = pb::Lock { name: name.to_owned(), ..Default::default() };
        for id in queue {
            let claim = &self.claims[id];
            let lease = &self.leases[&claim.lease];
            let left = |until: u64| millis(until - self.now);
            if claim.is_granted {
                lock.mode = claim.mode;
                lock.permits = claim.permits;
                lock.holders.push(pb::Holder {
                    client_id: lease.client.clone(),
                    lease_id: claim.lease,
                    fencing_token: claim.token,
                    since_ms: 0,
                    remaining_ms: left(lease.deadline),
                    metadata: claim.metadata.clone(),
                    key: key_of(name, claim.lease),
                    until_ms: if claim.forced_at == u64::MAX {
                        0
                    } else {
                        left(claim.forced_at).max(1)
                    },
                    metadata_cut: false,
                    ..pb::Holder::default()
                });
            } else {
                lock.waiters_total += 1;
                lock.waiters.push(pb::Waiter {
                    position: lock.waiters_total,
                    client_id: lease.client.clone(),
                    lease_id: claim.lease,
                    mode: claim.mode,
                    permits: claim.permits,
                    key: key_of(name, claim.lease),
                    ..Default::default()
                });
            }
        }
        lock
    }

    /// The same, and only what concerns one lease if one is named.
    pub(crate) fn lock_part(&self, ask: &pb::GetLockRequest) -> pb::Lock {
        let mut lock = self.lock_view(&ask.name);
        if ask.lease_id != 0 {
            lock.holders.retain(|holder| holder.lease_id == ask.lease_id);
            lock.waiters.retain(|waiter| waiter.lease_id == ask.lease_id);
        }
        lock
    }

    pub(crate) fn note_change(&mut self, lease: i64) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.changes += 1;
        }
    }
}

pub(crate) fn released(released: bool) -> Response {
    Response::Released(pb::UnlockResponse { header: None, released })
}

fn denied(holder: String) -> Response {
    let state = State::Denied.into();
    Response::Acquired(pb::SessionAcquired { state, holder, ..Default::default() })
}
