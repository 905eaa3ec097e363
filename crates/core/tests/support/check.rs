//! The invariants, looked at from the outside after every entry.
//!
//! The ids are those of the project's list of invariants; rules without an id are named in words.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::command::{Command, Mode};
use fencepost_core::event::{Cause, EventKind, KeyValue};
use fencepost_core::query::{LeaseInfo, LockView, Sight, Subject, Waiter};
use fencepost_core::range::KeyRange;
use fencepost_core::{
    Action, Effects, Entry, Event, Key, LeaseId, LockName, LogTime, Outcome, Revision, State, Token,
};

use super::replies::Replies;
use super::summary::all_keys;

pub(crate) type Check = Result<(), String>;

/// Refuses with a text unless `holds`.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}

/// One entry, and the states around it.
pub(crate) struct Seen<'a> {
    pub(crate) before: &'a State,
    /// What only moving log time would have made of `before`.
    pub(crate) ticked: &'a State,
    pub(crate) entry: &'a Entry,
    pub(crate) effects: &'a Effects,
    pub(crate) after: &'a State,
    pub(crate) locks: Vec<LockView>,
    pub(crate) leases: Vec<LeaseInfo>,
}

/// All locks that somebody holds or wants, with all their waiters.
fn all_locks(state: &State) -> Vec<LockView> {
    let names =
        state.locks(b"", None, usize::MAX, &Sight::waiters(16)).into_iter().map(|lock| lock.name);
    names.map(|name| state.lock(&name, usize::MAX)).collect()
}

impl<'a> Seen<'a> {
    /// Applies an entry to `after`, which is a copy of `before` so far.
    pub(crate) fn apply(
        before: &'a State,
        ticked: &'a mut State,
        entry: &'a Entry,
        after: &'a mut State,
        effects: &'a mut Effects,
    ) -> Seen<'a> {
        ticked.apply(Entry { at: entry.at, commands: Vec::new() });
        *effects = after.apply(entry.clone());
        let (locks, leases) = (all_locks(after), after.leases(LeaseId(0), usize::MAX));
        Seen { before, ticked, entry, effects, after, locks, leases }
    }

    fn lease(&self, id: LeaseId) -> Option<&LeaseInfo> {
        self.leases.iter().find(|lease| lease.id == id)
    }

    /// Whether something is due that no entry has ended yet.
    fn backlog(&self) -> bool {
        self.after.next_deadline().is_some_and(|at| at <= self.after.now())
    }

    fn granted(&self, key: &Key, token: Token) -> bool {
        self.effects.events.iter().any(|event| match &event.kind {
            EventKind::Granted(one) => one.key == *key && one.token == token,
            _ => false,
        })
    }
}

/// What must be remembered from entry to entry.
#[derive(Default)]
pub(crate) struct Checker {
    replies: Replies,
    last_event: Option<(Revision, u32)>,
    /// The key space, as the events tell it.
    keys: BTreeMap<Key, KeyValue>,
    /// Who holds, as the events tell it.
    holders: BTreeSet<(Key, Token)>,
    /// Every grant that was ever made.
    granted: BTreeSet<(Key, Token)>,
    /// The last token granted in each lock.
    last_tokens: BTreeMap<Vec<u8>, Token>,
    /// Leases that may end early because their client went away.
    disconnected: BTreeSet<LeaseId>,
}

/// The lock of a key, by its path.
fn lock_of(key: &Key) -> Vec<u8> {
    let slash = key.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    key[..slash].to_vec()
}

impl Checker {
    pub(crate) fn check(&mut self, seen: &Seen<'_>) -> Check {
        log_time(seen)?;
        self.lease_deadlines(seen)?;
        next_deadline(seen)?;
        revisions(seen)?;
        one_revision_per_lease(seen)?;
        for event in &seen.effects.events {
            self.event_order(event)?;
            self.event_effect(event)?;
        }
        self.events_complete(seen)?;
        compatible_holders(seen)?;
        first_come_first_served(seen)?;
        whole_groups(seen)?;
        nobody_waits_in_vain(seen)?;
        successors(seen)?;
        no_ghosts(seen)?;
        no_orphans(seen)?;
        bounded_queues(seen)?;
        waits_end(seen)?;
        changes_are_counted(seen)?;
        floors_spare_others(seen)?;
        explanations(seen)?;
        self.replies.check(seen)?;
        self.answered_grants(seen)?;
        // The look from the inside comes last: the rules above must do without it.
        seen.after.audit().map_err(|what| format!("I11: {what}"))
    }

