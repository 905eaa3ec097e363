use std::sync::Arc;

use fencepost_core::codec::encode_command;
use fencepost_core::command::{Acquire, Action, Cancel, CancelTarget, Command, Entry, LeaseGrant};
use fencepost_core::command::{Put, Release, Wait};
use fencepost_core::event::Holding;
use fencepost_core::{LeaseId, LockName, LogTime, Outcome, State};

use super::*;

fn key() -> Key {
    Key::from("a/1")
}

fn granted(revision: u64, token: u64) -> Event {
    let holding = Holding { key: key(), token: Token(token), ..Holding::default() };
    Event { revision: Revision(revision), sub: 0, kind: EventKind::Granted(holding) }
}

/// A state, and all that it has said.
struct Machine {
    state: State,
    at: u64,
}

impl Machine {
    fn new() -> Machine {
        let mut machine = Machine { state: State::new(), at: 1 };
        for id in [1, 2] {
            let ttl = Millis(3_600_000);
            machine.act(Action::LeaseGrant(LeaseGrant {
                id: LeaseId(id),
                ttl,
                ..LeaseGrant::default()
            }));
        }
        machine
    }

    fn act(&mut self, action: Action) -> (fencepost_core::Reply, Vec<Arc<Event>>) {
        self.at += 1;
        let command = Command::from(action);
        // What the state is given could have come through the log.
        encode_command(&command, &mut Vec::new());
        let entry = Entry { at: LogTime(self.at), commands: vec![command] };
        let mut effects = self.state.apply(entry);
        (effects.replies.remove(0), effects.events)
    }

    fn acquire(&mut self, lease: i64, wait: Wait) -> (fencepost_core::Reply, Vec<Arc<Event>>) {
        let lease = LeaseId(lease).into();
        self.act(Action::Acquire(Acquire { name: name(), lease, wait, ..Acquire::default() }))
    }

    fn release(&mut self, lease: i64, token: u64) -> Vec<Arc<Event>> {
        let (lease, token) = (LeaseId(lease).into(), Token(token));
        self.act(Action::Release(Release { name: name(), lease, token })).1
    }
}

fn name() -> LockName {
    LockName::from("a")
}

fn observe(registry: &mut Registry<u32>, events: &[Arc<Event>]) -> Vec<(u32, Verdict)> {
    let mut told = Vec::new();
    for event in events {
        registry.observe(event, |_| Millis(7), &mut told);
    }
    told
}

fn granted_with(token: u64) -> Verdict {
    Verdict::Granted { token: Token(token), remaining: Millis(7) }
}

// Requirements: S2-007.
#[test]
fn the_grant_comes_after_the_reply() {
    let mut registry = Registry::default();
    let ticket = registry.register(key(), 5_u32);
    assert_eq!(registry.queued(&ticket, Revision(3)), None);
    assert_eq!(observe(&mut registry, &[granted(4, 3).into()]), [(5, granted_with(3))]);
    assert_eq!(registry.len(), 0);
    assert_eq!(registry.len(), 0);
}

// Requirements: S2-013.
#[test]
fn the_grant_comes_before_the_reply() {
    let mut registry = Registry::default();
    let ticket = registry.register(key(), 5_u32);
    assert_eq!(observe(&mut registry, &[granted(4, 3).into()]), []);
    assert_eq!(registry.queued(&ticket, Revision(3)), Some(granted_with(3)));
    assert_eq!(registry.len(), 0);
}

