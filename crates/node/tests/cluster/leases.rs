//! Leases over changes of leaders, and how they end.

use fencepost_core::{LeaseId, LockName, LogTime, Millis, Outcome};

use crate::replication::{all_agree, held_by};
use crate::support::{Cluster, MS};
use crate::{acquire, lease};

fn expiry(cluster: &Cluster, id: u64, number: i64) -> Option<LogTime> {
    cluster.node(id).machine().state().lease(LeaseId(number)).map(|lease| lease.expiry)
}

/// Lease 1, which lives so long, holds the lock `a`, and lease 2 waits for it.
fn held_and_wanted(cluster: &mut Cluster, at: u64, ttl: u64) {
    cluster.done(at, lease(1, ttl));
    cluster.done(at, lease(2, 60_000));
    assert!(matches!(cluster.done(at, acquire("a", 1)), Outcome::Acquired(_)));
    assert!(matches!(cluster.done(at, acquire("a", 2)), Outcome::Queued(_)));
}

/// What a member lacks of the time of a lease is what no leader has counted: while there was none,
/// and since the last stamp before.
#[test]
fn a_change_of_leaders_costs_a_lease_a_second_at_most() {
    const TTL: u64 = 30_000 * MS;
    for (seed, length) in (1..).zip([5_500, 5_900, 6_300, 29_400]) {
        let mut cluster = Cluster::new(3, seed);
        let leader = cluster.elect();
        let asked = cluster.now;
        cluster.done(leader, lease(1, TTL / MS));
        cluster.run(length * MS);
        let (killed, deadline) = (cluster.now, expiry(&cluster, leader, 1));
        cluster.kill(leader);
        assert!(cluster.run_until(|cluster| cluster.leader().is_some()));
        let (successor, leaderless) =
            (cluster.leader().expect("it was elected"), cluster.now - killed);
        cluster.run(50 * MS);
        assert_eq!(expiry(&cluster, successor, 1), deadline, "the lease began again");
        while expiry(&cluster, successor, 1).is_some() {
            cluster.run(MS);
            assert!(cluster.now < asked + 3 * TTL, "it never ends");
        }
        let lived = cluster.now - asked;
        assert!(lived >= TTL, "seed {seed}: it lived for {lived} microseconds only");
        // And what a stamp takes to be made, written and applied.
        let most = TTL + leaderless + 1_000 * MS + 50 * MS;
        assert!(lived <= most, "seed {seed}: it lived for {lived} of {most} microseconds");
    }
}

// Requirements: S0-113, S1-085, S1-086, S3-007, S4-006.
#[test]
fn idle_leader_ends_leases_as_they_come_due() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    for number in 1..=5 {
        cluster.done(leader, lease(number, 1_000 * number.cast_unsigned()));
        cluster.done(leader, acquire(&format!("lock{number}"), number));
    }
    for number in 1..=5 {
        let deadline = expiry(&cluster, leader, number).expect("its time is not over");
        let is_gone = |cluster: &Cluster| expiry(cluster, leader, number).is_none();
        assert!(cluster.run_until(is_gone), "lease {number} never ends");
        let (now, name) = (cluster.log_time(leader), format!("lock{number}"));
        assert!(now >= deadline && now.since(deadline) <= Millis(50), "{deadline:?}, {now:?}");
        assert_eq!(held_by(&cluster, leader, &name), []);
    }
    assert!(cluster.run_until(all_agree), "the others did not end them");
}

// Requirements: S1-078, S1-080, S1-092, S1-094, S4-008.
#[test]
fn new_leader_knows_locks_owners_and_expiries() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    held_and_wanted(&mut cluster, leader, 30_000);
    let seen = |cluster: &Cluster, id: u64| {
        let view = cluster.node(id).machine().state().lock(&LockName::from("a"), 9);
        let holder = view.holders.first().expect("it is held").clone();
        let waiting: Vec<LeaseId> = view.waiters.iter().map(|waiter| waiter.lease).collect();
        (holder.client, holder.lease, holder.token, holder.expires_at, waiting)
    };
    let before = seen(&cluster, leader);
    assert_eq!((before.1, &before.4[..]), (LeaseId(1), &[LeaseId(2)][..]));
    cluster.run(3_000 * MS);
    cluster.kill(leader);
    let successor = cluster.elect();
    assert_eq!(seen(&cluster, successor), before);
}

// Requirements: S1-093.
#[test]
fn new_leader_ends_leases_that_it_has_not_granted() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    held_and_wanted(&mut cluster, leader, 5_000);
    let deadline = expiry(&cluster, leader, 1).expect("its time is not over");
    cluster.run(2_000 * MS);
    cluster.kill(leader);
    let successor = cluster.elect();
    let is_gone = |cluster: &Cluster| expiry(cluster, successor, 1).is_none();
    assert!(cluster.run_until(is_gone), "it never ends");
    let now = cluster.log_time(successor);
    assert!(now >= deadline && now.since(deadline) <= Millis(50), "{deadline:?}, {now:?}");
    let held = held_by(&cluster, successor, "a");
    assert!(matches!(held[..], [(LeaseId(2), _)]), "{held:?}");
}

/// What a cluster does in three seconds in which nothing is asked: its outputs.
fn idle_work(locks: i64) -> usize {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    for number in 1..=locks {
        cluster.propose(leader, lease(number, 60_000));
        cluster.propose(leader, acquire(&format!("lock{number}"), number));
    }
    cluster.run(1_000 * MS);
    for number in 1..=locks {
        assert_eq!(held_by(&cluster, leader, &format!("lock{number}")).len(), 1);
    }
    let (before, entries) = (cluster.trace.len(), cluster.entries_persisted);
    cluster.run(3_000 * MS);
    let entries = cluster.entries_persisted - entries;
    assert!((6..=12).contains(&entries), "one stamp a second on each of three: {entries}");
    cluster.trace.len() - before
}

// Requirements: S1-099, S1-110.
#[test]
fn thousand_held_locks_cost_an_idle_cluster_no_more_than_one() {
    let (one, thousand) = (idle_work(1), idle_work(1_000));
    assert!(thousand <= one + one / 10, "{one} outputs for one lock, {thousand} for a thousand");
}
