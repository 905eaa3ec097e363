//! The cost of one entry is bounded by constants, whatever the state holds.

use std::sync::Arc;

use fencepost_core::command::{
    Acquire, AcquireMany, Compact, Compare, CompareTarget, DeleteRange, LeaseGrant, LeaseRevoke,
    Mode, Op, Put, Relation, Terms, Txn, Wait,
};
use fencepost_core::event::EventKind;
use fencepost_core::limits::{
    COMMAND_BYTES_MAX, COMMAND_KEYS_MAX, COMPACTED_PER_ENTRY_MAX, DELETE_KEYS_MAX, LEASE_KEYS_MAX,
    TTL_MAX, TTL_MAX_DEFAULT,
};
use fencepost_core::outcome::{OpAnswer, Outcome};
use fencepost_core::range::{KeyRange, Order, RangeQuery, SortBy};
use fencepost_core::{
    Action, Command, Effects, Entry, Event, Key, LeaseId, Limits, LockName, LogTime, Millis,
    Reason, Revision, State, Value, contended_name,
};

fn entry(at: u64, actions: Vec<Action>) -> Entry {
    let commands = actions.into_iter().map(Command::from).collect();
    Entry { at: LogTime(at), commands }
}

/// Applies one command and answers with its outcome.
fn run(state: &mut State, action: Action) -> Outcome {
    let Effects { mut replies, .. } = state.apply(entry(0, vec![action]));
    replies.remove(0).outcome
}

fn put(key: String, value: &str, lease: LeaseId) -> Action {
    let (key, value) = (Key::from(key.as_str()), Value::from(value));
    Action::Put(Put { key, value, lease, ..Put::default() })
}

fn state_with_keys(level: u32, count: u32, value: &str) -> State {
    let mut state = State::new();
    run(&mut state, Action::RaiseFeatureLevel(level));
    for from in (0..count).step_by(1_000) {
        let keys = from..count.min(from + 1_000);
        let puts = keys.map(|number| put(format!("k{number:06}"), value, LeaseId::NONE));
        state.apply(entry(0, puts.collect()));
    }
    state
}

fn has(state: &State, key: &str) -> bool {
    state.count(&KeyRange::One(Key::from(key))) == 1
}

fn all() -> KeyRange {
    KeyRange::prefix(b"")
}

fn range() -> Op {
    Op::Range(RangeQuery::from(all()))
}

/// A transaction of `outer` × 50 reads of everything: a request of a few bytes each.
fn tree(outer: usize) -> Txn {
    let inner = || Txn { success: vec![range(); 50], ..Txn::default() };
    let success = (0..outer).map(|_| Op::Txn(Box::new(inner()))).collect();
    Txn { success, ..Txn::default() }
}

#[test]
fn transaction_that_reads_the_tree_2000_times_is_refused_before_it_writes() {
    let mut state = state_with_keys(2, 40_000, "v");
    let before = state.revision();
    let mut txn = tree(40);
    txn.success.insert(0, Op::Put(Put { key: Key::from("new"), ..Put::default() }));
    let outcome = run(&mut state, Action::Txn(Box::new(txn)));
    assert_eq!(outcome, Outcome::Rejected(Reason::TooManyKeys(COMMAND_KEYS_MAX)));
    assert_eq!(state.revision(), before);
    assert!(!has(&state, "new"));
    assert!(state.work().key_visits <= 40_000 + COMMAND_KEYS_MAX);
}

/// Only the key of one is shown, but all values are compared.
#[test]
fn sorting_by_value_costs_the_bytes_of_all_values() {
    let mut state = state_with_keys(2, 200, &"v".repeat(100_000));
    let sorted = |sort_by| {
        let order = Order::Descending;
        Op::Range(RangeQuery { limit: 1, keys_only: true, order, sort_by, ..all().into() })
    };
    let txn = |op: Op| Action::Txn(Box::new(Txn { success: vec![op], ..Txn::default() }));
    let outcome = run(&mut state, txn(sorted(SortBy::Value)));
    assert_eq!(outcome, Outcome::Rejected(Reason::TooManyBytes(COMMAND_BYTES_MAX)));
    assert!(matches!(run(&mut state, txn(sorted(SortBy::Mod))), Outcome::Txn(_)));
}

/// A state of many pieces, of which none is much longer than its longest value.
#[test]
fn state_is_encoded_in_pieces() {
    let state = state_with_keys(2, 5_000, &"v".repeat(300));
    let mut whole = Vec::new();
    state.encode(&mut whole);
    let (mut joined, mut longest) = (Vec::new(), 0);
    state.encode_to(&mut |piece| {
        joined.extend_from_slice(piece);
        longest = longest.max(piece.len());
    });
    assert_eq!(joined, whole);
    assert!(longest < 128 << 10 && whole.len() > 1 << 20, "{longest} of {}", whole.len());
}

