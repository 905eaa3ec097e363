//! One example of everything that the log can hold.

use fencepost_core::command::{
    Acquire, AcquireAs, AcquireMany, Caller, CallsAnswered, Cancel, CancelTarget, ChangeLimits,
    Compact, Compare, CompareTarget, DeleteLock, DeleteRange, Disconnect, ForceRelease, LeaseGrant,
    LeaseRef, LeaseRenew, LeaseRevoke, Mode, NodeLost, Once, Op, PublishKey, Put, QuotaChange,
    Relation, Release, ReleaseAs, ReleaseHeld, ReleaseMany, RenewAs, RenewHeld, Renewal, RevokeKey,
    RotateKey, Terms, Txn, Wait,
};
use fencepost_core::range::{KeyRange, Order, RangeQuery, SortBy};
use fencepost_core::{
    Action, Actor, Boot, CallId, ClientId, Command, Entry, Epoch, Key, LeaseId, LockName, LogTime,
    Millis, Namespace, NodeId, PublicKey, Revision, Seq, Token, Value,
};

pub(crate) fn lease(id: i64) -> LeaseRef {
    LeaseRef::from(LeaseId(id))
}

pub(crate) fn call(node: u64, boot: u64) -> Option<CallId> {
    Some(CallId { node: NodeId(node), boot: Boot(boot), number: node ^ boot })
}

pub(crate) fn rich_terms() -> Terms {
    Terms {
        metadata: Value::from(&[0, 0xff, 7][..]),
        value: Value::from("me"),
        lock_delay: Millis(1_000),
        budget: Millis(2_000),
        hold_max: Millis(u64::MAX),
        call: call(3, u64::MAX),
    }
}

pub(crate) fn put(key: &str, value: &str, lease: i64) -> Put {
    let (key, value) = (Key::from(key), Value::from(value));
    Put { key, value, lease: LeaseId(lease), ..Put::default() }
}

pub(crate) fn rich_query() -> RangeQuery {
    RangeQuery {
        limit: 300,
        order: Order::Descending,
        sort_by: SortBy::Value,
        mod_min: Revision(1),
        mod_max: Revision(2),
        create_min: Revision(3),
        create_max: Revision(1 << 53),
        keys_only: true,
        count_only: true,
        ..RangeQuery::from(KeyRange::Span(Key::from("a"), Key::from(&[0xff, 0][..])))
    }
}

pub(crate) fn rich_txn() -> Txn {
    let compare = |relation, target| {
        let range = KeyRange::From(Key::from("k"));
        Compare { range, relation, target }
    };
    let inner = Txn { success: vec![Op::Put(put("in", "ner", 0))], ..Txn::default() };
    Txn {
        compares: vec![
            compare(Relation::Equal, CompareTarget::Version(1)),
            compare(Relation::Greater, CompareTarget::Create(Revision(2))),
            compare(Relation::Less, CompareTarget::Mod(Revision(3))),
            compare(Relation::NotEqual, CompareTarget::Value(Value::from("v"))),
            compare(Relation::Equal, CompareTarget::Lease(LeaseId(-4))),
        ],
        success: vec![
            Op::Put(put("k", "", i64::MAX)),
            Op::DeleteRange(DeleteRange { range: KeyRange::One(Key::from("k")), prev: true }),
            Op::Range(rich_query()),
        ],
        failure: vec![Op::Txn(Box::new(inner))],
    }
}

