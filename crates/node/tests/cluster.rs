//! Nodes without I/O, run by hand: elections, batches, log time, reads, and what is never said
//! too early.

#[path = "cluster/admission.rs"]
mod admission;
#[path = "cluster/appends.rs"]
mod appends;
#[path = "cluster/chaos.rs"]
mod chaos;
#[path = "cluster/disk_space.rs"]
mod disk_space;
#[path = "cluster/elections.rs"]
mod elections;
#[path = "cluster/leases.rs"]
mod leases;
#[path = "cluster/long_answers.rs"]
mod long_answers;
#[path = "cluster/members.rs"]
mod members;
#[path = "cluster/messages.rs"]
mod messages;
#[path = "cluster/peers.rs"]
mod peers;
#[path = "cluster/replication.rs"]
mod replication;
#[path = "cluster/rollback.rs"]
mod rollback;
#[path = "cluster/snapshots.rs"]
mod snapshots;
#[path = "cluster/strange.rs"]
mod strange;
#[path = "cluster/support.rs"]
mod support;
#[path = "cluster/uncommitted.rs"]
mod uncommitted;

use std::collections::BTreeSet;

use fencepost_core::command::{Acquire, LeaseGrant, LeaseRef, LeaseRenew, Put, Release, Renewal};
use fencepost_core::outcome::RenewResult;
use fencepost_core::{Action, ClientId, Key, LeaseId, LockName, Millis, Outcome, Token, Value};
use fencepost_node::io::{Input, Micros, ProposeError};

use support::{Cluster, MS};

fn put(key: &str) -> Action {
    Action::Put(Put { key: Key::from(key), value: Value::from("v"), ..Put::default() })
}

fn lease(id: i64, ttl: u64) -> Action {
    let client = ClientId::from("somebody");
    Action::LeaseGrant(LeaseGrant {
        id: LeaseId(id),
        ttl: Millis(ttl),
        client,
        ..LeaseGrant::default()
    })
}

fn acquire(name: &str, id: i64) -> Action {
    let lease = LeaseRef::from(LeaseId(id));
    Action::Acquire(Acquire { name: LockName::from(name), lease, ..Acquire::default() })
}

fn renew(id: i64) -> Action {
    let lease = LeaseRef::from(LeaseId(id));
    Action::LeaseRenew(LeaseRenew { renewals: vec![Renewal { lease, number: 1 }] })
}

fn hashes_agree(cluster: &Cluster) -> bool {
    let mut hashes = cluster.running().map(|(_, node)| node.machine().state().hash());
    let first = hashes.next();
    hashes.all(|hash| Some(hash) == first)
}

// Requirements: S1-008.
#[test]
fn a_single_node_elects_itself_and_answers() {
    let mut cluster = Cluster::new(1, 7);
    assert_eq!(cluster.elect(), 1);
    assert!(matches!(cluster.done(1, put("a")), Outcome::Put(None)));
}

// Requirements: S1-008, S1-046, S1-078, S1-081, S3-032.
#[test]
fn three_nodes_agree_whoever_is_asked() {
    let mut cluster = Cluster::new(3, 7);
    cluster.elect();
    for id in 1..=3 {
        assert!(matches!(cluster.done(id, put(&format!("k{id}"))), Outcome::Put(None)));
    }
    assert!(cluster.run_until(hashes_agree), "the replicas differ");
}

/// A heartbeat comes every hundred milliseconds. Neither a new entry nor the news that it is
/// committed waits for one.
// Requirements: S1-041, S1-063, S1-064.
#[test]
fn new_entries_and_their_commit_do_not_wait_for_a_heartbeat() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    for number in 1..=20 {
        // Every time at another distance from the next heartbeat.
        cluster.run(33 * MS);
        cluster.propose(leader, put(&format!("k{number}")));
        cluster.run(30 * MS);
        for (id, node) in cluster.running() {
            assert_eq!(node.machine().state().range(&every_key()).count, number, "member {id}");
        }
    }
}