#[test]
fn entry_of_level_1_keeps_its_effect_and_builds_no_answer_that_none_waits_for() {
    let mut state = state_with_keys(1, 4_000, "v");
    let mut txn = tree(40);
    txn.success.push(Op::Put(Put { key: Key::from("new"), ..Put::default() }));
    let visits = state.work().key_visits;
    let effects = state.apply_unanswered(entry(0, vec![Action::Txn(Box::new(txn.clone()))]));
    let Outcome::Txn(answer) = &effects.replies[0].outcome else { panic!("level 1 has no bound") };
    let Some(OpAnswer::Txn(inner)) = answer.answers.first() else { panic!("it was done") };
    assert!(matches!(&inner.answers[0], OpAnswer::Range(range) if range.kvs.is_empty()));
    assert!(has(&state, "new"));
    assert!(state.work().key_visits - visits < 10);
    // A leader refuses it although the log has no rule against it.
    assert!(state_with_keys(1, 4_000, "v").check_txn_cost(&txn).is_err());
}

#[test]
fn replica_that_owes_no_answer_has_the_same_state() {
    let mut txn = tree(1);
    txn.success
        .push(Op::DeleteRange(DeleteRange { range: KeyRange::prefix(b"k0000"), prev: true }));
    let txn = Action::Txn(Box::new(txn));
    for level in [1, 2] {
        let (mut owed, mut unowed) =
            (state_with_keys(level, 1_000, "v"), state_with_keys(level, 1_000, "v"));
        let one = owed.apply(entry(0, vec![txn.clone()]));
        let other = unowed.apply_unanswered(entry(0, vec![txn.clone()]));
        assert_eq!(one.events, other.events);
        assert_eq!(owed.hash(), unowed.hash());
    }
}

#[test]
fn answer_of_one_command_is_bounded_in_bytes() {
    let value = "x".repeat(64 << 10);
    let mut state = state_with_keys(2, 200, &value);
    let once = Txn { success: vec![range()], ..Txn::default() };
    let outcome = run(&mut state, Action::Txn(Box::new(once.clone())));
    assert!(matches!(outcome, Outcome::Txn(_)), "12.5 MiB fit");
    let twice = Txn { success: vec![range(); 2], ..Txn::default() };
    let outcome = run(&mut state, Action::Txn(Box::new(twice)));
    assert_eq!(outcome, Outcome::Rejected(Reason::TooManyBytes(COMMAND_BYTES_MAX)));
    // What is removed and shown counts for the history and for the answer.
    let delete = Op::DeleteRange(DeleteRange { range: all(), prev: true });
    let outcome =
        run(&mut state, Action::Txn(Box::new(Txn { success: vec![delete], ..Txn::default() })));
    assert_eq!(outcome, Outcome::Rejected(Reason::TooManyBytes(COMMAND_BYTES_MAX)));
    let limited = RangeQuery { limit: 10, ..RangeQuery::from(all()) };
    let limited = Txn { success: vec![Op::Range(limited); 10], ..Txn::default() };
    assert!(matches!(run(&mut state, Action::Txn(Box::new(limited))), Outcome::Txn(_)));
}

#[test]
fn compares_count_what_they_visit() {
    let mut state = state_with_keys(2, 60_000, "v");
    let compare = Compare {
        range: all(),
        relation: Relation::Greater,
        target: CompareTarget::Create(Revision(0)),
    };
    let one = Txn { compares: vec![compare.clone()], ..Txn::default() };
    assert!(matches!(run(&mut state, Action::Txn(Box::new(one))), Outcome::Txn(_)));
    let two = Txn { compares: vec![compare; 2], ..Txn::default() };
    let outcome = run(&mut state, Action::Txn(Box::new(two)));
    assert_eq!(outcome, Outcome::Rejected(Reason::TooManyKeys(COMMAND_KEYS_MAX)));
}

#[test]
fn compares_of_values_count_their_bytes() {
    let large = "v".repeat(1 << 20);
    let mut state = state_with_keys(2, 20, &large);
    let compare = |value: &str| {
        let target = CompareTarget::Value(Value::from(value));
        let compares = vec![Compare { range: all(), relation: Relation::Equal, target }];
        Action::Txn(Box::new(Txn { compares, ..Txn::default() }))
    };
    let outcome = run(&mut state, compare(&large));
    assert_eq!(outcome, Outcome::Rejected(Reason::TooManyBytes(COMMAND_BYTES_MAX)));
    assert!(matches!(run(&mut state, compare("v")), Outcome::Txn(_)), "one byte of each");
}

