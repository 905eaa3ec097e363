//! Random histories, as symbolic commands.
//!
//! A symbolic command names "the token that lease 3 has in lock a" instead of a number, and
//! `drive.rs` puts the number in when the command is sent. So a history that shrinks stays
//! meaningful: dropping an early command does not turn all later tokens into wrong ones.

use fencepost_core::command::{Mode, Wait};
use fencepost_core::ids::Millis;
use proptest::collection::vec;
use proptest::prelude::*;

/// The locks. `a/b` and `a/1` lie below `a`; the latter is spelled like a key of its queue.
pub(crate) const NAMES: [&str; 4] = ["a", "a/b", "a/1", "b"];
/// The owners and clients. The first has no name.
pub(crate) const CLIENTS: [&str; 4] = ["", "ann", "bob", "cyd"];
/// Keys that look almost like places in a queue, and are none.
pub(crate) const ODD_KEYS: [&str; 5] = ["x", "a/x", "a/01", "a/A", "a/"];

/// A whole history.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// How much may end in one entry, and how long a queue may be.
    pub(crate) limits: Option<(u32, u32)>,
    pub(crate) entries: Vec<Step>,
}

/// One entry.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// How far the stamp lies from the last one. Below zero: a stamp from the past.
    pub(crate) after: i64,
    pub(crate) requests: Vec<Request>,
    /// Whether a replica is replaced by a decoded copy of itself before this entry.
    pub(crate) snapshot: bool,
}

/// Which grant of a lease a command means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grants {
    Any,
    Present,
    Stale,
}

/// Which token a command carries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tokens {
    /// The one of the lease that asks.
    Own,
    /// One that was seen earlier in this lock.
    Old,
    /// One that does not exist.
    Wrong,
}

/// How a command is marked against repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    No,
    /// A fresh number, acknowledging nothing, all before, or all but the last.
    Fresh(u8),
}

/// What an acquire asks for beside the lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asks {
    pub(crate) delay: u64,
    pub(crate) budget: u64,
    pub(crate) hold_max: u64,
    /// The member and the boot of the call that it is bound to.
    pub(crate) call: Option<(u64, u64)>,
}

/// A key of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    Place(usize, i64),
    Odd(usize),
}

/// A symbolic command. Locks, clients and odd keys are places in the pools above.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Grant {
        id: i64,
        ttl: u64,
        client: usize,
        grace: Option<u64>,
        mark: Mark,
    },
    Renew {
        lease: i64,
        grant: Grants,
    },
    Revoke {
        lease: i64,
        grant: Grants,
        mark: Mark,
    },
    Disconnect {
        lease: i64,
        grant: Grants,
    },
    Put {
        key: Keys,
        lease: i64,
        keep_value: bool,
        keep_lease: bool,
    },
    /// One key, or all below a lock's name.
    Delete {
        key: Keys,
        below: bool,
    },
    /// What an etcd client does to lock: create the key if it is not there.
    EtcdLock {
        name: usize,
        lease: i64,
    },
    /// Two keys of one queue at one revision.
    TwoPuts {
        name: usize,
        leases: (i64, i64),
    },
    Acquire {
        name: usize,
        lease: i64,
        grant: Grants,
        mode: Mode,
        wait: Wait,
        asks: Asks,
        mark: Mark,
    },
    AcquireMany {
        names: u8,
        lease: i64,
        mode: Mode,
        wait: Wait,
        asks: Asks,
        mark: Mark,
    },
    /// Cancels the request so many numbers back; zero is the next one, which is not sent yet.
    CancelSeq {
        lease: i64,
        back: u64,
        mark: Mark,
    },
    CancelPlace {
        name: usize,
        lease: i64,
        token: Tokens,
    },
    Release {
        name: usize,
        lease: i64,
        grant: Grants,
        token: Tokens,
        mark: Mark,
    },
    ReleaseMany {
        names: u8,
        lease: i64,
        token: Tokens,
        mark: Mark,
    },
    /// Takes a lock from the holder with this lease.
    Force {
        name: usize,
        lease: i64,
        token: Tokens,
        now: bool,
    },
    DeleteLock {
        name: usize,
    },
    AcquireAs {
        name: usize,
        client: usize,
        ttl: u64,
        wait: Wait,
        asks: Asks,
        mark: Mark,
    },
    RenewAs {
        name: usize,
        client: usize,
        ttl: u64,
        token: Option<Tokens>,
    },
    ReleaseAs {
        name: usize,
        client: usize,
        token: Option<Tokens>,
        mark: Mark,
    },
    Answered {
        name: usize,
        lease: i64,
        call: (u64, u64),
    },
    CancelCall {
        name: usize,
        lease: i64,
        call: (u64, u64),
    },
    NodeLost {
        node: u64,
        boot: u64,
    },
    /// One of the four things that can be done to signing keys.
    Signing {
        verb: u8,
        node: u64,
        key: u8,
        after: u64,
    },
    Limits {
        due: u32,
        queue: u32,
    },
    Compact {
        back: u64,
    },
    /// A request that can never be served.
    Bad(u8),
    /// A delayed copy of the request so many sendings back.
    Again {
        back: usize,
    },
}

