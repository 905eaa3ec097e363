//! What the state may take, by its own account.

use fencepost_core::command::{
    Acquire, AcquireAs, AcquireMany, Caller, ChangeLimits, DeleteLock, DeleteRange, LeaseGrant,
    LeaseRevoke, Mode, Once, Op, Put, QuotaChange, Release, Terms, Txn, Wait,
};
use fencepost_core::outcome::Outcome;
use fencepost_core::quota::QUOTA_MIN;
use fencepost_core::range::KeyRange;
use fencepost_core::{
    Action, ClientId, Command, Entry, Key, LeaseId, LockName, LogTime, Millis, Reason, Seq, State,
    Token, Value, contended_name,
};

fn run(state: &mut State, action: Action) -> Outcome {
    run_once(state, action, None)
}

fn run_once(state: &mut State, action: Action, once: Option<Once>) -> Outcome {
    let command = Command { once, ..Command::from(action) };
    let mut effects = state.apply(Entry { at: LogTime(0), commands: vec![command] });
    state.audit().expect("the account is what counting gives");
    effects.replies.remove(0).outcome
}

fn change(state: &mut State, change: ChangeLimits) -> Outcome {
    run(state, Action::ChangeLimits(change))
}

fn set_quota(state: &mut State, quota: QuotaChange) -> Outcome {
    change(state, ChangeLimits { quota: Some(quota), ..ChangeLimits::default() })
}

fn state() -> State {
    let mut state = State::new();
    run(&mut state, Action::RaiseFeatureLevel(2));
    assert_eq!(set_quota(&mut state, QuotaChange::Bytes(QUOTA_MIN)), Outcome::Done);
    state
}

fn put(key: &str, bytes: usize) -> Put {
    let value = Value::from("x".repeat(bytes).as_str());
    Put { key: Key::from(key), value, ..Put::default() }
}

fn lease(state: &mut State, id: i64) -> Outcome {
    let grant = LeaseGrant { id: LeaseId(id), ttl: Millis(60_000), ..LeaseGrant::default() };
    run(state, Action::LeaseGrant(grant))
}

fn acquire(name: &str, id: i64) -> Action {
    let name = contended_name(name.as_bytes(), LeaseId(id));
    let (mode, wait, terms) = (Mode::Exclusive, Wait::WhileLeased, Terms::default());
    Action::Acquire(Acquire { name, lease: LeaseId(id).into(), mode, wait, terms })
}

fn is_full(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rejected(Reason::NoSpace(_)))
}

/// Fills the state with plain keys until one is refused, and answers with how many fit.
fn fill(state: &mut State, bytes: usize) -> usize {
    let fits = |number: &usize| {
        matches!(run(state, Action::Put(put(&format!("k{number}"), bytes))), Outcome::Put(_))
    };
    (0..100_000).take_while(fits).count()
}

#[test]
fn plain_keys_stop_at_nine_tenths_and_locks_still_work() {
    let mut state = state();
    lease(&mut state, 1);
    assert_eq!(fill(&mut state, 1 << 20), 14, "90 % of 16 MiB");
    assert!(state.quota().no_space, "the alarm is up");
    assert!(state.used_bytes() < QUOTA_MIN / 100 * 90);
    // What does not grow the state is not refused.
    assert!(matches!(run(&mut state, Action::Put(put("k0", 1 << 20))), Outcome::Put(_)));
    assert!(matches!(run(&mut state, Action::Put(put("k0", 1))), Outcome::Put(_)));
    assert!(matches!(run(&mut state, Action::Put(put("k0", 1 << 20))), Outcome::Put(_)));
    assert!(is_full(&run(&mut state, Action::Put(put("new", 1 << 20)))));
    // A contender of an etcd client counts as a lock.
    lease(&mut state, 2);
    let contender = Put { lease: LeaseId(2), ..put("lock/2", 0) };
    let txn = Txn { success: vec![Op::Put(contender)], ..Txn::default() };
    assert!(matches!(run(&mut state, Action::Txn(Box::new(txn))), Outcome::Txn(_)));
    assert!(matches!(run(&mut state, acquire("other", 1)), Outcome::Acquired(_)));
}

