//! Random entries on a large state: what one entry visits, answers and remembers is bounded by
//! constants, whatever the entry asks for and whatever the state holds.

use std::sync::{Arc, LazyLock};

use fencepost_core::codec::encode_reply;
use fencepost_core::command::{
    Acquire, Compact, Compare, CompareTarget, DeleteRange, LeaseGrant, LeaseRevoke, Mode, Op, Put,
    Relation, Terms, Txn, Wait,
};
use fencepost_core::event::{EventKind, KeyValue};
use fencepost_core::limits::{
    COMMAND_BYTES_MAX, COMMAND_KEYS_MAX, DELETE_KEYS_MAX, DUE_PER_ENTRY_MAX, EVENT_WEIGHT,
    GRANTS_PER_ENTRY_MAX, KEY_VALUE_WEIGHT, LEASE_KEYS_MAX, VALUE_LEN_MAX,
};
use fencepost_core::range::{KeyRange, Order, RangeQuery, SortBy};
use fencepost_core::{
    Action, Command, Effects, Entry, Event, Key, LeaseId, LogTime, Millis, State, Value,
    contended_name,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Small keys, keys of one lease, and waiters of one lock: so many of each.
const MANY: u32 = 100_000;
/// The lease that has that many keys.
const LARGE: LeaseId = LeaseId(7);
/// The lease of the holder before that many waiters.
const HOLDER: LeaseId = LeaseId(8);
/// The lease of the first waiter.
const WAITER: i64 = 1_000;
/// Commands in one entry of these tests.
const COMMANDS_MAX: usize = 3;

/// Keys that an entry visits beside those of its commands: its timers, and the waiters that it grants.
const ENTRY_VISITS: u64 = LEASE_KEYS_MAX as u64
    + 2 * DUE_PER_ENTRY_MAX as u64
    + GRANTS_PER_ENTRY_MAX as u64
    + COMMANDS_MAX as u64;
/// Bytes of one answer.
const ANSWER_BYTES: u64 = COMMAND_BYTES_MAX + VALUE_LEN_MAX as u64 + KEY_VALUE_WEIGHT;
/// Bytes of the events of one command, or of the timers.
const EVENT_BYTES: u64 = COMMAND_BYTES_MAX
    + 2 * VALUE_LEN_MAX as u64
    + (COMMAND_KEYS_MAX + GRANTS_PER_ENTRY_MAX as u64) * EVENT_WEIGHT as u64;

fn entry(at: u64, actions: impl IntoIterator<Item = Action>) -> Entry {
    Entry { at: LogTime(at), commands: actions.into_iter().map(Command::from).collect() }
}

fn put(key: String, value: &Value, lease: LeaseId) -> Action {
    let (key, value) = (Key::from(key.as_str()), value.clone());
    Action::Put(Put { key, value, lease, ..Put::default() })
}

fn grant(id: LeaseId) -> Action {
    Action::LeaseGrant(LeaseGrant { id, ttl: Millis(60_000), ..LeaseGrant::default() })
}

fn acquire(lease: LeaseId, mode: Mode) -> Action {
    let (name, wait) = (contended_name(b"lock", lease), Wait::WhileLeased);
    let terms = Terms::default();
    Action::Acquire(Acquire { name, lease: lease.into(), mode, wait, terms })
}

/// The lease got its keys at level 1, which has no bound on them.
static LARGE_STATE: LazyLock<State> = LazyLock::new(|| {
    let mut state = State::new();
    let (small, large) = (Value::from("v"), Value::from("v".repeat(64 << 10).as_str()));
    state.apply(entry(0, [grant(LARGE), grant(HOLDER), acquire(HOLDER, Mode::Exclusive)]));
    for from in (0..MANY).step_by(1_000) {
        let numbers = from..from + 1_000;
        let plain = numbers.clone().map(|no| put(format!("k{no:06}"), &small, LeaseId::NONE));
        let leased = numbers.clone().map(|no| put(format!("l{no:06}"), &small, LARGE));
        let waiting = numbers.flat_map(|no| {
            let lease = LeaseId(WAITER + i64::from(no));
            [grant(lease), acquire(lease, Mode::Shared)]
        });
        state.apply(entry(0, plain.chain(leased).chain(waiting)));
    }
    state.apply(entry(0, (0..600).map(|no| put(format!("b{no:03}"), &large, LeaseId::NONE))));
    state.apply(entry(0, [Action::RaiseFeatureLevel(2)]));
    state
});

fn range() -> impl Strategy<Value = KeyRange> {
    let prefixes = ["", "b", "b0", "k", "k00", "k000", "l", "l01", "lock/", "none"];
    let prefix = prop::sample::select(prefixes.to_vec());
    let one = prop::sample::select(vec!["b001", "k000001", "l000001", "none"]);
    prop_oneof![
        4 => prefix.prop_map(|prefix| KeyRange::prefix(prefix.as_bytes())),
        1 => one.prop_map(|key| KeyRange::One(Key::from(key))),
    ]
}

fn query() -> impl Strategy<Value = RangeQuery> {
    let sorts = vec![SortBy::Key, SortBy::Value, SortBy::Mod];
    let limit = prop::sample::select(vec![0, 0, 1, 1_000]);
    let sort = (prop::sample::select(sorts), any::<bool>());
    (range(), limit, sort, any::<bool>(), any::<bool>()).prop_map(
        |(range, limit, (sort_by, is_sorted), keys_only, count_only)| {
            let order = if is_sorted { Order::Descending } else { Order::Unsorted };
            let base = RangeQuery::from(range);
            RangeQuery { limit, order, sort_by, keys_only, count_only, ..base }
        },
    )
}

/// A key that no other operation of a transaction writes.
fn new_key(no: u32) -> Key {
    Key::from(format!("new{no}").as_str())
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => query().prop_map(Op::Range),
        2 => (range(), any::<bool>())
            .prop_map(|(range, prev)| Op::DeleteRange(DeleteRange { range, prev })),
        1 => (any::<u32>(), 0usize..(1 << 20)).prop_map(|(no, bytes)| {
            let value = Value::from("v".repeat(bytes).as_str());
            Op::Put(Put { key: new_key(no), value, prev: true, ..Put::default() })
        }),
    ]
}

