//! Everything that is asked for is measured, and moves.

use std::collections::BTreeMap;

use fencepost_proto::v1;

use crate::port::get;
use crate::support::{Talk, World, acquire, acquired, lease, soon, unlock, until_waiters, world};

type Numbers = BTreeMap<String, f64>;

async fn numbers(world: &World) -> Numbers {
    let (status, text) = get(&world.servers[0], "/metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect()
}

/// The names that dashboards and alarms rely on, each of which is to move.
const MOVES: [&str; 21] = [
    "fencepost_door_requests_total{kind=\"lock\",code=\"ok\"}",
    "fencepost_door_connections",
    "fencepost_door_sessions",
    "fencepost_door_watches",
    "fencepost_door_pending",
    "fencepost_lock_grants_total",
    "fencepost_lock_live",
    "fencepost_lock_holders",
    "fencepost_lock_waiters",
    "fencepost_lock_wait_seconds_count",
    "fencepost_lease_grants_total",
    "fencepost_lease_live",
    "fencepost_lease_renewals_total{result=\"alive\"}",
    "fencepost_state_clients",
    "fencepost_state_keys",
    "fencepost_log_sync_seconds_count",
    "fencepost_log_entries_total",
    "fencepost_log_appended_bytes_total",
    "fencepost_log_batch_commands_count",
    "fencepost_log_batch_commands_sum",
    "fencepost_raft_applied_index",
];

/// Only in the same incarnation, and only if the state has not come as far.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_have_seen_more_than_the_leader_are_counted() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    lease(&mut locks, "alice").await;
    for (seen_revision, incarnation, expected) in
        [(0, 0, 0.0), (1, 0, 0.0), (1_000, 7, 0.0), (1_000, 0, 1.0), (i64::MAX, 0, 2.0)]
    {
        let mut talk = Talk::silent(&mut locks).await;
        let hello = v1::SessionHello {
            client_id: "c".into(),
            version_min: 1,
            version_max: 1,
            seen_revision,
            incarnation,
        };
        talk.say(1, None, v1::session_request::Request::Hello(hello)).await;
        assert!(talk.hear().await.failure.is_none());
        let count = numbers(&world).await["fencepost_sessions_ahead_total"];
        assert!((count - expected).abs() < 0.5, "{seen_revision} of {incarnation}: {count}");
    }
}

// Requirements: S3-034.
#[tokio::test(flavor = "multi_thread")]
async fn every_number_is_there_and_moves() {
    let world = world(1).await;
    let before = numbers(&world).await;
    let mut locks = world.locks(0).await;
    let one = lease(&mut locks, "alice").await;
    let token = acquired(&mut locks, "a", one).await;
    let mut talk = Talk::open(&mut locks, "bob").await;
    let two = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire(&["a"], two, -1)).await;
    talk.acquired().await;
    let renewals = vec![v1::LeaseKeepAliveRequest { id: two.0, epoch: two.1, number: 1 }];
    let renew = v1::session_request::Request::Renew(v1::RenewMany { renewals });
    talk.say(4, None, renew).await;
    talk.hear().await;
    let watch = v1::WatchRequest { key: "k".into(), watch_id: 1, ..Default::default() };
    talk.say(5, None, v1::session_request::Request::Watch(watch)).await;
    talk.hear().await;
    let after = numbers(&world).await;
    for name in MOVES {
        let was = before.get(name).copied().unwrap_or_default();
        let is = after.get(name).copied().unwrap_or_else(|| panic!("{name} is missing: {after:?}"));
        assert!(is > was, "{name} was {was} and is {is}");
    }
    assert_eq!(after.get("fencepost_raft_leads"), Some(&1.0));
    let disk = |name: &str| after.get(&format!("fencepost_disk_{name}_bytes")).copied();
    assert!(disk("free").is_some_and(|free| free > 0.0), "{after:?}");
    assert!(disk("reserve").is_some_and(|reserve| reserve > 0.0), "{after:?}");
    let named = |text: &str| after.keys().any(|name| name.contains(text));
    assert!(!named("alice") && !named("bob") && !named("\"a\""), "nobody is a label");

    // What ends is counted as well.
    assert!(unlock(&mut locks, "a", one, token).await);
    let short = v1::LeaseGrantRequest { ttl_ms: 500, ..Default::default() };
    let short = locks.lease_grant(short).await.expect("it is granted").into_inner().id;
    let waits = locks.lock(crate::support::lock_request("a", short, -1));
    soon(waits).await.expect_err("its lease ends before its turn");
    locks.lease_revoke(v1::LeaseRevokeRequest { id: one, epoch: 0 }).await.expect("it lives");
    until_waiters(&mut locks, "a", 0).await;
    let end = numbers(&world).await;
    for (name, count) in [
        ("fencepost_lease_expiries_total", 1.0),
        ("fencepost_lease_revocations_total", 1.0),
        ("fencepost_lock_ends_total{cause=\"released\"}", 1.0),
        ("fencepost_lock_ends_total{cause=\"expired\"}", 1.0),
        ("fencepost_lock_hold_seconds_count", 1.0),
    ] {
        assert_eq!(end.get(name), Some(&count), "{name}: {end:?}");
    }
    let mut admin = world.admin(0).await;
    let status = admin.status(v1::StatusRequest {}).await.expect("it is answered").into_inner();
    assert_eq!((status.leases, status.locks), (1, 1));
    assert_eq!((status.holders, status.waiters), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_histogram_ends_with_an_infinite_bucket() {
    let world = world(1).await;
    let (_, text) = get(&world.servers[0], "/metrics").await;
    let kind =
        |line: &str| line.strip_prefix("# TYPE ")?.strip_suffix(" histogram").map(str::to_owned);
    let histograms: Vec<String> = text.lines().filter_map(kind).collect();
    assert!(histograms.len() >= 4, "{histograms:?}");
    let numbers = numbers(&world).await;
    for name in histograms {
        let last = numbers.get(&format!("{name}_bucket{{le=\"+Inf\"}}"));
        assert!(last.is_some(), "{name} has no +Inf bucket in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_leader_is_counted() {
    let world = world(3).await;
    let name = "fencepost_raft_leader_changes_total";
    let before = numbers(&world).await[name];
    let leader = world.leader();
    let to = world.cluster.nodes()[(leader + 1) % 3].handle().status().id;
    let mut admin = world.admin(leader).await;
    soon(admin.move_leader(v1::MoveLeaderRequest { to })).await.expect("it is handed over");
    soon(async { while numbers(&world).await[name] <= before {} }).await;
}