/// What a history may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Only what the model covers.
    Modelled,
    /// Everything.
    Wild,
}

/// Histories of up to `len` entries.
pub(crate) fn history(kind: Kind, len: usize) -> impl Strategy<Value = History> {
    let per_entry = prop_oneof![3 => Just(1..=1_usize), 2 => Just(0..=4)];
    let limits = match kind {
        Kind::Modelled => Just(None).boxed(),
        Kind::Wild => prop_oneof![
            1 => Just(None),
            2 => (1..=3_u32, 2..=4_u32).prop_map(Some),
        ]
        .boxed(),
    };
    (per_entry, limits).prop_flat_map(move |(count, limits)| {
        let step = (after(), vec(request(kind), count), any::<bool>());
        let step = step.prop_map(|(after, requests, snapshot)| Step { after, requests, snapshot });
        (opening(), vec(step, 1..=len)).prop_map(move |(opening, mut entries)| {
            entries.insert(0, opening);
            History { limits, entries }
        })
    })
}

/// A few leases to begin with, or most requests would come under leases that nobody has.
fn opening() -> impl Strategy<Value = Step> {
    vec((ttl(), 0..CLIENTS.len()), 0..=5).prop_map(|leases| {
        let grant =
            |(id, (ttl, client))| Request::Grant { id, ttl, client, grace: None, mark: Mark::No };
        let requests = (1..).zip(leases).map(grant).collect();
        Step { after: 0, requests, snapshot: false }
    })
}

fn after() -> impl Strategy<Value = i64> {
    prop_oneof![
        6 => Just(0_i64),
        6 => 1..300_i64,
        2 => 300..1_500_i64,
        1 => 1_500..9_000_i64,
        1 => -2_000..0_i64,
    ]
}

fn lease() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 1..=5_i64, 1 => 6..=8_i64]
}

/// Mostly the first two locks, so that queues form.
fn name() -> impl Strategy<Value = usize> {
    prop_oneof![5 => Just(0_usize), 3 => Just(1), 1 => Just(2), 1 => Just(3)]
}

fn key() -> impl Strategy<Value = Keys> {
    prop_oneof![
        6 => (name(), lease()).prop_map(|(name, lease)| Keys::Place(name, lease)),
        1 => (0..ODD_KEYS.len()).prop_map(Keys::Odd),
    ]
}

fn ttl() -> impl Strategy<Value = u64> {
    prop_oneof![1 => 500..3_000_u64, 2 => 3_000..20_000_u64]
}

fn grants() -> impl Strategy<Value = Grants> {
    prop_oneof![6 => Just(Grants::Present), 3 => Just(Grants::Any), 1 => Just(Grants::Stale)]
}

fn tokens() -> impl Strategy<Value = Tokens> {
    prop_oneof![6 => Just(Tokens::Own), 2 => Just(Tokens::Old), 1 => Just(Tokens::Wrong)]
}

