//! What must hold, looked at after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fencepost_client::Error;
use fencepost_client::core::{Held, HoldId, LockSpec, Mode, OpId, Validity};

use super::client::Doing;
use super::{Options, World};

pub(crate) struct Check {
    in_bounds: bool,
    /// Guards that are neither lost nor given back.
    guards: BTreeMap<(usize, HoldId), Guard>,
    /// Acquires that were not answered, in the order in which they were asked for.
    open: BTreeMap<(usize, OpId), LockSpec>,
    /// Acquires that failed for certain, or were abandoned.
    failed: BTreeSet<String>,
    /// Tokens whose holder was taken out by somebody who may break promises.
    pub(crate) tampered: BTreeSet<i64>,
    given_back: BTreeSet<(usize, HoldId)>,
    abandoned: BTreeSet<(usize, OpId)>,
    highest: BTreeMap<String, i64>,
    claims_seen: u64,
    pub(crate) acquired: u64,
    pub(crate) losses: u64,
    pub(crate) moves: u64,
    /// Faults are over.
    pub(crate) only_progress: bool,
    pub(crate) acquired_in_peace: u64,
}

struct Guard {
    names: Arc<[String]>,
    mode: Mode,
    token: i64,
    validity: Validity,
}

impl Check {
    pub(crate) fn new(options: &Options) -> Check {
        Check {
            in_bounds: !options.clocks_out_of_bounds,
            guards: BTreeMap::new(),
            open: BTreeMap::new(),
            failed: BTreeSet::new(),
            tampered: BTreeSet::new(),
            given_back: BTreeSet::new(),
            abandoned: BTreeSet::new(),
            highest: BTreeMap::new(),
            claims_seen: 0,
            acquired: 0,
            losses: 0,
            moves: 0,
            only_progress: false,
            acquired_in_peace: 0,
        }
    }

    pub(crate) fn asked(&mut self, client: usize, op: OpId, spec: &LockSpec) {
        self.open.insert((client, op), spec.clone());
    }

    pub(crate) fn abandoned(&mut self, client: usize, op: OpId) {
        self.open.remove(&(client, op));
        self.abandoned.insert((client, op));
    }

    pub(crate) fn lost(&mut self, client: usize, hold: HoldId) {
        let guard = self.guards.remove(&(client, hold));
        // It may be lost in the very moment in which it is given back.
        let known = guard.is_some() || self.given_back.contains(&(client, hold));
        assert!(known, "c{client} {hold:?} was lost twice");
        self.losses += 1;
    }

    pub(crate) fn gave_back(&mut self, client: usize, hold: HoldId) {
        self.guards.remove(&(client, hold));
        self.given_back.insert((client, hold));
    }

    /// Two tasks of one client get an exclusive lock in the order in which they asked.
    fn check_order(&self, client: usize, op: OpId, spec: &LockSpec) {
        let earlier = self.open.range((client, OpId(0))..(client, op)).find(|(_, other)| {
            let exclusive = spec.mode == Mode::Exclusive && other.mode == Mode::Exclusive;
            exclusive && other.names.iter().any(|name| spec.names.contains(name))
        });
        assert!(earlier.is_none(), "c{client} {op:?} overtook {:?}", earlier.map(|(key, _)| key));
    }
}

impl World {
    pub(crate) fn check_acquired(&mut self, client: usize, op: OpId, held: &Held) {
        // A worker that has given up meanwhile still gets a guard, and drops it.
        if let Some(spec) = self.check.open.remove(&(client, op)) {
            self.check.check_order(client, op, &spec);
        }
        self.check.acquired += 1;
        self.check.acquired_in_peace += u64::from(self.check.only_progress);
        let mode = self.granted_mode(held.token);
        // One whose key was deleted, or whose clock is wrong, may hear of its grant too late.
        let is_covered = self.check.in_bounds && !self.check.tampered.contains(&held.token);
        if is_covered && mode != Some(Mode::Shared) {
            for name in held.names.iter() {
                let highest = self.check.highest.entry(name.clone()).or_default();
                assert!(held.token > *highest, "token {} of {name} after {highest}", held.token);
                *highest = held.token;
            }
        }
        let guard = Guard {
            names: Arc::clone(&held.names),
            mode: mode.unwrap_or(Mode::Exclusive),
            token: held.token,
            validity: held.validity,
        };
        self.check_exclusion(client, held.hold, &guard);
        self.check_backed(client, &guard);
        self.check.guards.insert((client, held.hold), guard);
    }