#[test]
fn transaction_is_refused_for_all_its_puts_together() {
    let mut state = state();
    fill(&mut state, 1 << 20);
    let before = state.revision();
    let puts = (0..3).map(|number| Op::Put(put(&format!("t{number}"), 300 << 10)));
    let txn = Txn { success: puts.collect(), ..Txn::default() };
    assert!(is_full(&run(&mut state, Action::Txn(Box::new(txn)))));
    assert_eq!(state.revision(), before);
    let smaller = Txn { success: vec![Op::Put(put("t0", 300 << 10))], ..Txn::default() };
    assert!(matches!(run(&mut state, Action::Txn(Box::new(smaller))), Outcome::Txn(_)));
}

#[test]
fn full_state_refuses_locks_and_leases_and_lets_them_go() {
    let mut state = state();
    lease(&mut state, 1);
    assert!(matches!(run(&mut state, acquire("held", 1)), Outcome::Acquired(_)));
    let terms = Terms { metadata: put("", 64 << 10).value, ..Terms::default() };
    let mut number = 0;
    loop {
        number += 1;
        let name = contended_name(format!("l{number}").as_bytes(), LeaseId(1));
        let (mode, wait, terms) = (Mode::Exclusive, Wait::Try, terms.clone());
        let acquire = Acquire { name, lease: LeaseId(1).into(), mode, wait, terms };
        if is_full(&run(&mut state, Action::Acquire(acquire))) {
            break;
        }
    }
    while !is_full(&lease(&mut state, 0)) {}
    assert!(state.used_bytes() <= QUOTA_MIN);
    assert!(matches!(
        run(&mut state, acquire("held", 1)),
        Outcome::Renewed(_) | Outcome::Acquired(_)
    ));
    let client = ClientId::from("c");
    let name = LockName::from("as");
    let (ttl, wait) = (Millis(1_000), Wait::Try);
    let as_owner = AcquireAs { name, client, ttl, wait, terms: terms.clone() };
    assert!(is_full(&run(&mut state, Action::AcquireAs(as_owner))));
    let locks = vec![(LockName::from("m"), Mode::Exclusive)];
    let many = AcquireMany { locks, lease: LeaseId(1).into(), wait: Wait::Try, terms };
    assert!(is_full(&run(&mut state, Action::AcquireMany(many))));
    // Everything that shrinks the state works.
    let held = contended_name(b"held", LeaseId(1));
    let release = Release { name: held, lease: LeaseId(1).into(), token: Token(0) };
    let released = run(&mut state, Action::Release(release));
    assert!(matches!(released, Outcome::Released | Outcome::Rejected(Reason::TokenMismatch(..))));
    let delete = DeleteRange { range: KeyRange::prefix(b"l1"), prev: false };
    assert!(matches!(run(&mut state, Action::DeleteRange(delete)), Outcome::Deleted(1.., _)));
    let revoke = LeaseRevoke { lease: LeaseId(1).into() };
    assert!(matches!(run(&mut state, Action::LeaseRevoke(revoke)), Outcome::LeaseRevoked(_)));
    assert!(matches!(lease(&mut state, 1), Outcome::LeaseGranted(_)));
}

#[test]
fn cluster_over_its_quota_can_be_read_and_cleared() {
    let mut state = State::new();
    for number in 0..40 {
        run(&mut state, Action::Put(put(&format!("k{number}"), 1 << 20)));
    }
    run(&mut state, Action::RaiseFeatureLevel(2));
    set_quota(&mut state, QuotaChange::Bytes(QUOTA_MIN));
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let mut state = State::decode(&bytes).expect("it can be read");
    assert!(state.used_bytes() > QUOTA_MIN);
    assert!(is_full(&run(&mut state, Action::Put(put("one", 1)))));
    let delete = DeleteRange { range: KeyRange::prefix(b"k"), prev: false };
    while matches!(run(&mut state, Action::DeleteRange(delete.clone())), Outcome::DeletedPart(_)) {}
    assert!(matches!(run(&mut state, Action::Put(put("one", 1))), Outcome::Put(_)));
}

