//! Makes anew what a snapshot does not carry: the indexes, and the timers.
//!
//! Guarantees: the same indexes and timers as those of the state that was written, or replicas
//! that began from a snapshot would go other ways than those that applied every entry. All is
//! built from sorted lists, because a snapshot can hold millions of locks.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::error::Malformed;
use super::reader::Reader;
use super::wire::{Wire, wire_enum};
use super::writer::Writer;
use crate::ids::{Boot, ClientId, Key, LockName, LogTime, NodeId, Revision};
use crate::lock::{Many, Queue};
use crate::record::{Contender, Record, Spot, queue_form};
use crate::signing::KeyStage;
use crate::state::State;
use crate::timer::Timer;

type Check = Result<(), &'static str>;

/// A timer that is due and has not fired, where the rest of the state cannot tell.
///
/// Most timers take along what they were derived from. These leave it behind, so a moment that
/// has passed usually means that they fired. They have not if more was due than one entry may
/// end, and then the snapshot says so.
pub(super) enum Overdue {
    Budget(Key),
    HoldMax(Key),
    Recovered,
    Grants(LockName),
}

wire_enum!(Overdue {
    0 => Budget(key: Key),
    1 => HoldMax(key: Key),
    2 => Recovered,
    3 => Grants(name: LockName),
});

/// The timers that a snapshot must name, in the order in which they will fire.
pub(super) fn overdue(state: &State) -> Vec<Overdue> {
    let due = state.timers.all().iter().take_while(|one| one.at <= state.now);
    due.filter_map(|one| match &one.timer {
        Timer::Budget(key) => Some(Overdue::Budget(key.clone())),
        Timer::HoldMax(key) => Some(Overdue::HoldMax(key.clone())),
        Timer::Recovered => Some(Overdue::Recovered),
        Timer::Grants(name) => Some(Overdue::Grants(name.clone())),
        Timer::Lease(_)
        | Timer::Disconnected(_)
        | Timer::Wait(_)
        | Timer::Forced(_)
        | Timer::Delay(_)
        | Timer::Floor(_)
        | Timer::Orphans(..)
        | Timer::Client(_)
        | Timer::KeyDue(_) => None,
    })
    .collect()
}

/// Fills in everything that follows from the fields that were read.
pub(super) fn rebuild(state: &mut State, overdue: Vec<Overdue>) -> Check {
    index_clients(state)?;
    index_owners(state)?;
    index_leases(state)?;
    index_locks(state)?;
    index_calls(state);
    index_groups(state);
    state.count_bytes();
    arm_timers(state, overdue)
}

/// The leases of each client that has a name. The leases share the name from here on, as they do
/// when they are granted.
fn index_clients(state: &mut State) -> Check {
    let leases = state.leases.iter_mut().filter(|(_, lease)| !lease.client.is_empty());
    let leases = leases.map(|(id, lease)| (head(&lease.client), *id, lease));
    let mut leases: Vec<_> = leases.collect();
    leases.sort_by(|one, next| {
        one.0.cmp(&next.0).then_with(|| one.2.client.cmp(&next.2.client)).then(one.1.cmp(&next.1))
    });
    let mut leases = leases.into_iter().peekable();
    for (name, client) in &mut state.clients {
        while let Some((_, id, lease)) = leases.next_if(|lease| lease.2.client == *name) {
            lease.client = name.clone();
            client.leases.insert(id);
        }
    }
    if leases.next().is_some() { Err("a lease of an unknown client") } else { Ok(()) }
}

/// The beginning of a name as a number in the same order. Comparing these first spares most
/// looks at the names themselves, which lie scattered in memory.
fn head(name: &ClientId) -> u128 {
    let mut head = [0; 16];
    for (to, from) in head.iter_mut().zip(name.as_str().bytes()) {
        *to = from;
    }
    u128::from_be_bytes(head)
}

fn index_owners(state: &mut State) -> Check {
    let mut owners = Vec::new();
    for (&id, lease) in &state.leases {
        if let Some(name) = &lease.sole_lock {
            owners.push(((lease.client.clone(), name.clone()), id));
        }
    }
    let count = owners.len();
    state.owners = owners.into_iter().collect();
    if state.owners.len() < count { Err("two leases of one owner for one lock") } else { Ok(()) }
}

/// The keys of each lease.
fn index_leases(state: &mut State) -> Check {
    let attached = state.keys.iter().filter(|(_, record)| !record.lease.is_none());
    let mut attached: Vec<_> = attached.map(|(key, record)| (record.lease, key)).collect();
    // The sort keeps the order of one lease's keys.
    attached.sort_by_key(|&(lease, _)| lease);
    let mut attached = attached.into_iter().peekable();
    for (id, lease) in &mut state.leases {
        while let Some((_, key)) = attached.next_if(|(lease, _)| lease == id) {
            lease.keys.insert(key.clone());
        }
    }
    if attached.next().is_some() { Err("a key of an unknown lease") } else { Ok(()) }
}

/// A key's place in a queue.
struct Place<'a> {
    name: LockName,
    spot: Spot,
    key: &'a Key,
    record: &'a Record,
}

fn index_locks(state: &mut State) -> Check {
    let places = state.keys.iter().filter_map(|(key, record)| {
        let (name, _) = queue_form(key)?;
        Some(Place { name, spot: record.spot(), key, record })
    });
    let mut places: Vec<_> = places.collect();
    places.sort_by(|one, next| one.name.cmp(&next.name).then(one.spot.cmp(&next.spot)));
    let mut locks = Vec::new();
    for queue in places.chunk_by(|one, next| one.name == next.name) {
        if !queue.is_sorted_by(|one, next| one.spot < next.spot) {
            return Err("two keys at one place in a queue");
        }
        if !holders_go_together(queue) {
            return Err("two holders of one lock");
        }
        locks.push((queue[0].name.clone(), build_queue(queue)));
    }
    state.locks = BTreeMap::from_iter(locks);
    Ok(())
}