fn mark() -> impl Strategy<Value = Mark> {
    prop_oneof![1 => Just(Mark::No), 2 => (0..3_u8).prop_map(Mark::Fresh)]
}

/// Each lock has modes that it sees more of, so that crowds of one kind gather.
fn mode(name: usize) -> BoxedStrategy<Mode> {
    let (exclusive, shared, permit) = [(4, 3, 3), (1, 1, 8), (4, 1, 1), (1, 6, 1)][name];
    prop_oneof![
        exclusive => Just(Mode::Exclusive),
        shared => Just(Mode::Shared),
        permit => Just(Mode::Permit(2)),
        1 => Just(Mode::Permit(3)),
    ]
    .boxed()
}

fn wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        2 => Just(Wait::Try),
        4 => Just(Wait::WhileLeased),
        3 => (1..3_000_u64).prop_map(|length| Wait::AtMost(Millis(length))),
        1 => Just(Wait::AtMost(Millis(0))),
    ]
}

/// Waiting by owner name without an end needs a call, which the model does not cover.
fn wait_as(kind: Kind) -> BoxedStrategy<Wait> {
    match kind {
        Kind::Wild => wait().boxed(),
        Kind::Modelled => prop_oneof![
            1 => Just(Wait::Try),
            3 => (0..5_000_u64).prop_map(|length| Wait::AtMost(Millis(length))),
        ]
        .boxed(),
    }
}

fn asks(kind: Kind) -> BoxedStrategy<Asks> {
    let call = proptest::option::of(call());
    let few = |most: u64| prop_oneof![2 => Just(0), 1 => 1..most];
    let rich = (few(2_000), few(2_000), few(4_000), call)
        .prop_map(|(delay, budget, hold_max, call)| Asks { delay, budget, hold_max, call });
    match kind {
        Kind::Modelled => Just(Asks::default()).boxed(),
        Kind::Wild => prop_oneof![2 => Just(Asks::default()), 3 => rich].boxed(),
    }
}

fn request(kind: Kind) -> BoxedStrategy<Request> {
    let modelled = prop_oneof![
        5 => of_leases(kind),
        4 => of_keys(),
        18 => of_locks(kind),
        4 => of_owners(kind),
        4 => (0..12_usize).prop_map(|back| Request::Again { back }),
    ];
    match kind {
        Kind::Modelled => modelled.boxed(),
        Kind::Wild => prop_oneof![12 => modelled, 1 => of_operators()].boxed(),
    }
}

fn of_leases(kind: Kind) -> impl Strategy<Value = Request> {
    let grace = proptest::option::weighted(0.3, 0..1_000_u64);
    let id = prop_oneof![1 => Just(0_i64), 4 => lease()];
    prop_oneof![
        8 => (id, ttl(), 0..CLIENTS.len(), grace, mark()).prop_map(
            |(id, ttl, client, grace, mark)| Request::Grant { id, ttl, client, grace, mark }
        ),
        4 => (lease(), grants()).prop_map(|(lease, grant)| Request::Renew { lease, grant }),
        1 => (lease(), grants(), mark())
            .prop_map(|(lease, grant, mark)| Request::Revoke { lease, grant, mark }),
        1 => (lease(), grants()).prop_map(move |(lease, grant)| match kind {
            Kind::Modelled => Request::Renew { lease, grant },
            Kind::Wild => Request::Disconnect { lease, grant },
        }),
    ]
}

fn of_keys() -> impl Strategy<Value = Request> {
    let attached = prop_oneof![1 => Just(0_i64), 3 => lease()];
    prop_oneof![
        4 => (key(), attached, any::<bool>(), any::<bool>()).prop_map(
            |(key, lease, keep_value, keep_lease)| {
                // Keeping the lease and naming one contradict each other.
                let keep_lease = keep_lease && lease == 0;
                Request::Put { key, lease, keep_value: keep_value && keep_lease, keep_lease }
            }
        ),
        2 => (key(), any::<bool>(), any::<bool>())
            .prop_map(|(key, below, rarely)| Request::Delete { key, below: below && rarely }),
        4 => (name(), lease()).prop_map(|(name, lease)| Request::EtcdLock { name, lease }),
        1 => (name(), (lease(), lease()))
            .prop_map(|(name, leases)| Request::TwoPuts { name, leases }),
    ]
}