#[test]
fn quota_of_the_leader_only_goes_down_and_not_against_the_operator() {
    let mut state = State::new();
    assert!(matches!(set_quota(&mut state, QuotaChange::Auto), Outcome::Rejected(_)), "level 1");
    run(&mut state, Action::RaiseFeatureLevel(2));
    assert_eq!((state.quota().bytes, state.quota().is_auto), (0, true));
    for (proposed, present) in [(1 << 30, 1 << 30), (2 << 30, 1 << 30), (1 << 28, 1 << 28)] {
        set_quota(&mut state, QuotaChange::Fit(proposed));
        assert_eq!(state.quota().bytes, present);
    }
    set_quota(&mut state, QuotaChange::Bytes(3 << 30));
    set_quota(&mut state, QuotaChange::Fit(1 << 28));
    assert_eq!((state.quota().bytes, state.quota().is_auto), (3 << 30, false));
    set_quota(&mut state, QuotaChange::Auto);
    set_quota(&mut state, QuotaChange::Fit(1 << 30));
    assert_eq!((state.quota().bytes, state.quota().is_auto), (1 << 30, true));
    let too_small = set_quota(&mut state, QuotaChange::Bytes(QUOTA_MIN - 1));
    assert_eq!(too_small, Outcome::Rejected(Reason::LimitsUnsound));
}

#[test]
fn change_keeps_the_other_limits_and_clears_the_alarm() {
    let mut state = state();
    fill(&mut state, 1 << 20);
    let before = state.limits().clone();
    let wanted = ChangeLimits { ttl_max: Some(Millis(7_200_000)), ..ChangeLimits::default() };
    assert_eq!(change(&mut state, wanted), Outcome::Done);
    assert_eq!(state.limits().ttl_max, Millis(7_200_000));
    assert_eq!(state.limits().leases_max, before.leases_max);
    assert!(state.quota().no_space);
    let clear = ChangeLimits { clear_no_space: true, ..ChangeLimits::default() };
    assert_eq!(change(&mut state, clear), Outcome::Done);
    assert!(!state.quota().no_space);
    let unsound = ChangeLimits { leases_per_client_max: Some(0), ..ChangeLimits::default() };
    assert_eq!(change(&mut state, unsound), Outcome::Rejected(Reason::LimitsUnsound));
}

#[test]
fn one_client_cannot_take_all_leases_and_one_address_not_all_clients() {
    let mut state = state();
    let few = ChangeLimits {
        leases_per_client_max: Some(2),
        clients_per_address_max: Some(2),
        ..ChangeLimits::default()
    };
    change(&mut state, few);
    let grant = |state: &mut State, client: &str, address: &str| {
        let (client, address) = (ClientId::from(client), ClientId::from(address));
        let grant = LeaseGrant { ttl: Millis(60_000), client, address, ..LeaseGrant::default() };
        run(state, Action::LeaseGrant(grant))
    };
    for _ in 0..2 {
        assert!(matches!(grant(&mut state, "a", "10.0.0.1:1"), Outcome::LeaseGranted(_)));
    }
    let third = grant(&mut state, "a", "10.0.0.1:1");
    assert_eq!(third, Outcome::Rejected(Reason::ClientLeasesFull(2)));
    assert!(matches!(grant(&mut state, "b", "10.0.0.1:2"), Outcome::LeaseGranted(_)));
    let third = grant(&mut state, "c", "10.0.0.1:3");
    assert_eq!(third, Outcome::Rejected(Reason::AddressClientsFull(2)));
    assert!(matches!(grant(&mut state, "c", "10.0.0.2:3"), Outcome::LeaseGranted(_)));
    // A client that moves makes room.
    assert!(matches!(grant(&mut state, "b", "10.0.0.2:2"), Outcome::LeaseGranted(_)));
    assert!(matches!(grant(&mut state, "d", "10.0.0.1:3"), Outcome::LeaseGranted(_)));
}

#[test]
fn refused_requests_do_not_fill_a_state_that_is_over_its_quota() {
    let mut state = State::new();
    lease(&mut state, 1);
    for number in 0..24 {
        run(&mut state, Action::Put(put(&format!("k{number}"), 1 << 20)));
    }
    run(&mut state, Action::RaiseFeatureLevel(2));
    set_quota(&mut state, QuotaChange::Bytes(QUOTA_MIN));
    let before = state.used_bytes();
    for seq in 1..200 {
        let once = Once { by: Caller::Lease(LeaseId(1)), seq: Seq(seq), ack_upto: Seq::NONE };
        assert!(is_full(&run_once(&mut state, acquire("a", 1), Some(once))));
    }
    assert!(state.used_bytes() - before < 1_000);
}