/// The one thing that must never be: a state like this would give a lock to two.
fn holders_go_together(places: &[Place<'_>]) -> bool {
    let contenders = places.iter().filter_map(|place| place.record.contender());
    let modes = contenders.filter(|contender| contender.holds()).map(|holder| holder.mode);
    let Some(first) = modes.clone().next() else { return true };
    modes.clone().all(|mode| mode == first) && modes.count() <= first.room()
}

fn build_queue(places: &[Place<'_>]) -> Queue {
    if let [only] = places {
        return Queue::One(only.key.clone());
    }
    let mut many = Many::default();
    for place in places {
        many.insert(place.key.clone(), place.record);
    }
    Queue::Many(many.into())
}

/// The contenders of each member's calls.
fn index_calls(state: &mut State) {
    let mut calls: BTreeMap<(NodeId, Boot), BTreeSet<Key>> = BTreeMap::new();
    for (key, contender) in contenders(state) {
        if let Some(call) = contender.bound_to() {
            calls.entry((call.node, call.boot)).or_default().insert(key.clone());
        }
    }
    state.calls = calls;
}

/// The keys of each acquisition of several locks that still waits, in the order in which they
/// were created.
fn index_groups(state: &mut State) {
    let grouped = state
        .keys
        .iter()
        .filter(|(_, record)| record.contender().is_some_and(Contender::is_grouped));
    let mut grouped: Vec<_> = grouped.map(|(key, record)| (record.spot(), key)).collect();
    grouped.sort_unstable();
    let mut groups: BTreeMap<Revision, Vec<Key>> = BTreeMap::new();
    for (spot, key) in grouped {
        groups.entry(spot.created).or_default().push(key.clone());
    }
    state.groups = groups;
}

fn contenders(state: &State) -> impl Iterator<Item = (&Key, &Contender)> {
    state.keys.iter().filter_map(|(key, record)| Some((key, record.contender()?)))
}

fn arm_timers(state: &mut State, overdue: Vec<Overdue>) -> Check {
    let mut timers = lease_timers(state);
    for (key, contender) in contenders(state) {
        contender_timers(key, contender, state.now, &mut timers);
    }
    for (name, delay) in &state.delays {
        timers.push((delay.until, Timer::Delay(name.clone())));
    }
    for (name, floor) in &state.floors {
        timers.push((floor.until, Timer::Floor(name.clone())));
    }
    for (&node, &(boot, at)) in &state.lost_nodes {
        timers.push((at, Timer::Orphans(node, boot)));
    }
    for (&key, known) in &state.signing_keys {
        if let KeyStage::Next(due) = known.stage {
            timers.push((due, Timer::KeyDue(key)));
        }
    }
    if state.recovering_until > state.now {
        timers.push((state.recovering_until, Timer::Recovered));
    }
    timers.append(&mut overdue_timers(state, overdue)?);
    timers.sort_unstable();
    for (at, timer) in timers {
        state.timers.arm(at, timer);
    }
    Ok(())
}

fn lease_timers(state: &State) -> Vec<(LogTime, Timer)> {
    let mut timers = Vec::with_capacity(state.leases.len());
    for (&id, lease) in &state.leases {
        timers.push((lease.deadline, Timer::Lease(id)));
        if let Some(at) = lease.revoke_at {
            timers.push((at, Timer::Disconnected(id)));
        }
    }
    for (id, client) in &state.clients {
        if client.leases.is_empty() {
            timers.push((
                client.last_seen.after(state.limits.client_kept),
                Timer::Client(id.clone()),
            ));
        }
    }
    timers
}

fn contender_timers(
    key: &Key,
    contender: &Contender,
    now: LogTime,
    timers: &mut Vec<(LogTime, Timer)>,
) {
    if !contender.holds() && contender.wait_until != LogTime::NEVER {
        timers.push((contender.wait_until, Timer::Wait(key.clone())));
    }
    if let Some(at) = contender.forced() {
        timers.push((at, Timer::Forced(key.clone())));
    }
    if let Some(at) = contender.budget_ends().filter(|&at| at > now) {
        timers.push((at, Timer::Budget(key.clone())));
    }
    if let Some(at) = contender.hold_ends().filter(|&at| at > now) {
        timers.push((at, Timer::HoldMax(key.clone())));
    }
}

/// What is due and has not fired, each at the moment that the rest of the state gives it.
fn overdue_timers(
    state: &State,
    overdue: Vec<Overdue>,
) -> Result<Vec<(LogTime, Timer)>, &'static str> {
    let holder = |key: &Key| state.keys.get(key).and_then(|record| record.contender());
    let mut timers = Vec::new();
    for overdue in overdue {
        let (at, timer) = match overdue {
            Overdue::Budget(key) => {
                (holder(&key).and_then(Contender::budget_ends), Timer::Budget(key))
            }
            Overdue::HoldMax(key) => {
                (holder(&key).and_then(Contender::hold_ends), Timer::HoldMax(key))
            }
            Overdue::Recovered => (Some(state.recovering_until), Timer::Recovered),
            Overdue::Grants(name) => (Some(LogTime(0)), Timer::Grants(name)),
        };
        let at = at.filter(|&at| at <= state.now).ok_or("an overdue timer that is not due")?;
        timers.push((at, timer));
    }
    if timers.is_sorted_by(|one, next| one < next) {
        Ok(timers)
    } else {
        Err("overdue timers out of order")
    }
}