fn of_locks(kind: Kind) -> impl Strategy<Value = Request> {
    // No lease stands for whoever holds the lock first.
    let holder = prop_oneof![1 => Just(0_i64), 1 => lease()];
    let place = name().prop_flat_map(|name| (Just(name), mode(name)));
    let acquire = (place, lease(), grants(), wait(), asks(kind), mark());
    let many = (1..16_u8, lease(), mode(0), wait(), asks(kind), mark());
    prop_oneof![
        14 => acquire.prop_map(|((name, mode), lease, grant, wait, asks, mark)| Request::Acquire {
            name, lease, grant, mode, wait, asks, mark,
        }),
        3 => many.prop_map(|(names, lease, mode, wait, asks, mark)| Request::AcquireMany {
            names, lease, mode, wait, asks, mark,
        }),
        2 => (lease(), 0..4_u64, mark())
            .prop_map(|(lease, back, mark)| Request::CancelSeq { lease, back, mark }),
        1 => (name(), lease(), tokens())
            .prop_map(|(name, lease, token)| Request::CancelPlace { name, lease, token }),
        5 => (name(), holder.clone(), grants(), tokens(), mark()).prop_map(
            |(name, lease, grant, token, mark)| Request::Release { name, lease, grant, token, mark }
        ),
        1 => (1..16_u8, lease(), tokens(), mark()).prop_map(|(names, lease, token, mark)| {
            Request::ReleaseMany { names, lease, token, mark }
        }),
        2 => (name(), holder, tokens(), any::<bool>())
            .prop_map(|(name, lease, token, now)| Request::Force { name, lease, token, now }),
        1 => name().prop_map(|name| Request::DeleteLock { name }),
    ]
}

fn of_owners(kind: Kind) -> impl Strategy<Value = Request> {
    let client = 1..CLIENTS.len();
    prop_oneof![
        4 => (name(), client.clone(), ttl(), wait_as(kind), asks(kind), mark()).prop_map(
            |(name, client, ttl, wait, asks, mark)| Request::AcquireAs {
                name, client, ttl, wait, asks, mark,
            }
        ),
        1 => (name(), client.clone(), prop_oneof![Just(0), ttl()], proptest::option::of(tokens()))
            .prop_map(|(name, client, ttl, token)| Request::RenewAs { name, client, ttl, token }),
        2 => (name(), client, proptest::option::of(tokens()), mark()).prop_map(
            |(name, client, token, mark)| Request::ReleaseAs { name, client, token, mark }
        ),
    ]
}

fn call() -> impl Strategy<Value = (u64, u64)> {
    (1..=2_u64, 1..=2_u64)
}

fn of_operators() -> impl Strategy<Value = Request> {
    prop_oneof![
        3 => (name(), lease(), call())
            .prop_map(|(name, lease, call)| Request::Answered { name, lease, call }),
        3 => (name(), lease(), call())
            .prop_map(|(name, lease, call)| Request::CancelCall { name, lease, call }),
        3 => (1..=2_u64, 1..=2_u64).prop_map(|(node, boot)| Request::NodeLost { node, boot }),
        2 => (0..6_u8, 1..=3_u64, 0..6_u8, 0..2_000_u64)
            .prop_map(|(verb, node, key, after)| Request::Signing { verb, node, key, after }),
        1 => (1..=3_u32, 1..=4_u32).prop_map(|(due, queue)| Request::Limits { due, queue }),
        1 => (0..20_u64).prop_map(|back| Request::Compact { back }),
        2 => (0..6_u8).prop_map(Request::Bad),
    ]
}