#[test]
fn keys_alone_count_as_bytes_of_an_answer() {
    let mut state = state_with_keys(2, 0, "");
    for from in (0..20_000).step_by(1_000) {
        let long = "k".repeat(1_000);
        let puts = (from..from + 1_000).map(|no| put(format!("{long}{no:06}"), "", LeaseId::NONE));
        state.apply(entry(0, puts.collect()));
    }
    let keys = Op::Range(RangeQuery { keys_only: true, ..RangeQuery::from(all()) });
    let txn = Txn { success: vec![keys], ..Txn::default() };
    let outcome = run(&mut state, Action::Txn(Box::new(txn)));
    assert_eq!(outcome, Outcome::Rejected(Reason::TooManyBytes(COMMAND_BYTES_MAX)));
}

/// With the key of one lock, a waiter for 128 locks leaves all their queues.
#[test]
fn delete_in_a_transaction_counts_what_goes_along() {
    let mut state = state_with_keys(2, 0, "");
    let name = |no: u32| format!("lock{no:03}");
    for id in 1..=1_000 {
        let lease = LeaseId(id);
        let grant = LeaseGrant { id: lease, ttl: Millis(60_000), ..LeaseGrant::default() };
        let locks =
            (0..128).map(|no| (contended_name(name(no).as_bytes(), lease), Mode::Exclusive));
        let (locks, wait, terms) = (locks.collect(), Wait::WhileLeased, Terms::default());
        let many = AcquireMany { locks, lease: lease.into(), wait, terms };
        let actions = vec![Action::LeaseGrant(grant), Action::AcquireMany(many)];
        state.apply(entry(0, actions));
    }
    let range = KeyRange::prefix(format!("{}/", name(0)).as_bytes());
    let delete = Op::DeleteRange(DeleteRange { range, prev: false });
    let txn = Txn { success: vec![delete], ..Txn::default() };
    let outcome = run(&mut state, Action::Txn(Box::new(txn)));
    assert_eq!(outcome, Outcome::Rejected(Reason::TooManyKeys(COMMAND_KEYS_MAX)));
    assert_eq!(state.count(&all()), 128_000);
}

#[test]
fn transaction_that_writes_and_reads_its_own_writes_is_counted() {
    let mut state = state_with_keys(2, 0, "");
    let value = Value::from("x".repeat(100 << 10).as_str());
    let write = |number: u32| {
        let key = Key::from(format!("k{number}").as_str());
        Op::Put(Put { key, value: value.clone(), ..Put::default() })
    };
    let mut success: Vec<Op> = (0..64).map(write).collect();
    success.extend(vec![range(); 60]);
    let outcome = run(&mut state, Action::Txn(Box::new(Txn { success, ..Txn::default() })));
    assert_eq!(outcome, Outcome::Rejected(Reason::TooManyBytes(COMMAND_BYTES_MAX)));
}

#[test]
fn lease_takes_no_more_keys_than_may_end_at_once() {
    for level in [1, 2] {
        let mut state = state_with_keys(level, 0, "");
        let grant = LeaseGrant { id: LeaseId(7), ttl: Millis(60_000), ..LeaseGrant::default() };
        run(&mut state, Action::LeaseGrant(grant));
        let puts = (0..LEASE_KEYS_MAX).map(|number| put(format!("k{number}"), "", LeaseId(7)));
        let effects = state.apply(entry(0, puts.collect()));
        assert!(effects.replies.iter().all(|reply| matches!(reply.outcome, Outcome::Put(_))));
        let further = run(&mut state, put("further".into(), "", LeaseId(7)));
        let full = Outcome::Rejected(Reason::LeaseKeysFull(LEASE_KEYS_MAX));
        assert_eq!(further == full, level == 2, "level {level}");
        let again = run(&mut state, put("k0".into(), "again", LeaseId(7)));
        assert!(matches!(again, Outcome::Put(_)), "a key that it has can be written again");
    }
}

/// What one entry may cost in these tests: the largest of its bounds, and the keys that it names.
const VISITS_MAX: u64 = COMMAND_KEYS_MAX + 4_096;

/// Applies an entry, checks its cost, and that a copy of the state goes on in the same way.
fn step(state: &mut State, entry: Entry) -> Effects {
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let mut copy = State::decode(&bytes).expect("a state can be read back");
    let visits = state.work().key_visits;
    let effects = state.apply(entry.clone());
    assert!(state.work().key_visits - visits <= VISITS_MAX);
    copy.apply_unanswered(entry);
    assert_eq!(copy.hash(), state.hash(), "a copy goes on like the original");
    effects
}