// Requirements: S2-013.
#[test]
fn a_follower_that_still_tells_of_an_earlier_place_is_not_believed() {
    let mut leader = Machine::new();
    let mut log = Vec::new();
    let (other, events) = leader.acquire(2, Wait::WhileLeased);
    log.extend(events);
    // Lease 1 waits, is granted and releases; then it queues up again behind lease 2.
    log.extend(leader.acquire(1, Wait::WhileLeased).1);
    log.extend(leader.release(2, other.revision.0));
    log.extend(leader.release(1, 3));
    let (again, events) = leader.acquire(2, Wait::WhileLeased);
    log.extend(events);
    let (reply, events) = leader.acquire(1, Wait::WhileLeased);
    assert!(matches!(reply.outcome, Outcome::Queued(_)), "{reply:?}");
    log.extend(events);
    log.extend(leader.release(2, again.revision.0));
    // A member that lags behind registers the second wait, and may hear the reply before, between
    // or after any of the events.
    for split in 0..=log.len() {
        let mut registry = Registry::default();
        let ticket = registry.register(key(), 5_u32);
        let mut told = observe(&mut registry, &log[..split]);
        told.extend(registry.queued(&ticket, reply.revision).map(|verdict| (5, verdict)));
        told.extend(observe(&mut registry, &log[split..]));
        assert_eq!(told, [(5, granted_with(reply.revision.0))], "reply after {split} events");
    }
}

#[test]
fn a_place_that_made_room_in_the_same_step_is_not_the_new_one() {
    let mut leader = Machine::new();
    let mut log = Vec::new();
    log.extend(leader.acquire(2, Wait::WhileLeased).1);
    log.extend(leader.acquire(1, Wait::AtMost(Millis(1))).1);
    // The wait is over. The entry that ends it also carries the next acquire.
    leader.at += 10;
    let (reply, events) = leader.acquire(1, Wait::WhileLeased);
    let ends = events.iter().filter(|event| matches!(event.kind, EventKind::Deleted { .. }));
    assert_eq!(ends.count(), 1);
    log.extend(events);
    for split in 0..=log.len() {
        let mut registry = Registry::default();
        let ticket = registry.register(key(), 5_u32);
        let mut told = observe(&mut registry, &log[..split]);
        told.extend(registry.queued(&ticket, reply.revision).map(|verdict| (5, verdict)));
        told.extend(observe(&mut registry, &log[split..]));
        assert_eq!(told, [], "reply after {split} events");
        assert_eq!(registry.len(), 1);
    }
}

#[test]
fn every_end_of_a_wait_is_told() {
    type End = fn(&mut Machine, u64) -> Vec<Arc<Event>>;
    let ends: [(End, Cause); 4] = [
        (
            |machine, token| {
                let target = CancelTarget::Contender(name(), Token(token));
                machine.act(Action::Cancel(Cancel { lease: LeaseId(1).into(), target })).1
            },
            Cause::Cancelled,
        ),
        (
            |machine, _| {
                machine.at += 1_000_000;
                machine.act(Action::Skipped(0)).1
            },
            Cause::TimedOut,
        ),
        (
            |machine, _| {
                let lease = LeaseId(1).into();
                let revoke = fencepost_core::command::LeaseRevoke { lease };
                machine.act(Action::LeaseRevoke(revoke)).1
            },
            Cause::Revoked,
        ),
        // The key stays, but is taken from its lease.
        (
            |machine, _| machine.act(Action::Put(Put { key: key(), ..Put::default() })).1,
            Cause::Deleted,
        ),
    ];
    for (end, cause) in ends {
        for reply_first in [true, false] {
            let mut machine = Machine::new();
            machine.acquire(2, Wait::WhileLeased);
            let mut registry = Registry::default();
            let ticket = registry.register(key(), 5_u32);
            let (reply, events) = machine.acquire(1, Wait::AtMost(Millis(500_000)));
            let mut told = observe(&mut registry, &events);
            if reply_first {
                assert_eq!(registry.queued(&ticket, reply.revision), None);
            }
            told.extend(observe(&mut registry, &end(&mut machine, reply.revision.0)));
            if !reply_first {
                let verdict = registry.queued(&ticket, reply.revision);
                told.extend(verdict.map(|verdict| (5, verdict)));
            }
            assert_eq!(told, [(5, Verdict::Ended(cause))], "reply first: {reply_first}");
        }
    }
}

