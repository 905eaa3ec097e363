//! What all benchmarks of the core share: names, filled states, and a stopwatch.

#![allow(dead_code, reason = "no benchmark uses all of it")]

use std::time::{Duration, Instant};

use fencepost_core::command::{Acquire, ChangeLimits, LeaseGrant, LeaseRef, QuotaChange, Release};
use fencepost_core::limits::FEATURE_LEVEL;
use fencepost_core::outcome::Outcome;
use fencepost_core::{
    Action, ClientId, Command, Entry, LeaseId, Limits, LockName, LogTime, Millis, State, Token,
};

/// Leases that share the held locks, as in the comparison with other systems.
pub(crate) const LEASES: u64 = 64;

/// A lock's name of 32 bytes. Neighbouring numbers lie far apart in the order of names, as the
/// names of unrelated locks do.
pub(crate) fn name(number: u64) -> LockName {
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    LockName::from(format!("lock/{scattered:016x}-{number:010}").as_str())
}

/// Runs one command by itself and hands its outcome back.
pub(crate) fn apply(state: &mut State, action: Action) -> Outcome {
    let entry = Entry { at: state.now(), commands: vec![Command::from(action)] };
    let mut effects = state.apply(entry);
    effects.replies.pop().expect("one command has one reply").outcome
}

/// An empty state as a new cluster has it: at the latest feature level, with a quota.
pub(crate) fn new_state() -> State {
    let mut state = State::new();
    apply(&mut state, Action::RaiseFeatureLevel(FEATURE_LEVEL));
    let quota = Some(QuotaChange::Bytes(2 << 30));
    apply(&mut state, Action::ChangeLimits(ChangeLimits { quota, ..ChangeLimits::default() }));
    state
}

/// A state whose history ring holds almost nothing, so that it does not blur what locks cost.
pub(crate) fn state_without_history() -> State {
    let mut state = new_state();
    let limits = Limits { history_events_max: 1, ..Limits::default() };
    apply(&mut state, Action::SetLimits(Box::new(limits)));
    state
}

/// Makes a lease with this id.
pub(crate) fn grant(state: &mut State, id: u64, ttl: Millis) {
    let grant = LeaseGrant {
        id: lease(id),
        ttl,
        client: ClientId::from(format!("client-{id}").as_str()),
        ..LeaseGrant::default()
    };
    let outcome = apply(state, Action::LeaseGrant(grant));
    assert!(matches!(outcome, Outcome::LeaseGranted(_)), "{outcome:?}");
}

/// The lease with this number.
pub(crate) fn lease(id: u64) -> LeaseId {
    LeaseId(id.cast_signed())
}

/// An acquire that waits, under this lease.
pub(crate) fn acquire(name: LockName, id: u64) -> Action {
    let lease = LeaseRef::from(lease(id));
    Action::Acquire(Acquire { name, lease, ..Acquire::default() })
}

/// A release of what this lease holds.
pub(crate) fn release(name: LockName, id: u64, token: Token) -> Action {
    Action::Release(Release { name, lease: LeaseRef::from(lease(id)), token })
}

/// The token of an acquire that must have been granted.
pub(crate) fn granted(outcome: &Outcome) -> Token {
    match outcome {
        Outcome::Acquired(grant) => grant.token,
        other => panic!("not granted: {other:?}"),
    }
}

/// `locks` held locks under [`LEASES`] leases.
pub(crate) fn hold(state: &mut State, locks: u64) {
    for id in 1..=LEASES {
        grant(state, id, Millis::from_secs(3_600));
    }
    for number in 0..locks {
        let outcome = apply(state, acquire(name(number), 1 + number % LEASES));
        granted(&outcome);
    }
}

/// Moves log time.
pub(crate) fn tick(state: &mut State, at: LogTime) {
    state.apply(Entry { at, commands: Vec::new() });
}

/// How long `work` takes.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