/// One example of every action, each with all its fields filled in.
pub(crate) fn examples() -> Vec<Action> {
    let stale = LeaseRef { id: LeaseId(0x7587_8483_9023_4abc), epoch: Epoch(u64::MAX) };
    let name = LockName::from("jobs/nightly");
    let client = ClientId::from("wörker-1");
    vec![
        Action::LeaseGrant(LeaseGrant {
            id: LeaseId(-1),
            ttl: Millis(10_000),
            client: client.clone(),
            address: ClientId::from("[::1]:9"),
            revoke_on_disconnect: Some(Millis::ZERO),
        }),
        Action::LeaseRenew(LeaseRenew {
            renewals: vec![
                Renewal { lease: stale, number: 1 },
                Renewal { lease: lease(2), number: u64::MAX },
            ],
        }),
        Action::LeaseRevoke(LeaseRevoke { lease: stale }),
        Action::Disconnect(Disconnect { lease: stale, renewal: 9 }),
        Action::Put(Put {
            prev: true,
            ignore_value: true,
            ignore_lease: true,
            ..put("key", &"long".repeat(100), 5)
        }),
        Action::DeleteRange(DeleteRange { range: KeyRange::prefix(b"a/"), prev: true }),
        Action::Txn(Box::new(rich_txn())),
        Action::Compact(Compact { revision: Revision(9) }),
        Action::Acquire(Acquire {
            name: name.clone(),
            lease: stale,
            mode: Mode::Permit(3),
            wait: Wait::AtMost(Millis(5)),
            terms: rich_terms(),
        }),
        Action::AcquireMany(AcquireMany {
            locks: vec![(name.clone(), Mode::Shared), (LockName::from("b"), Mode::Exclusive)],
            lease: stale,
            wait: Wait::WhileLeased,
            terms: rich_terms(),
        }),
        Action::Cancel(Cancel {
            lease: stale,
            target: CancelTarget::Contender(name.clone(), Token(7)),
        }),
        Action::Release(Release { name: name.clone(), lease: stale, token: Token(7) }),
        Action::ReleaseMany(ReleaseMany {
            names: vec![name.clone(), LockName::default()],
            lease: stale,
            token: Token(7),
        }),
        Action::ForceRelease(ForceRelease {
            name: name.clone(),
            token: Token(7),
            reason: ClientId::from("stuck"),
            now: true,
        }),
        Action::DeleteLock(DeleteLock { name: name.clone() }),
        Action::AcquireAs(AcquireAs {
            name: name.clone(),
            client: client.clone(),
            ttl: Millis(30_000),
            wait: Wait::Try,
            terms: rich_terms(),
        }),
        Action::RenewAs(RenewAs { name: name.clone(), client: client.clone(), ttl: Millis(1) }),
        Action::ReleaseAs(ReleaseAs { name, client }),
        Action::CallsAnswered(CallsAnswered {
            contenders: vec![(Key::from("a/1"), Token(2), CallId::default())],
        }),
        Action::NodeLost(NodeLost { node: NodeId(2), boot: Boot(3) }),
        Action::SetLimits(Box::default()),
        Action::RaiseFeatureLevel(1),
        Action::PublishKey(PublishKey {
            node: NodeId(u64::MAX),
            key: PublicKey([0xa5; 32]),
            after: Millis(86_400_000),
        }),
        Action::RotateKey(RotateKey { node: NodeId(2), after: Millis(300) }),
        Action::RetireKeys(NodeId(300)),
        Action::RevokeKey(RevokeKey { key: PublicKey([7; 32]) }),
        Action::Skipped(4_000_000_000),
        Action::ChangeLimits(ChangeLimits {
            ttl_max: Some(Millis(7)),
            quota: Some(QuotaChange::Fit(1 << 40)),
            leases_per_client_max: Some(300),
            clients_per_address_max: None,
            clear_no_space: true,
        }),
        Action::RenewHeld(RenewHeld {
            name: "q".into(),
            client: "c".into(),
            ttl: Millis(1),
            token: Token(300),
        }),
        Action::ReleaseHeld(ReleaseHeld { name: "q".into(), client: "c".into(), token: Token(1) }),
        Action::PutPlain(Put { key: "k".into(), value: "v".into(), ..Put::default() }),
    ]
}

/// The place of an action's example. A new action fails to compile here: give it an example.
pub(crate) fn place(action: &Action) -> usize {
    match action {
        Action::LeaseGrant(_) => 0,
        Action::LeaseRenew(_) => 1,
        Action::LeaseRevoke(_) => 2,
        Action::Disconnect(_) => 3,
        Action::Put(_) => 4,
        Action::DeleteRange(_) => 5,
        Action::Txn(_) => 6,
        Action::Compact(_) => 7,
        Action::Acquire(_) => 8,
        Action::AcquireMany(_) => 9,
        Action::Cancel(_) => 10,
        Action::Release(_) => 11,
        Action::ReleaseMany(_) => 12,
        Action::ForceRelease(_) => 13,
        Action::DeleteLock(_) => 14,
        Action::AcquireAs(_) => 15,
        Action::RenewAs(_) => 16,
        Action::ReleaseAs(_) => 17,
        Action::CallsAnswered(_) => 18,
        Action::NodeLost(_) => 19,
        Action::SetLimits(_) => 20,
        Action::RaiseFeatureLevel(_) => 21,
        Action::PublishKey(_) => 22,
        Action::RotateKey(_) => 23,
        Action::RetireKeys(_) => 24,
        Action::RevokeKey(_) => 25,
        Action::Skipped(_) => 26,
        Action::ChangeLimits(_) => 27,
        Action::RenewHeld(_) => 28,
        Action::ReleaseHeld(_) => 29,
        Action::PutPlain(_) => 30,
    }
}

/// All the examples in one entry, with every kind of sender.
pub(crate) fn rich_entry() -> Entry {
    let senders = [
        (Actor::default(), Namespace::default(), None),
        (
            Actor::from("door"),
            Namespace::from("default"),
            Some(Once { by: Caller::Lease(LeaseId(9)), seq: Seq(300), ack_upto: Seq(2) }),
        ),
        (
            Actor::from(""),
            Namespace::from("other"),
            Some(Once { by: Caller::Client("c".into()), seq: Seq(1), ack_upto: Seq::NONE }),
        ),
    ];
    let commands = examples().into_iter().zip(senders.into_iter().cycle());
    let commands = commands.map(|(action, (actor, namespace, once))| Command {
        actor,
        namespace,
        once,
        action,
    });
    Entry { at: LogTime(123_456), commands: commands.collect() }
}