/// When a lock-delay ends, nothing changes but that: the revision is still that of the reply.
#[test]
fn a_grant_at_the_revision_of_its_reply_is_told() {
    let mut registry = Registry::default();
    let ticket = registry.register(key(), 1);
    assert_eq!(registry.queued(&ticket, Revision(5)), None);
    let mut told = Vec::new();
    registry.observe(&granted(5, 5), |_: &Key| Millis(7), &mut told);
    assert_eq!(told, [(1, granted_with(5))]);
}

#[test]
fn two_calls_on_one_place_are_both_told() {
    let mut registry = Registry::default();
    let first = registry.register(key(), 1_u32);
    let second = registry.register(key(), 2_u32);
    assert_eq!(registry.queued(&first, Revision(3)), None);
    assert_eq!(registry.queued(&second, Revision(5)), None);
    let told = observe(&mut registry, &[granted(6, 3).into()]);
    assert_eq!(told, [(1, granted_with(3)), (2, granted_with(3))]);
}

#[test]
fn who_is_forgotten_is_told_nothing() {
    let mut registry = Registry::default();
    let first = registry.register(key(), 1_u32);
    registry.forget(&first);
    registry.forget(&first);
    assert_eq!(registry.queued(&first, Revision(3)), None);
    assert_eq!(observe(&mut registry, &[granted(6, 3).into()]), []);
    assert_eq!(registry.len(), 0);
}

#[test]
fn a_snapshot_in_the_place_of_events_decides_what_it_covers() {
    let holds = || Standing::Holds { token: Token(3), remaining: Millis(7) };
    let cases = [
        // Not covered yet: the events will come.
        (Revision(2), Standing::Absent, None),
        (Revision(2), holds(), None),
        (Revision(4), Standing::Waits, None),
        (Revision(4), holds(), Some(granted_with(3))),
        (Revision(3), holds(), Some(granted_with(3))),
        (Revision(4), Standing::Absent, Some(Verdict::Gone)),
    ];
    for (revision, standing, verdict) in cases {
        for reply_first in [true, false] {
            let mut registry = Registry::default();
            let ticket = registry.register(key(), 5_u32);
            let mut told = Vec::new();
            if reply_first {
                told.extend(registry.queued(&ticket, Revision(3)));
            }
            let installed = registry.installed(revision, |_| standing.clone());
            told.extend(installed.into_iter().map(|(_, verdict)| verdict));
            if !reply_first {
                told.extend(registry.queued(&ticket, Revision(3)));
            }
            assert_eq!(told.pop(), verdict, "{revision:?} {standing:?} {reply_first}");
            assert_eq!(told, []);
            assert_eq!(registry.len() == 0, verdict.is_some());
        }
    }
}

// Requirements: S0-065.
#[test]
fn those_who_wait_are_looked_at_in_turn() {
    let mut registry = Registry::default();
    let keys: Vec<Key> = ["a/1", "b/1", "c/1", "d/1"].into_iter().map(Key::from).collect();
    let tickets: Vec<Ticket> =
        keys.iter().zip(0..).map(|(key, number)| registry.register(key.clone(), number)).collect();
    // One is not answered yet.
    for ticket in [&tickets[0], &tickets[1], &tickets[3]] {
        assert_eq!(registry.queued(ticket, Revision(5)), None);
    }
    let turn = |after: Option<&Key>, max| registry.in_turn(after, max);
    assert_eq!(turn(None, 2), [keys[0].clone(), keys[1].clone()]);
    assert_eq!(turn(Some(&keys[1]), 2), [keys[3].clone(), keys[0].clone()]);
    assert_eq!(turn(Some(&keys[3]), 9), [keys[0].clone(), keys[1].clone(), keys[3].clone()]);
    let told: Vec<&u32> = registry.waiting_at(&keys[1], Revision(5)).collect();
    assert_eq!(told, [&1]);
    // A state that has not reached the reply may still show an earlier place of the same lease.
    assert_eq!(registry.waiting_at(&keys[1], Revision(4)).count(), 0);
    assert_eq!(registry.waiting_at(&keys[2], Revision(5)).count(), 0);
}