    /// I6 across a restore: the state starts anew, but no token may be granted again.
    pub(crate) fn restored(&mut self, before: &State, after: &State) -> Check {
        ensure(after.revision() > before.revision(), || "I6: the revision did not jump".into())?;
        ensure(after.compact_revision() >= after.revision(), || "old history kept".into())?;
        ensure(!after.has_leases(), || "a lease survived the restore".into())?;
        let contenders: usize =
            all_locks(after).iter().map(|one| one.holders.len() + one.waiters.len()).sum();
        ensure(contenders == 0, || "a contender survived the restore".into())?;
        after.audit().map_err(|what| format!("I11 audit after restore: {what}"))?;
        self.keys = keys_of(after);
        self.holders.clear();
        self.replies = Replies::default();
        self.last_event = None;
        Ok(())
    }

    /// I9, I10: the deadline of a lease never moves back, and before it only a command or a
    /// lost client can end the lease.
    fn lease_deadlines(&mut self, seen: &Seen<'_>) -> Check {
        for command in &seen.entry.commands {
            if let Action::Disconnect(one) = &command.action {
                self.disconnected.insert(one.lease.id);
            }
        }
        for before in seen.before.leases(LeaseId(0), usize::MAX) {
            let same = seen.lease(before.id).filter(|lease| lease.epoch == before.epoch);
            let Some(after) = same else {
                let due = before.expiry <= seen.after.now();
                let loose = self.disconnected.contains(&before.id) || before.sole_lock.is_some();
                ensure(due || loose || ended_by_command(seen, before.id), || {
                    format!("I9: lease {} ended before its deadline", before.id.0)
                })?;
                continue;
            };
            let starts = before.expiry == LogTime::NEVER;
            ensure(starts || after.expiry >= before.expiry, || {
                format!("I10: lease {} now ends earlier", before.id.0)
            })?;
        }
        Ok(())
    }

    /// Events are unique and in order.
    fn event_order(&mut self, event: &Event) -> Check {
        let place = Some((event.revision, event.sub));
        ensure(self.last_event < place, || format!("event out of order: {event:?}"))?;
        self.last_event = place;
        Ok(())
    }

    /// I6, and what each event says about keys and holders.
    fn event_effect(&mut self, event: &Event) -> Check {
        match &event.kind {
            EventKind::Put { kv, prev } => {
                let there = self.keys.insert(kv.key.clone(), kv.clone());
                ensure(there.as_ref() == prev.as_deref(), || format!("wrong prev: {event:?}"))
            }
            EventKind::Deleted { prev, ended } => {
                let there = self.keys.remove(&prev.key);
                ensure(there.as_ref() == Some(prev), || format!("wrong prev: {event:?}"))?;
                let held = self.holders.remove(&(prev.key.clone(), prev.create_revision.into()));
                let told = ended.as_ref().is_some_and(|ended| ended.held);
                ensure(held == told, || format!("held or not: {event:?}"))
            }
            EventKind::Granted(one) => {
                let last = self.last_tokens.insert(lock_of(&one.key), one.token);
                ensure(last < Some(one.token), || format!("I6: {last:?} before {event:?}"))?;
                let grant = (one.key.clone(), one.token);
                ensure(self.granted.insert(grant.clone()), || format!("twice: {event:?}"))?;
                let created = self.keys.get(&one.key).map(|kv| Token::from(kv.create_revision));
                ensure(created == Some(one.token), || format!("no such place: {event:?}"))?;
                self.holders.insert(grant);
                Ok(())
            }
            EventKind::Lost(one) => {
                let held = self.holders.remove(&(one.key.clone(), one.token));
                ensure(held, || format!("not held: {event:?}"))
            }
            EventKind::ForceAsked { holding, .. } | EventKind::OverBudget(holding) => {
                let held = self.holders.contains(&(holding.key.clone(), holding.token));
                ensure(held, || format!("not held: {event:?}"))
            }
        }
    }

    /// The events, replayed from nothing, give exactly the keys and the holders. So every grant
    /// has its one `Granted`.
    fn events_complete(&self, seen: &Seen<'_>) -> Check {
        ensure(self.keys == keys_of(seen.after), || "the events do not tell the keys".into())?;
        let holders = seen.locks.iter().flat_map(|lock| &lock.holders);
        let holders: BTreeSet<_> = holders.map(|one| (one.key.clone(), one.token)).collect();
        ensure(self.holders == holders, || {
            format!("the events tell {:?}, there are {holders:?}", self.holders)
        })
    }