/// Grants are told by what is committed: whoever waits at another member must not wait longer.
#[test]
fn members_with_clients_hear_at_once_what_is_committed() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let follower = (1..=3).find(|&id| id != leader).expect("there are three");
    cluster.done(follower, lease(1, 60_000));
    for number in 1..=20 {
        cluster.run(33 * MS);
        cluster.propose(leader, put(&format!("k{number}")));
        // To the others, onto their disks, back, and the news to them.
        cluster.run(4 * MS);
        for (id, node) in cluster.running() {
            assert_eq!(node.machine().state().range(&every_key()).count, number, "member {id}");
        }
    }
}

#[test]
fn under_load_the_next_entry_says_what_is_committed() {
    let (mut cluster, leader, _) = quick_cluster();
    let before = cluster.trace.len();
    for number in 0..ENTRIES {
        cluster.propose(leader, put(&format!("k{number}")));
        cluster.run(MS / 2);
    }
    let sent = cluster.trace[before..].iter().filter(|line| line.contains("Send(")).count();
    // An entry to each of the others and back, and a few heartbeats.
    assert!((sent as u64) < ENTRIES * 5, "{sent} messages for {ENTRIES} entries");
    cluster.run(20 * MS);
    assert!(hashes_agree(&cluster), "the last one is heard of as well");
}

/// So many things are done one after the other.
const ENTRIES: u64 = 100;

/// Three members that are quick. The leader, and the other two in order.
fn quick_cluster() -> (Cluster, u64, [u64; 2]) {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.latency = MS / 10;
    for id in 1..=3 {
        cluster.slow_disk(id, MS / 5);
    }
    cluster.run(50 * MS);
    let others: Vec<u64> = (1..=3).filter(|&id| id != leader).collect();
    (cluster, leader, others.try_into().expect("there are three"))
}

/// Has the leader do so many things, one after the other. How often it sends something to each of the others.
fn sent_for_entries(cluster: &mut Cluster, leader: u64, others: [u64; 2]) -> [u64; 2] {
    let before = cluster.trace.len();
    for number in 0..ENTRIES {
        let request = cluster.propose(leader, put(&format!("k{number}")));
        cluster.run(MS / 2);
        assert!(cluster.answers.contains_key(&request), "entry {number} waits for somebody");
    }
    others.map(|to| {
        let is_sent = |line: &&String| line.contains(&format!(" {leader} Send({to}, Raft"));
        let lines = cluster.trace[before..].iter().filter(is_sent);
        lines.map(|line| line.split(' ').next()).collect::<BTreeSet<_>>().len() as u64
    })
}

#[test]
fn entries_go_to_a_majority_at_once_and_to_the_others_in_company() {
    let (mut cluster, leader, others) = quick_cluster();
    let moments = sent_for_entries(&mut cluster, leader, others);
    assert!(moments[0] >= ENTRIES, "one is needed for every entry: {moments:?}");
    assert!(moments[1] <= ENTRIES / 10, "the other is not: {moments:?}");
    cluster.run(20 * MS);
    assert!(hashes_agree(&cluster), "it has all of them all the same");
}

#[test]
fn a_client_that_has_gone_on_to_the_leader_keeps_no_member_from_being_spare() {
    let (mut cluster, leader, others) = quick_cluster();
    cluster.done(others[1], lease(1, 60_000));
    let moments = sent_for_entries(&mut cluster, leader, others);
    assert!(moments[1] >= ENTRIES, "somebody may wait there: {moments:?}");
    cluster.run(3_000 * MS);
    let moments = sent_for_entries(&mut cluster, leader, others);
    assert!(moments[1] <= ENTRIES / 2, "nobody was heard of for long: {moments:?}");
}