    pub(crate) fn check_extended(&mut self, client: usize, hold: HoldId, validity: Validity) {
        let Some(mut guard) = self.check.guards.remove(&(client, hold)) else { return };
        let clock = self.clients[client].clock(self.now);
        assert!(clock < guard.validity.cutoff, "a hold came back after its cutoff");
        assert!(validity.cutoff >= guard.validity.cutoff, "a cutoff went back");
        guard.validity = validity;
        self.check_exclusion(client, hold, &guard);
        self.check_backed(client, &guard);
        self.check.guards.insert((client, hold), guard);
    }

    fn granted_mode(&self, token: i64) -> Option<Mode> {
        let claim = self.server.claims.values().find(|claim| claim.token == token)?;
        Some(if claim.mode == 1 { Mode::Shared } else { Mode::Exclusive })
    }

    /// No two guards of one lock are valid at the same true time.
    fn check_exclusion(&self, client: usize, hold: HoldId, guard: &Guard) {
        if !self.check.in_bounds || self.check.tampered.contains(&guard.token) {
            return;
        }
        for (&(other_client, other_hold), other) in &self.check.guards {
            if (other_client, other_hold) == (client, hold)
                || self.check.tampered.contains(&other.token)
                || (guard.mode == Mode::Shared && other.mode == Mode::Shared)
                || !other.names.iter().any(|name| guard.names.contains(name))
            {
                continue;
            }
            let clock = self.clients[other_client].clock(self.now);
            assert!(
                clock >= other.validity.cutoff,
                "c{client} with {} and c{other_client} with {} both hold {:?}",
                guard.token,
                other.token,
                guard.names,
            );
        }
    }

    /// The service cannot give the lock to anybody else before the guard's deadline.
    fn check_backed(&self, client: usize, guard: &Guard) {
        assert!(guard.validity.cutoff <= guard.validity.deadline, "the cutoff is too late");
        if !self.check.in_bounds || self.check.tampered.contains(&guard.token) {
            return;
        }
        let deadline = self.clients[client].true_time(guard.validity.deadline);
        let claim = self.server.claims.values().find(|claim| claim.token == guard.token);
        let Some(claim) = claim.filter(|claim| claim.is_granted) else {
            assert!(deadline <= self.now + 2, "a guard without a lock: {}", guard.token);
            return;
        };
        let lease = &self.server.leases[&claim.lease];
        let left = self.server.end_of(lease).min(claim.forced_at) - self.server.now;
        let ends = self.now.max(self.frozen_until) + left * 1_000_000 / self.server_rate;
        assert!(deadline <= ends + 2, "{} is believed in too long: {deadline} {ends}", guard.token);
    }

    /// A process that runs has noticed every cutoff that has passed.
    pub(crate) fn check_cutoffs(&self, client: usize) {
        let clock = self.clients[client].clock(self.now);
        for ((of, hold), guard) in &self.check.guards {
            if *of == client {
                assert!(clock < guard.validity.cutoff, "c{client} {hold:?} outlived its cutoff");
            }
        }
    }

    pub(crate) fn check_failed(&mut self, client: usize, op: OpId, error: &Error) {
        let Some(spec) = self.check.open.remove(&(client, op)) else {
            // It may fail in the very moment in which it is abandoned. Releases fail too, and they
            // may only be unknown.
            let is_abandoned = self.check.abandoned.contains(&(client, op));
            assert!(
                is_abandoned || error.is_indeterminate(),
                "c{client} {op:?} was reported twice: {error}"
            );
            return;
        };
        if error.is_indeterminate() {
            return;
        }
        let tag = String::from_utf8(spec.metadata.to_vec()).expect("tags are text");
        let left = self.server.claims.values().find(|claim| claim.metadata == spec.metadata);
        assert!(left.is_none(), "c{client} {op:?} failed with {error}, and left something behind");
        self.check.failed.insert(tag);
    }

    /// What has failed for certain never comes back.
    pub(crate) fn check_claims(&mut self) {
        let seen = std::mem::replace(&mut self.check.claims_seen, self.server.claims_made);
        for (_, claim) in self.server.claims.range(seen + 1..) {
            let tag = String::from_utf8(claim.metadata.to_vec()).expect("tags are text");
            assert!(!self.check.failed.contains(&tag), "{tag} has failed, and comes back");
        }
    }

    /// After the workers have gone home, nothing is left.
    pub(crate) fn check_rest(&self) {
        assert!(self.server.claims.is_empty(), "somebody still stands in a queue");
        assert!(self.check.guards.is_empty(), "somebody still holds a guard");
        assert!(
            self.check.open.is_empty(),
            "an acquire was never answered: {:?}",
            self.check.open.keys()
        );
        for client in &self.clients {
            assert!(client.session.is_quiet(), "a session is not done");
            let idle = client.workers.iter().all(|worker| matches!(worker.doing, Doing::Nothing));
            assert!(idle, "a worker hangs");
        }
        assert!(self.check.acquired_in_peace > 0, "nobody got a lock after all was well");
    }
}