    /// A token is answered only if it was granted, for that very key.
    fn answered_grants(&self, seen: &Seen<'_>) -> Check {
        for reply in &seen.effects.replies {
            let (keys, token) = match &reply.outcome {
                Outcome::Acquired(one) | Outcome::Renewed(one) => (vec![&one.key], one.token),
                Outcome::AcquiredMany(all) => (all.keys.iter().collect(), all.token),
                _ => continue,
            };
            for key in keys {
                ensure(self.granted.contains(&(key.clone(), token)), || {
                    format!("I6: answered with a token that was not granted: {reply:?}")
                })?;
            }
        }
        Ok(())
    }
}

fn keys_of(state: &State) -> BTreeMap<Key, KeyValue> {
    state.range(&all_keys()).kvs.into_iter().map(|kv| (kv.key.clone(), kv)).collect()
}

/// Whether a command of this entry may have ended the lease.
fn ended_by_command(seen: &Seen<'_>, id: LeaseId) -> bool {
    seen.entry.commands.iter().any(|command| match &command.action {
        Action::LeaseRevoke(one) => one.lease.id == id,
        _ => false,
    })
}

/// I10: log time is the highest stamp so far.
fn log_time(seen: &Seen<'_>) -> Check {
    let expected = seen.before.now().max(seen.entry.at);
    ensure(seen.after.now() == expected, || format!("I10: log time is {:?}", seen.after.now()))
}

/// The next deadline is never later than anything that log time ends.
fn next_deadline(seen: &Seen<'_>) -> Check {
    let leases = seen.leases.iter().map(|lease| lease.expiry);
    let waiters = seen.locks.iter().flat_map(|lock| &lock.waiters);
    let waits = waiters.filter_map(|waiter| waiter.wait_until);
    let holders = seen.locks.iter().flat_map(|lock| &lock.holders);
    let forced = holders.filter_map(|holder| holder.forced_at);
    let delays = seen.locks.iter().filter_map(|lock| lock.delayed_until);
    let first = leases.chain(waits).chain(forced).chain(delays).min();
    let first = first.filter(|&at| at != LogTime::NEVER);
    let next = seen.after.next_deadline().unwrap_or(LogTime::NEVER);
    ensure(first.is_none_or(|first| next <= first), || {
        format!("the next deadline is {next:?}, but something ends at {first:?}")
    })
}

/// The revision grows by at most one for each command, and never without a change of a key.
fn revisions(seen: &Seen<'_>) -> Check {
    let mut last = seen.ticked.revision();
    for reply in &seen.effects.replies {
        let grown = reply.revision.0.checked_sub(last.0);
        ensure(grown.is_some_and(|grown| grown <= 1), || format!("{last:?}, then {reply:?}"))?;
        last = reply.revision;
    }
    ensure(last == seen.after.revision(), || "the last reply has another revision".into())?;
    for revision in seen.before.revision().0 + 1..=last.0 {
        let mut events = seen.effects.events.iter();
        let told = events.any(|one| one.revision == Revision(revision) && one.is_key_change());
        ensure(told, || format!("no key changed at revision {revision}"))?;
    }
    Ok(())
}

/// A lease that runs out takes all its keys along at one revision.
fn one_revision_per_lease(seen: &Seen<'_>) -> Check {
    let mut ends: BTreeMap<LeaseId, Revision> = BTreeMap::new();
    for event in &seen.effects.events {
        let EventKind::Deleted { prev, ended: Some(ended) } = &event.kind else { continue };
        if ended.cause == Cause::Expired {
            let first = *ends.entry(prev.lease).or_insert(event.revision);
            ensure(first == event.revision, || format!("a second revision: {event:?}"))?;
        }
    }
    Ok(())
}

/// How many may hold in this mode.
fn room(mode: Mode) -> usize {
    match mode {
        Mode::Exclusive => 1,
        Mode::Shared => usize::MAX,
        Mode::Permit(permits) => permits as usize,
    }
}

/// I5: the holders of a lock go together.
fn compatible_holders(seen: &Seen<'_>) -> Check {
    for lock in &seen.locks {
        let Some(first) = lock.holders.first() else { continue };
        let alike = lock.holders.iter().all(|holder| holder.mode == first.mode);
        ensure(alike && lock.holders.len() <= room(first.mode), || format!("I5: {lock:?}"))?;
    }
    Ok(())
}