#[test]
fn a_member_that_falls_behind_changes_places_with_a_spare_one() {
    let (mut cluster, leader, [prompt, _]) = quick_cluster();
    cluster.isolate(prompt);
    let first = cluster.propose(leader, put("first"));
    // What waited for company goes out with the next tick.
    cluster.run(12 * MS);
    assert!(cluster.answers.contains_key(&first), "nobody took the place of member {prompt}");
    for number in 0..20 {
        let request = cluster.propose(leader, put(&format!("k{number}")));
        cluster.run(MS / 2);
        assert!(cluster.answers.contains_key(&request), "entry {number} waits for somebody");
    }
}

/// Whoever is needed for a majority may have stalled.
#[test]
fn what_is_not_committed_waits_for_company_only_a_moment() {
    let (mut cluster, leader, [prompt, _]) = quick_cluster();
    cluster.isolate(prompt);
    cluster.propose(leader, put("k"));
    cluster.run(MS);
    let due = cluster.node(leader).next_turn().expect("it waits for company");
    assert!(due.0 < cluster.now + 2 * MS, "it is due at {due:?}, and now is {}", cluster.now);
}

#[test]
fn a_read_at_a_spare_member_does_not_wait_for_company() {
    let (mut cluster, leader, [prompt, spare]) = quick_cluster();
    let request = cluster.propose(leader, put("k"));
    cluster.run(MS);
    assert!(cluster.answers.contains_key(&request));
    let last = |id| cluster.node(id).last_index();
    assert!(last(spare) < last(prompt), "the entry waits for company");
    let read = cluster.read(spare);
    cluster.run(MS);
    assert!(cluster.reads.contains(&read), "the read waits as well");
}

#[test]
fn a_leader_is_succeeded_in_a_moment_although_the_next_in_turn_lacks_an_entry() {
    let (mut cluster, leader, [prompt, spare]) = quick_cluster();
    let request = cluster.propose(leader, put("k"));
    cluster.run(MS);
    assert!(cluster.answers.contains_key(&request));
    let last = |id| cluster.node(id).last_index();
    assert!(last(spare) < last(prompt), "the last entry waits for company");
    cluster.kill(leader);
    // They try to connect again, and are refused.
    for id in [prompt, spare] {
        cluster.input(id, Input::Gone(leader));
    }
    // Both stand twice in this time. The timers would take longer than three times as much.
    cluster.run(150 * MS);
    assert_eq!(cluster.leader(), Some(prompt));
}

#[test]
fn a_leader_is_succeeded_in_a_moment_although_its_last_words_come_after_its_end() {
    let (mut cluster, leader, [prompt, spare]) = quick_cluster();
    cluster.propose(leader, put("k"));
    cluster.kill(leader);
    for id in [prompt, spare] {
        cluster.input(id, Input::Gone(leader));
    }
    assert_eq!(cluster.node(prompt).role().leader, None, "it stands");
    cluster.run(MS);
    assert_eq!(cluster.node(prompt).role().leader, Some(leader), "it has heard of the dead");
    cluster.run(150 * MS);
    assert_eq!(cluster.leader(), Some(prompt));
}

#[test]
fn a_leader_that_was_held_to_be_gone_stays_one() {
    let (mut cluster, leader, others) = quick_cluster();
    let term = cluster.node(leader).role().term;
    cluster.input(others[0], Input::Gone(leader));
    cluster.run(1_000 * MS);
    assert_eq!(cluster.leader(), Some(leader));
    assert_eq!(cluster.node(leader).role().term, term, "the other has heard of it");
    cluster.done(leader, put("k"));
}

/// Somebody may wait there for what an entry does.
#[test]
fn no_member_is_spare_while_others_have_clients() {
    let (mut cluster, leader, [_, second]) = quick_cluster();
    cluster.done(second, lease(1, 60_000));
    cluster.run(50 * MS);
    for number in 1..=20 {
        cluster.propose(leader, put(&format!("k{number}")));
        cluster.run(MS);
        let state = cluster.node(second).machine().state();
        assert_eq!(state.range(&every_key()).count, number);
    }
}

