//! A state with something in every field.

use fencepost_core::command::{
    Acquire, AcquireAs, AcquireMany, Caller, Compact, Disconnect, ForceRelease, LeaseGrant, Mode,
    NodeLost, Once, Op, PublishKey, RevokeKey, RotateKey, Terms, Txn, Wait,
};
use fencepost_core::range::{KeyRange, RangeQuery};
use fencepost_core::{
    Action, Boot, ClientId, Command, Entry, Key, LeaseId, Limits, LockName, LogTime, Millis,
    NodeId, Outcome, PublicKey, Revision, Seq, State, Token,
};

use crate::examples::{call, lease, put, rich_terms};

/// Applies one entry. All of it must succeed, or the script would not reach what it is for.
pub(crate) fn apply(state: &mut State, at: u64, actions: impl IntoIterator<Item = Action>) {
    let commands = actions.into_iter().map(Command::from).collect();
    for reply in state.apply(Entry { at: LogTime(at), commands }).replies {
        assert!(!matches!(reply.outcome, Outcome::Rejected(_)), "{:?}", reply.outcome);
    }
}

pub(crate) fn apply_once(state: &mut State, by: Caller, seq: u64, action: Action) {
    let once = Some(Once { by, seq: Seq(seq), ack_upto: Seq(1) });
    let command = Command { once, ..Command::from(action) };
    let at = state.now();
    state.apply(Entry { at, commands: vec![command] });
}

pub(crate) fn grant(id: i64, ttl: u64, client: &str) -> LeaseGrant {
    let client = ClientId::from(client);
    LeaseGrant { id: LeaseId(id), ttl: Millis(ttl), client, ..LeaseGrant::default() }
}

pub(crate) fn acquire(name: &str, id: i64, mode: Mode) -> Acquire {
    Acquire { name: LockName::from(name), lease: lease(id), mode, ..Acquire::default() }
}

/// A state with something in every field: clients, leases, keys of all kinds, queues, windows,
/// delays, floors, lost members, history, and timers that are overdue.
pub(crate) fn rich_state() -> State {
    let mut state = State::new();
    grow_leases(&mut state);
    grow_queues(&mut state);
    grow_floors(&mut state);
    // More is due from here on than an entry may end: a budget among it.
    let limits = Limits { due_per_entry_max: 1, ..Limits::default() };
    apply(&mut state, 4_000, [Action::SetLimits(Box::new(limits))]);
    apply(&mut state, 5_500, []);
    state
}

pub(crate) fn grow_leases(state: &mut State) {
    let leave = Some(Millis(60_000));
    let address = ClientId::from("10.0.0.7:1");
    let bob = LeaseGrant { revoke_on_disconnect: leave, address, ..grant(2, 90_000, "bob") };
    apply(state, 10, [Action::LeaseGrant(bob), Action::LeaseGrant(grant(3, 80_000, ""))]);
    let alice = Caller::Client("alice".into());
    apply_once(state, alice.clone(), 1, Action::LeaseGrant(grant(1, 70_000, "alice")));
    apply_once(state, alice.clone(), 2, Action::LeaseGrant(grant(1, 70_000, "alice")));
    let guest = Action::LeaseGrant(grant(0xfeed, 500, "guest"));
    apply(state, 20, [guest, Action::Disconnect(Disconnect { lease: lease(2), renewal: 0 })]);
    let carol = AcquireAs {
        name: "owned".into(),
        client: "carol".into(),
        ttl: Millis(75_000),
        wait: Wait::AtMost(Millis(74_000)),
        ..AcquireAs::default()
    };
    let dave = AcquireAs { client: "dave".into(), ..carol.clone() };
    apply(state, 30, [Action::AcquireAs(carol)]);
    apply_once(state, Caller::Client("dave".into()), 1, Action::AcquireAs(dave));
}

pub(crate) fn grow_queues(state: &mut State) {
    let first = Acquire {
        terms: Terms { budget: Millis(5_000), hold_max: Millis(5_000), ..rich_terms() },
        ..acquire("jobs/a", 1, Mode::Exclusive)
    };
    let second = Acquire {
        wait: Wait::AtMost(Millis(5_100)),
        terms: Terms { call: call(4, 2), ..Terms::default() },
        ..acquire("jobs/a", 2, Mode::Shared)
    };
    apply_once(state, Caller::Lease(LeaseId(1)), 1, Action::Acquire(first.clone()));
    apply_once(state, Caller::Lease(LeaseId(1)), 2, Action::Acquire(first));
    apply_once(state, Caller::Lease(LeaseId(2)), 4, Action::Acquire(second));
    let many = AcquireMany {
        locks: vec![("jobs/z".into(), Mode::Exclusive), ("jobs/a".into(), Mode::Exclusive)],
        lease: lease(3),
        ..AcquireMany::default()
    };
    apply_once(state, Caller::Lease(LeaseId(3)), 1, Action::AcquireMany(many));
    let short = Acquire {
        terms: Terms { lock_delay: Millis(60_000), hold_max: Millis(60_000), ..rich_terms() },
        ..acquire("delayed", 0xfeed, Mode::Exclusive)
    };
    let txn = Txn { failure: vec![Op::Put(put("no", "", 0))], ..Txn::default() };
    apply(
        state,
        40,
        [
            Action::Acquire(short),
            Action::Acquire(acquire("pool", 1, Mode::Permit(2))),
            Action::Acquire(acquire("pool", 2, Mode::Permit(2))),
            Action::Acquire(acquire("pool", 3, Mode::Permit(2))),
            Action::Acquire(acquire("read", 1, Mode::Shared)),
            Action::Acquire(acquire("read", 2, Mode::Shared)),
            Action::Put(put("plain", "value", 0)),
            Action::Put(put("leased", "", 3)),
            Action::Put(put("jobs/a/abc", "foreign", 0)),
            Action::Txn(Box::new(txn)),
        ],
    );
}

fn publish(node: u64, key: u8, after: u64) -> Action {
    let (node, key, after) = (NodeId(node), PublicKey([key; 32]), Millis(after));
    Action::PublishKey(PublishKey { node, key, after })
}

pub(crate) fn grow_floors(state: &mut State) {
    let token = |state: &State, name: &str, id: i64| {
        let key = Key::from(format!("{name}/{id:x}").as_str());
        let answer = state.range(&RangeQuery::from(KeyRange::One(key)));
        Token::from(answer.kvs[0].create_revision)
    };
    let force = |name: &str, token| ForceRelease {
        name: name.into(),
        token,
        reason: "tests".into(),
        now: false,
    };
    let pool = force("pool", token(state, "pool", 1));
    let read = force("read", token(state, "read", 2));
    let job = force("jobs/a", token(state, "jobs/a", 1));
    let node = NodeLost { node: NodeId(4), boot: Boot(2) };
    apply(
        state,
        600,
        [
            Action::ForceRelease(ForceRelease { now: true, ..pool }),
            Action::ForceRelease(read),
            Action::ForceRelease(job),
            Action::NodeLost(node),
            publish(1, 1, 0),
            publish(1, 2, 86_400_000),
            publish(2, 3, 0),
            publish(2, 4, 0),
            publish(3, 5, 0),
            Action::RevokeKey(RevokeKey { key: PublicKey([5; 32]) }),
            Action::RotateKey(RotateKey { node: NodeId(2), after: Millis(700) }),
            Action::Compact(Compact { revision: Revision(5) }),
        ],
    );
}