/// I7: nobody is granted while somebody who came earlier still waits or blocks.
fn first_come_first_served(seen: &Seen<'_>) -> Check {
    for lock in &seen.locks {
        let newest = lock.holders.iter().map(|holder| holder.create_revision).max();
        let first = lock.waiters.iter().map(|waiter| waiter.create_revision).min();
        let overtook = first.is_some_and(|first| newest.is_some_and(|newest| newest > first));
        ensure(!overtook, || format!("I7: overtaken: {lock:?}"))?;
        for foreign in seen.before.lock(&lock.name, 0).foreign {
            let there = seen.after.range(&KeyRange::One(foreign).into());
            let Some(kv) = there.kvs.first() else { continue };
            let past = lock.holders.iter().any(|holder| {
                holder.create_revision > kv.create_revision
                    && kv.create_revision <= seen.before.revision()
                    && seen.granted(&holder.key, holder.token)
            });
            ensure(!past, || format!("I7: granted past a foreign key: {lock:?}"))?;
        }
    }
    Ok(())
}

/// Several locks at once are held together or not at all.
fn whole_groups(seen: &Seen<'_>) -> Check {
    let waiters = seen.locks.iter().flat_map(|lock| &lock.waiters);
    let holders = || seen.locks.iter().flat_map(|lock| &lock.holders);
    for reserved in waiters.filter(|waiter| waiter.reserved) {
        let piece = holders().any(|holder| holder.create_revision == reserved.create_revision);
        ensure(!piece, || format!("granted in pieces: {reserved:?}"))?;
    }
    Ok(())
}

/// I29: whoever could hold does. A lock that is stuck would wake nobody any more.
fn nobody_waits_in_vain(seen: &Seen<'_>) -> Check {
    if seen.backlog() {
        return Ok(());
    }
    let first_in_line = |lock: &LockView, waiter: &Waiter| {
        let ahead = lock.holders.len() + lock.foreign.len() + 1;
        let first = lock.waiters.first().is_some_and(|first| first.key == waiter.key);
        let mode = lock.holders.first().map_or(waiter.mode, |holder| holder.mode);
        let over = waiter.wait_until.is_some_and(|until| until <= seen.after.now());
        let foreign_ahead = !lock.foreign.is_empty();
        let fits = mode == waiter.mode && ahead <= room(waiter.mode);
        first && fits && !foreign_ahead && !over && lock.delayed_until.is_none()
    };
    let ready = |wanted: &Waiter| {
        let all =
            seen.locks.iter().flat_map(|lock| lock.waiters.iter().map(move |one| (lock, one)));
        let mut group = all.filter(|(_, one)| match wanted.reserved {
            true => one.reserved && one.create_revision == wanted.create_revision,
            false => one.key == wanted.key,
        });
        group.all(|(lock, one)| first_in_line(lock, one))
    };
    for waiter in seen.locks.iter().flat_map(|lock| &lock.waiters) {
        ensure(!ready(waiter), || format!("I29: waits for nothing: {waiter:?}"))?;
    }
    Ok(())
}

/// The end of a place in a queue names who holds the lock now.
fn successors(seen: &Seen<'_>) -> Check {
    let [_] = &seen.entry.commands[..] else { return Ok(()) };
    for event in &seen.effects.events {
        let EventKind::Deleted { prev, ended: Some(ended) } = &event.kind else { continue };
        if event.revision > seen.ticked.revision() {
            let name = LockName::from(&lock_of(&prev.key)[..]);
            let lock = seen.after.lock(&name, 0);
            let holder = lock.holders.first().map(|holder| (&holder.key, holder.token));
            let told = ended.holder.as_ref().map(|holder| (&holder.key, holder.token));
            ensure(told == holder, || format!("not who holds now: {event:?}, but {holder:?}"))?;
        }
    }
    Ok(())
}

/// I8: whoever was granted a lock in this entry has a live lease.
fn no_ghosts(seen: &Seen<'_>) -> Check {
    for holder in seen.locks.iter().flat_map(|lock| &lock.holders) {
        let new = seen.granted(&holder.key, holder.token);
        ensure(!new || seen.lease(holder.lease).is_some(), || {
            format!("I8: granted without a live lease: {holder:?}")
        })?;
    }
    Ok(())
}