#[test]
fn what_is_not_durable_is_not_acknowledged() {
    let mut cluster = Cluster::new(1, 7);
    cluster.elect();
    cluster.slow_disk(1, 300 * MS);
    let request = cluster.propose(1, put("a"));
    cluster.run(299 * MS);
    assert!(!cluster.answers.contains_key(&request), "acknowledged before the sync");
    cluster.run(20 * MS);
    assert!(cluster.answers.contains_key(&request));
}

// Requirements: S1-063, S3-026.
#[test]
fn a_slow_disk_does_not_stop_heartbeats() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let term = cluster.node(leader).role().term;
    cluster.slow_disk(leader, 900 * MS);
    for number in 0..4 {
        cluster.propose(leader, put(&format!("k{number}")));
        cluster.run(950 * MS);
    }
    assert_eq!((cluster.leader(), cluster.node(leader).role().term), (Some(leader), term));
}

#[test]
fn a_leader_whose_disk_hangs_hands_over() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.done(leader, lease(1, 5_000));
    cluster.slow_disk(leader, 60_000 * MS);
    let request = cluster.propose(leader, put("stuck"));
    for _ in 0..40 {
        cluster.run(200 * MS);
        cluster.propose(1 + leader % 3, renew(1));
    }
    let successor = cluster.leader().expect("there is a leader");
    assert_ne!(successor, leader, "the stuck leader stays");
    assert!(cluster.answers.contains_key(&request), "its clients wait for ever");
    let alive = cluster.node(successor).machine().state().lease(LeaseId(1)).is_some();
    assert!(alive, "a lease that was renewed all the time has ended");
}

// Requirements: S4-016.
#[test]
fn what_cannot_be_read_never_reaches_the_log() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let before = cluster.entries_persisted;
    let follower = 1 + leader % 3;
    for id in [leader, follower] {
        let request = cluster.propose_bytes(id, vec![0xff, 0xff]);
        assert!(cluster.run_until(|cluster| cluster.answers.contains_key(&request)), "no answer");
        assert_eq!(cluster.answers[&request], Err(ProposeError::Malformed));
    }
    assert_eq!(cluster.entries_persisted, before);
}

#[test]
fn a_forwarded_copy_is_done_once() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.copies = true;
    for number in 0..20 {
        cluster.done(1 + leader % 3, put(&format!("k{number}")));
    }
    cluster.run(100 * MS);
    let keys = cluster.node(leader).machine().state().range(&every_key());
    assert!(keys.kvs.iter().all(|kv| kv.version == 1), "done twice");
}

#[test]
fn a_slow_network_still_serves_reads() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.latency = 80 * MS;
    let requests = [cluster.read(leader), cluster.read(1 + leader % 3)];
    let served = |cluster: &Cluster| requests.iter().all(|one| cluster.reads.contains(one));
    assert!(cluster.run_until(served), "reads are never confirmed");
}

#[test]
fn a_read_that_cannot_be_served_is_told_so() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.isolate(leader);
    let read = cluster.read(leader);
    assert!(cluster.run_until(|cluster| cluster.failed_reads.contains(&read)), "waits for ever");
}

// Requirements: S1-004, S1-039, S1-055, S1-080, S3-004, S3-024, S4-008.
#[test]
fn an_acknowledged_command_survives_its_leader() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.done(leader, put("kept"));
    cluster.kill(leader);
    let successor = cluster.elect();
    assert_ne!(successor, leader);
    let found = cluster.node(successor).machine().state().range(&every_key());
    assert_eq!(found.count, 1);
    cluster.start(leader);
    assert!(cluster.run_until(hashes_agree), "the restarted replica differs");
}

fn every_key() -> fencepost_core::range::RangeQuery {
    fencepost_core::range::KeyRange::prefix(b"").into()
}