fn compare() -> impl Strategy<Value = Compare> {
    range().prop_map(|range| {
        let target = CompareTarget::Value(Value::from("v"));
        Compare { range, relation: Relation::Less, target }
    })
}

/// A few operations, each repeated as often as a request of a few kilobytes can carry it.
fn txn() -> impl Strategy<Value = Action> {
    let many = |range: std::ops::Range<usize>| prop_oneof![Just(1), range];
    (vec(compare(), 0..3), vec(op(), 1..4), many(1..100), many(1..16)).prop_map(
        |(compares, ops, repeats, inner)| {
            let repeated = |op: &Op| match op {
                // A key is written once in a transaction.
                Op::Put(_) => vec![op.clone()],
                op => vec![op.clone(); repeats / ops.len() + 1],
            };
            let ops: Vec<Op> = ops.iter().flat_map(repeated).collect();
            let has_put = ops.iter().any(|op| matches!(op, Op::Put(_)));
            let inner = if has_put { 1 } else { inner };
            let nested = |_| {
                let (success, failure) = (ops.clone(), ops.clone());
                Op::Txn(Box::new(Txn { success, failure, ..Txn::default() }))
            };
            let success: Vec<Op> = (0..inner).map(nested).collect();
            let failure = ops.clone();
            Action::Txn(Box::new(Txn { compares, success, failure }))
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let leases = vec![LARGE, HOLDER, LeaseId(WAITER), LeaseId(WAITER + 1)];
    prop_oneof![
        4 => txn(),
        2 => (range(), any::<bool>())
            .prop_map(|(range, prev)| Action::DeleteRange(DeleteRange { range, prev })),
        2 => prop::sample::select(leases)
            .prop_map(|id| Action::LeaseRevoke(LeaseRevoke { lease: id.into() })),
        1 => Just(Action::Compact(Compact { revision: LARGE_STATE.revision() })),
        1 => Just(acquire(LeaseId(WAITER + 2), Mode::Shared)),
    ]
}

/// Keys that a command may visit. A transaction counts them, and then does what it asks for.
fn visits_max(command: &Command) -> u64 {
    match command.action {
        Action::Txn(_) => 2 * COMMAND_KEYS_MAX,
        Action::DeleteRange(_) => DELETE_KEYS_MAX,
        Action::LeaseRevoke(_) => LEASE_KEYS_MAX.into(),
        _ => 1,
    }
}

fn bytes_of(kv: &KeyValue) -> u64 {
    (kv.key.len() + kv.value.len()) as u64
}

fn event_bytes(event: &Arc<Event>) -> u64 {
    let kvs = match &event.kind {
        EventKind::Put { kv, .. } => bytes_of(kv),
        EventKind::Deleted { prev, .. } => bytes_of(prev),
        _ => 0,
    };
    EVENT_WEIGHT as u64 + kvs
}

fn check(state: &mut State, entry: Entry) -> Result<(), TestCaseError> {
    let commands = entry.commands.len() as u64;
    let visits_max = entry.commands.iter().map(visits_max).sum::<u64>() + ENTRY_VISITS;
    let visits = state.work().key_visits;
    let Effects { replies, events, .. } = state.apply(entry);
    let visits = state.work().key_visits - visits;
    prop_assert!(visits <= visits_max, "{visits} visits of {visits_max}");
    for reply in &replies {
        let mut answer = Vec::new();
        encode_reply(reply, &mut answer);
        prop_assert!(answer.len() as u64 <= ANSWER_BYTES, "an answer of {} bytes", answer.len());
    }
    let bytes: u64 = events.iter().map(event_bytes).sum();
    prop_assert!(bytes <= (commands + 1) * EVENT_BYTES, "events of {bytes} bytes");
    Ok(())
}

proptest! {
    // What failed is printed. Its history would be long, so that it is not stored.
    #![proptest_config(ProptestConfig {
        cases: 48,
        max_shrink_iters: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn cost_of_an_entry_is_bounded_by_constants(
        entries in vec((vec(action(), 0..=COMMANDS_MAX), any::<bool>()), 1..4)
    ) {
        let mut state = LARGE_STATE.clone();
        let mut at = 0;
        for (actions, leases_end) in entries {
            at += if leases_end { 60_000 } else { 0 };
            check(&mut state, entry(at, actions))?;
        }
    }
}