/// I11: leases and keys point at each other, and every contender belongs to a live lease, or to
/// one that is due and will be ended next.
fn no_orphans(seen: &Seen<'_>) -> Check {
    let backlog = seen.backlog();
    for kv in seen.after.range(&all_keys()).kvs {
        let lease = seen.lease(kv.lease);
        let listed = lease.is_some_and(|lease| lease.keys.contains(&kv.key));
        ensure(listed || kv.lease.is_none() || lease.is_none() && backlog, || {
            format!("I11: {} belongs to no live lease", kv.key)
        })?;
    }
    for lease in &seen.leases {
        for key in &lease.keys {
            let there = seen.after.range(&KeyRange::One(key.clone()).into());
            let back = there.kvs.first().is_some_and(|kv| kv.lease == lease.id);
            ensure(back, || format!("I11: lease {} lists {key}", lease.id.0))?;
        }
    }
    let holders = seen.locks.iter().flat_map(|lock| &lock.holders).map(|one| one.lease);
    let waiters = seen.locks.iter().flat_map(|lock| &lock.waiters).map(|one| one.lease);
    for lease in holders.chain(waiters) {
        ensure(seen.lease(lease).is_some() || backlog, || {
            format!("I11: a contender of lease {}, which is gone", lease.0)
        })?;
    }
    Ok(())
}

/// I11: no queue grows beyond its limit. What an etcd client may write as keys does not depend on
/// locks, so puts may; and while limits change, it is not known which one counted.
fn bounded_queues(seen: &Seen<'_>) -> Check {
    let other = |one: &Command| {
        matches!(one.action, Action::Put(_) | Action::Txn(_) | Action::SetLimits(_))
    };
    if seen.entry.commands.iter().any(other) {
        return Ok(());
    }
    let len = |lock: &LockView| lock.holders.len() + lock.waiters.len() + lock.foreign.len();
    for lock in &seen.locks {
        let max = seen.after.limits().queue_len_max.max(seen.before.limits().queue_len_max);
        let before = len(&seen.before.lock(&lock.name, usize::MAX));
        let bound = before.max(max as usize);
        ensure(len(lock) <= bound, || format!("I11: more than {bound} in {lock:?}"))?;
    }
    Ok(())
}

/// I18: no wait outlasts its end.
fn waits_end(seen: &Seen<'_>) -> Check {
    let now = seen.after.now();
    for waiter in seen.locks.iter().flat_map(|lock| &lock.waiters) {
        // One that joined in this very entry ends with the next.
        let over = waiter.wait_until.is_some_and(|until| until <= now);
        let new = waiter.waited_for.0 == 0;
        ensure(!over || new || seen.backlog(), || format!("I18: still waits: {waiter:?}"))?;
    }
    Ok(())
}

/// Every change of a lease's contenders shows in its counter.
fn changes_are_counted(seen: &Seen<'_>) -> Check {
    let contenders = |locks: &[LockView], id: LeaseId| -> BTreeSet<(Key, Revision, bool)> {
        let holders = locks.iter().flat_map(|lock| &lock.holders).filter(|one| one.lease == id);
        let waiters = locks.iter().flat_map(|lock| &lock.waiters).filter(|one| one.lease == id);
        let holders = holders.map(|one| (one.key.clone(), one.create_revision, true));
        holders.chain(waiters.map(|one| (one.key.clone(), one.create_revision, false))).collect()
    };
    let locks = all_locks(seen.before);
    for after in &seen.leases {
        let same = seen.before.lease(after.id).filter(|before| before.epoch == after.epoch);
        let Some(before) = same else { continue };
        let changed = contenders(&locks, after.id) != contenders(&seen.locks, after.id);
        ensure(!changed || after.changes > before.changes, || {
            format!("a change of lease {} was not counted", after.id.0)
        })?;
    }
    Ok(())
}

/// A fence floor never reaches a token that waits, or one that holds and was not forced.
fn floors_spare_others(seen: &Seen<'_>) -> Check {
    for lock in &seen.locks {
        let floor = lock.fence_floor;
        let waits = lock.waiters.iter().any(|one| Token::from(one.create_revision) < floor);
        let holds = lock.holders.iter().any(|one| one.forced_at.is_none() && one.token < floor);
        ensure(!waits && !holds, || format!("the floor is too high: {lock:?}"))?;
    }
    Ok(())
}

/// What is explained is what is there: each waiter with somebody in its way, or a delay.
fn explanations(seen: &Seen<'_>) -> Check {
    for lock in &seen.locks {
        let told = seen.after.explain(&Subject::Lock(lock.name.clone()), usize::MAX);
        ensure(told.locks.first() == Some(lock), || format!("explained wrongly: {lock:?}"))?;
        ensure(told.waits.len() == lock.waiters.len(), || format!("unexplained: {lock:?}"))?;
    }
    Ok(())
}