// Requirements: S1-068, S4-004.
#[test]
fn a_deposed_leader_calls_the_outcome_unknown() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.isolate(leader);
    let request = cluster.propose(leader, put("lost?"));
    let told = cluster.run_until(|cluster| cluster.answers.contains_key(&request));
    assert!(told, "the caller waits for ever");
    assert_eq!(cluster.answers[&request], Err(ProposeError::Indeterminate));
    // With the quorum elsewhere it was not done, and a later leader never heard of it.
    cluster.cut.clear();
    let successor = cluster.elect();
    cluster.done(successor, put("after"));
    assert!(cluster.run_until(hashes_agree), "the replicas differ");
    assert_eq!(cluster.node(leader).machine().state().range(&every_key()).count, 1);
}

// Requirements: S1-050, S1-097, S4-004, S4-035.
#[test]
fn a_cut_off_leader_serves_no_reads() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let fresh = cluster.read(leader);
    assert!(cluster.run_until(|cluster| cluster.reads.contains(&fresh)), "no read");
    cluster.isolate(leader);
    let stale = cluster.read(leader);
    cluster.run(3_000 * MS);
    assert!(!cluster.reads.contains(&stale), "read without a quorum");
    // Elsewhere reads go on, and see what was done.
    let successor = cluster.leader().expect("the others have a leader");
    assert_ne!(successor, leader);
    let other = (1..=3).find(|id| *id != leader && *id != successor).expect("three members");
    cluster.done(successor, put("seen"));
    let follower = cluster.read(other);
    assert!(cluster.run_until(|cluster| cluster.reads.contains(&follower)), "no read");
    assert_eq!(cluster.node(other).machine().state().range(&every_key()).count, 1);
}

// Requirements: S0-114.
#[test]
fn a_lease_ends_within_fifty_milliseconds_of_its_deadline() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.done(leader, lease(1, 2_000));
    cluster.done(leader, lease(2, 60_000));
    assert!(matches!(cluster.done(leader, acquire("a", 1)), Outcome::Acquired(_)));
    assert!(matches!(cluster.done(leader, acquire("a", 2)), Outcome::Queued(_)));
    let deadline = cluster.node(leader).machine().state().lease(LeaseId(1)).expect("alive").expiry;
    let held_by = |cluster: &Cluster| {
        let view = cluster.node(leader).machine().state().lock(&LockName::from("a"), 1);
        view.holders.first().map(|holder| holder.lease)
    };
    assert!(cluster.run_until(|cluster| held_by(cluster) == Some(LeaseId(2))), "never passed on");
    let late = cluster.log_time(leader).since(deadline);
    assert!(late <= Millis(50), "{late} late");
}

#[test]
fn renewals_wait_for_company() {
    let mut cluster = Cluster::new(1, 7);
    let leader = cluster.elect();
    for id in 1..=100 {
        cluster.done(leader, lease(id, 60_000));
    }
    cluster.run(30 * MS);
    let before = cluster.entries_persisted;
    let requests: Vec<u64> = (1..=100).map(|id| cluster.propose(leader, renew(id))).collect();
    let all = |cluster: &Cluster| requests.iter().all(|one| cluster.answers.contains_key(one));
    assert!(cluster.run_until(all), "renewals without an answer");
    assert_eq!(cluster.entries_persisted - before, 1, "one entry for all of them");
}

/// Those who renew very many do not wait for more.
#[test]
fn a_crowd_of_renewals_is_company_enough() {
    let mut cluster = Cluster::new(1, 7);
    let leader = cluster.elect();
    cluster.done(leader, lease(1, 60_000));
    cluster.run(30 * MS);
    let begun = cluster.now;
    let requests: Vec<u64> = (0..4_000).map(|_| cluster.propose(leader, renew(1))).collect();
    let first = |cluster: &Cluster| cluster.answers.contains_key(&requests[0]);
    assert!(cluster.run_until(first), "renewals without an answer");
    assert!(cluster.now - begun < 25 * MS, "they have waited for company");
}