#[test]
fn delete_of_a_large_range_goes_on_with_the_next_command() {
    let mut state = state_with_keys(2, 10_000, "v");
    let (mut range, mut deleted, mut commands) = (all(), 0, 0);
    loop {
        let delete = Action::DeleteRange(DeleteRange { range, prev: true });
        let mut effects = step(&mut state, entry(0, vec![delete]));
        commands += 1;
        match effects.replies.remove(0).outcome {
            Outcome::DeletedPart(part) => {
                assert_eq!((part.count, part.removed.len()), (DELETE_KEYS_MAX, 4_096));
                deleted += part.count;
                range = KeyRange::From(part.next);
            }
            Outcome::Deleted(count, _) => break assert_eq!(deleted + count, 10_000),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((commands, state.count(&all())), (3, 0));
}

#[test]
fn delete_of_large_values_is_bounded_in_bytes() {
    let mut state = state_with_keys(2, 200, &"x".repeat(100 << 10));
    let delete = Action::DeleteRange(DeleteRange { range: all(), prev: true });
    let Outcome::DeletedPart(part) = run(&mut state, delete) else { panic!("20 MB are too many") };
    assert!((80..90).contains(&part.count), "{}", part.count);
}

#[test]
fn delete_at_level_1_removes_all_at_one_revision() {
    let mut state = state_with_keys(1, 10_000, "v");
    let delete = Action::DeleteRange(DeleteRange { range: all(), prev: false });
    assert_eq!(run(&mut state, delete), Outcome::Deleted(10_000, Vec::new()));
}

/// A lease with more keys than may end at once: it got them at level 1.
fn state_with_large_lease(keys: u32) -> State {
    let mut state = State::new();
    let grant = LeaseGrant { id: LeaseId(7), ttl: Millis(60_000), ..LeaseGrant::default() };
    run(&mut state, Action::LeaseGrant(grant));
    for from in (0..keys).step_by(1_000) {
        let puts = (from..from + 1_000).map(|number| put(format!("k{number:06}"), "", LeaseId(7)));
        state.apply(entry(0, puts.collect()));
    }
    run(&mut state, Action::RaiseFeatureLevel(2));
    state
}

#[test]
fn large_lease_is_over_at_once_and_ends_in_steps() {
    let mut state = state_with_large_lease(100_000);
    step(&mut state, entry(60_000, vec![]));
    assert_eq!(state.count(&all()), 80_000);
    let renewed = run(&mut state, put("further".into(), "", LeaseId(7)));
    assert_eq!(renewed, Outcome::Rejected(Reason::LeaseNotFound(LeaseId(7))));
    let grant = LeaseGrant { id: LeaseId(7), ttl: Millis(60_000), ..LeaseGrant::default() };
    let again = run(&mut state, Action::LeaseGrant(grant.clone()));
    assert_eq!(again, Outcome::Rejected(Reason::LeaseExists(LeaseId(7))));
    let mut entries = 0;
    while state.next_deadline().is_some() {
        step(&mut state, entry(60_000, vec![]));
        entries += 1;
    }
    assert_eq!(state.count(&all()), 0);
    assert!(entries < 12, "{entries} entries");
    assert!(matches!(run(&mut state, Action::LeaseGrant(grant)), Outcome::LeaseGranted(_)));
}

/// Whatever the number of locks: an entry looks at those that are due, and at the next one.
// Requirements: S0-108, S1-099.
#[test]
fn expiry_visits_the_locks_that_are_due_and_no_others() {
    const LOCKS: u32 = 20_000;
    let mut state = state_with_keys(2, 0, "");
    for from in (1..=LOCKS).step_by(1_000) {
        let granted = (from..from + 1_000).flat_map(|number| {
            let (id, ttl) = (LeaseId(number.into()), Millis(60_000 + u64::from(number)));
            let lease = Action::LeaseGrant(LeaseGrant { id, ttl, ..LeaseGrant::default() });
            [lease, acquire_lock(&format!("lock{number}"), id)]
        });
        state.apply(entry(0, granted.collect()));
    }
    assert_eq!(state.count(&all()), u64::from(LOCKS));
    let mut visits = |at| {
        let before = *state.work();
        state.apply(entry(at, vec![]));
        let after = *state.work();
        let ended = after.leases_expired - before.leases_expired;
        let keys = after.key_visits - before.key_visits;
        (ended, after.deadline_visits - before.deadline_visits, keys)
    };
    assert_eq!(visits(60_000), (0, 1, 0), "none is due");
    assert_eq!(visits(60_003), (3, 4, 3), "three are due");
    assert_eq!(visits(60_003), (0, 1, 0), "they are gone");
    assert_eq!(state.next_deadline(), Some(LogTime(60_004)));
}

fn acquire_lock(name: &str, lease: LeaseId) -> Action {
    let name = LockName::from(name);
    let (mode, wait, terms) = (Mode::Exclusive, Wait::WhileLeased, Terms::default());
    Action::Acquire(Acquire { name, lease: lease.into(), mode, wait, terms })
}

#[test]
fn revoked_lease_with_many_keys_says_how_many_go() {
    let mut state = state_with_large_lease(40_000);
    let revoke = LeaseRevoke { lease: LeaseId(7).into() };
    assert_eq!(run(&mut state, Action::LeaseRevoke(revoke)), Outcome::LeaseRevoked(40_000));
    step(&mut state, entry(0, vec![]));
    step(&mut state, entry(0, vec![]));
    assert_eq!(state.count(&all()), 0);
}

fn acquire(lease: i64, mode: Mode) -> Action {
    let name = contended_name(b"lock", LeaseId(lease));
    let (wait, terms) = (Wait::WhileLeased, Terms::default());
    Action::Acquire(Acquire { name, lease: LeaseId(lease).into(), mode, wait, terms })
}

fn held(effects: &Effects) -> usize {
    let granted = |event: &&Arc<Event>| matches!(event.kind, EventKind::Granted(_));
    effects.events.iter().filter(granted).count()
}

#[test]
fn release_before_100000_shared_waiters_grants_them_in_several_entries() {
    let mut state = state_with_keys(2, 0, "");
    let grant = |id| {
        let grant = LeaseGrant { id: LeaseId(id), ttl: Millis(600_000), ..LeaseGrant::default() };
        Action::LeaseGrant(grant)
    };
    state.apply(entry(0, vec![grant(1), acquire(1, Mode::Exclusive)]));
    for from in (2..100_002).step_by(2_000) {
        let waiters = from..from + 2_000;
        let actions = waiters.flat_map(|id| [grant(id), acquire(id, Mode::Shared)]);
        state.apply(entry(0, actions.collect()));
    }
    let revoke = LeaseRevoke { lease: LeaseId(1).into() };
    let mut granted = held(&step(&mut state, entry(0, vec![Action::LeaseRevoke(revoke)])));
    assert!(granted < 20_000, "{granted} at once");
    // One that comes while the others are granted does not overtake them.
    let late = step(&mut state, entry(0, vec![grant(200_000), acquire(200_000, Mode::Shared)]));
    assert!(matches!(late.replies[1].outcome, Outcome::Queued(_)));
    granted += held(&late);
    let mut entries = 0;
    while state.next_deadline().is_some_and(|deadline| deadline <= LogTime(0)) {
        granted += held(&step(&mut state, entry(0, vec![])));
        entries += 1;
    }
    assert_eq!(granted, 100_001);
    assert!(entries < 10, "{entries} entries");
    state.audit().expect("the state agrees with itself");
}

#[test]
fn compaction_drops_events_with_the_entries_that_follow() {
    let mut state = state_with_keys(2, 40_000, "v");
    let revision = state.revision();
    step(&mut state, entry(0, vec![Action::Compact(Compact { revision })]));
    assert_eq!(state.history().compacted(), revision);
    let before = state.history().len();
    step(&mut state, entry(0, vec![]));
    assert_eq!(before - state.history().len(), COMPACTED_PER_ENTRY_MAX as usize);
    for _ in 0..10 {
        step(&mut state, entry(0, vec![]));
    }
    assert_eq!(state.history().len(), 1);
}

#[test]
fn new_cluster_allows_leases_of_an_hour_and_an_older_one_keeps_its_limit() {
    let ttl_max = |state: &State| state.limits().ttl_max;
    assert_eq!(ttl_max(&state_with_keys(2, 0, "")), TTL_MAX_DEFAULT);
    let mut older = State::new();
    older.apply(entry(60_000, vec![Action::RaiseFeatureLevel(2)]));
    assert_eq!(ttl_max(&older), TTL_MAX);
    let mut lowered = State::new();
    let limits = Limits { ttl_max: Millis(90_000), ..Limits::default() };
    run(&mut lowered, Action::SetLimits(Box::new(limits)));
    run(&mut lowered, Action::RaiseFeatureLevel(2));
    assert_eq!(ttl_max(&lowered), Millis(90_000));
}