/// Each request comes from a client that was never seen.
#[test]
fn unknown_clients_do_not_grow_a_full_state() {
    let mut state = state();
    lease(&mut state, 1);
    fill(&mut state, 1 << 20);
    while !is_full(&run(
        &mut state,
        Action::LeaseGrant(LeaseGrant { ttl: Millis(60_000), ..LeaseGrant::default() }),
    )) {}
    let before = state.used_bytes();
    let client = |no: u32| ClientId::from(format!("client-{no}").as_str());
    let once =
        |no: u32| Some(Once { by: Caller::Client(client(no)), seq: Seq(1), ack_upto: Seq::NONE });
    for no in 0..100 {
        let revoke = LeaseRevoke { lease: LeaseId(99_999).into() };
        let revoked = run_once(&mut state, Action::LeaseRevoke(revoke), once(no));
        assert_eq!(revoked, Outcome::Rejected(Reason::LeaseNotFound(LeaseId(99_999))));
        let grant = LeaseGrant { client: client(no), ttl: Millis(60_000), ..LeaseGrant::default() };
        assert!(is_full(&run_once(&mut state, Action::LeaseGrant(grant), once(no))));
    }
    assert_eq!(state.used_bytes(), before);
    // An operator is no client that the state knows, and ends a lease all the same.
    let revoke = LeaseRevoke { lease: LeaseId(1).into() };
    let revoked = run_once(&mut state, Action::LeaseRevoke(revoke), once(200));
    assert_eq!(revoked, Outcome::LeaseRevoked(0));
}

#[test]
fn deleted_lock_forgets_its_delay() {
    let mut state = state();
    let before = state.used_bytes();
    lease(&mut state, 1);
    let Action::Acquire(mut held) = acquire("a", 1) else { unreachable!() };
    held.terms.lock_delay = Millis(2_000_000_000);
    run(&mut state, Action::Acquire(held));
    state.apply(Entry { at: LogTime(60_000), commands: Vec::new() });
    assert!(state.used_bytes() > before, "it is delayed");
    let name = LockName::from("a");
    let deleted = run(&mut state, Action::DeleteLock(DeleteLock { name }));
    assert_eq!((deleted, state.used_bytes()), (Outcome::Done, before));
}

const MIB: usize = 1 << 20;

/// Overwrites one key with large values.
fn overwrite(state: &mut State, times: usize) {
    for _ in 0..times {
        run(state, Action::Put(put("k", MIB)));
    }
}

#[test]
fn history_of_a_small_state_is_small_from_level_2_on() {
    let mut first = State::new();
    overwrite(&mut first, 100);
    assert!(first.history().bytes() > 60 * MIB, "level 1 keeps its effect");
    let mut second = State::new();
    run(&mut second, Action::RaiseFeatureLevel(2));
    overwrite(&mut second, 100);
    let bytes = second.history().bytes();
    assert!((13 * MIB..=16 * MIB).contains(&bytes), "{bytes} bytes");
    // A member that has just raised the level drops what is too much.
    run(&mut first, Action::RaiseFeatureLevel(2));
    overwrite(&mut first, 1);
    assert!(first.history().bytes() <= 16 * MIB, "{} bytes", first.history().bytes());
}

#[test]
fn history_grows_and_shrinks_with_the_state() {
    let mut state = State::new();
    run(&mut state, Action::RaiseFeatureLevel(2));
    for number in 0..24 {
        run(&mut state, Action::Put(put(&format!("k{number}"), MIB)));
    }
    let mut copy = State::new();
    overwrite(&mut state, 20);
    let bytes = state.history().bytes();
    assert!((20 * MIB..=25 * MIB).contains(&bytes), "{bytes} bytes beside 25 MiB");
    // Members that were made from a snapshot forget the same.
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    copy.clone_from(&State::decode(&bytes).expect("it was just written"));
    for state in [&mut state, &mut copy] {
        for number in 0..24 {
            let range = KeyRange::One(Key::from(format!("k{number}").as_str()));
            run(state, Action::DeleteRange(DeleteRange { range, prev: false }));
        }
    }
    assert!(state.history().bytes() <= 16 * MIB, "{} bytes", state.history().bytes());
    assert_eq!(state.hash(), copy.hash());
}