/// Two leases on a single node, the first of which holds the lock `a`. Its token.
fn a_held_lock(cluster: &mut Cluster) -> Token {
    let leader = cluster.elect();
    cluster.done(leader, lease(1, 60_000));
    cluster.done(leader, lease(2, 60_000));
    let Outcome::Acquired(grant) = cluster.done(leader, acquire("a", 1)) else {
        panic!("the lock is free");
    };
    grant.token
}

/// Whoever hands a lock over comes back for it at once. What the next holder does must not wait for
/// that one's sync.
#[test]
fn who_would_only_queue_shares_the_entry_of_what_the_holder_does_next() {
    let mut cluster = Cluster::new(1, 7);
    let token = a_held_lock(&mut cluster);
    let before = cluster.entries_persisted;
    let queued = cluster.propose(1, acquire("a", 2));
    assert_eq!(cluster.entries_persisted, before, "it waits for company");
    assert_eq!(cluster.node(1).next_turn(), Some(Micros(cluster.now + MS)));
    let (name, lease) = (LockName::from("a"), LeaseRef::from(LeaseId(1)));
    let released = cluster.propose(1, Action::Release(Release { name, lease, token }));
    assert_eq!(cluster.entries_persisted - before, 1, "one entry for both of them");
    assert_eq!(cluster.node(1).next_turn(), None);
    let both = |cluster: &Cluster| cluster.answers.contains_key(&released);
    assert!(cluster.run_until(both), "no answer");
    let outcome = |request| cluster.answers[request].clone().expect("it is done").outcome;
    assert!(matches!(outcome(&queued), Outcome::Queued(_)));
    assert_eq!(outcome(&released), Outcome::Released);
}

#[test]
fn who_would_only_queue_does_not_wait_for_company_that_does_not_come() {
    let mut cluster = Cluster::new(1, 7);
    a_held_lock(&mut cluster);
    assert!(matches!(cluster.done(1, acquire("a", 2)), Outcome::Queued(_)));
}

#[test]
fn who_wants_a_free_lock_waits_for_nobody() {
    let mut cluster = Cluster::new(1, 7);
    a_held_lock(&mut cluster);
    let before = cluster.entries_persisted;
    cluster.propose(1, acquire("b", 2));
    assert_eq!(cluster.entries_persisted - before, 1);
}

// Requirements: S1-079.
#[test]
fn a_frozen_leader_does_not_end_leases_early() {
    let mut cluster = Cluster::new(1, 7);
    let leader = cluster.elect();
    cluster.done(leader, lease(1, 10_000));
    // An hour in which nobody could have renewed.
    cluster.freeze(3_600_000 * MS);
    cluster.run(100 * MS);
    assert!(cluster.node(leader).machine().state().lease(LeaseId(1)).is_some(), "ended early");
    assert_eq!(cluster.node(leader).clock_cuts(), 1);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut cluster = Cluster::new(3, seed);
        let leader = cluster.elect();
        cluster.done(leader, lease(1, 2_000));
        cluster.kill(leader);
        cluster.elect();
        cluster.run(3_000 * MS);
        cluster.trace
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn a_renewal_that_comes_just_before_the_end_is_not_overtaken_by_it() {
    let mut cluster = Cluster::new(1, 7);
    cluster.elect();
    let before = cluster.now;
    assert!(matches!(cluster.done(1, lease(5, 1_000)), Outcome::LeaseGranted(_)));
    cluster.run(before + 985 * MS - cluster.now);
    let renewed = cluster.done(1, renew(5));
    let Outcome::LeasesRenewed(renewed) = renewed else { panic!("{renewed:?}") };
    assert!(matches!(renewed[0].result, RenewResult::Alive { .. }), "{renewed:?}");
}
