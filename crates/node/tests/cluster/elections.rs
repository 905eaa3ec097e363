//! Elections: when a member asks for votes, and what makes it the leader.

use std::collections::BTreeSet;

use fencepost_node::io::{Input, Role};
use raft::prelude::{Message, MessageType};

use crate::messages::message;
use crate::put;
use crate::support::{Cluster, MS};

/// The least and the most time without a leader before an election, and a tick.
const TIMEOUT: (u64, u64) = (500 * MS, 1_000 * MS);
const TICK: u64 = 10 * MS;

/// Members that do not reach each other.
fn strangers(size: u64, seed: u64) -> Cluster {
    let mut cluster = Cluster::new(size, seed);
    (1..=size).for_each(|id| cluster.isolate(id));
    cluster
}

// Requirements: S1-052, S3-023.
#[test]
fn members_start_as_followers() {
    for size in [1, 3] {
        let mut cluster = Cluster::new(size, 7);
        cluster.run(TIMEOUT.0 - 2 * TICK);
        for (id, node) in cluster.running() {
            assert_eq!((node.leads(), node.role().leader), (false, None), "member {id}");
            assert_eq!(cluster.first_campaign(0, id), None, "member {id}");
        }
    }
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.kill(leader);
    let successor = cluster.elect();
    let term = cluster.node(successor).role().term;
    let mark = cluster.sent.len();
    cluster.start(leader);
    assert!(!cluster.node(leader).leads(), "it leads as soon as it is started");
    cluster.run(2 * TIMEOUT.1);
    let follows = Role { term, leader: Some(successor), leads: false };
    assert_eq!(cluster.node(leader).role(), follows);
    assert_eq!(cluster.first_campaign(mark, leader), None);
}

// Requirements: S1-053.
#[test]
fn election_timeouts_are_random() {
    let (mut drawn, mut all_differ) = (BTreeSet::new(), 0);
    for seed in (1..=40).map(|number| number << 8) {
        let mut cluster = strangers(3, seed);
        cluster.run(TIMEOUT.1 + 2 * TICK);
        let campaigns = (1..=3).map(|id| cluster.first_campaign(0, id).expect("no leader speaks"));
        let ticks: BTreeSet<u64> = campaigns.map(|at| at / TICK).collect();
        let bounds = TIMEOUT.0 / TICK - 1..=TIMEOUT.1 / TICK;
        assert!(ticks.iter().all(|tick| bounds.contains(tick)), "seed {seed}: {ticks:?}");
        all_differ += u64::from(ticks.len() == 3);
        drawn.extend(ticks);
    }
    assert!(drawn.len() >= 40, "of fifty timeouts only these occur: {drawn:?}");
    assert!(all_differ >= 30, "the members of {all_differ} of 40 clusters differ");
}

// Requirements: S1-058.
#[test]
fn random_timeouts_keep_elections_apart() {
    let mut at_once = 0;
    for seed in 1..=40 {
        let mut cluster = Cluster::new(5, seed);
        let leader = cluster.elect();
        let term = cluster.node(leader).role().term;
        cluster.latency = 5 * MS;
        cluster.run(300 * MS);
        cluster.kill(leader);
        let successor = cluster.elect();
        at_once += u64::from(cluster.node(successor).role().term == term + 1);
    }
    assert!(at_once >= 35, "only {at_once} of 40 elections have ended in their first term");
}

// Requirements: S1-045, S1-054.
#[test]
fn heartbeat_resets_the_timer_and_updates_the_term() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let follower = cluster.others(leader)[0];
    cluster.run(100 * MS);
    cluster.isolate(follower);
    let term = cluster.node(follower).role().term + 1;
    let heartbeat = message(MessageType::MsgHeartbeat, leader, follower, term);
    let mark = cluster.sent.len();
    for _ in 0..20 {
        cluster.deliver(&heartbeat);
        cluster.run(TIMEOUT.0 - 5 * TICK);
        let follows = Role { term, leader: Some(leader), leads: false };
        assert_eq!(cluster.node(follower).role(), follows);
    }
    assert_eq!(cluster.first_campaign(mark, follower), None, "its leader was there all the time");
    cluster.run(TIMEOUT.1);
    assert!(cluster.first_campaign(mark, follower).is_some(), "it waits for ever");
}

// Requirements: S1-056, S1-110.
#[test]
fn elections_are_checked_by_ticks_alone() {
    for seed in 1..=20 {
        let mut cluster = strangers(3, seed);
        cluster.freeze(60_000 * MS);
        cluster.input(1, Input::DiskIsLow(false));
        assert_eq!(cluster.first_campaign(0, 1), None, "seed {seed}: a minute, and no tick");
        let campaigns = |_: &u64| {
            cluster.input(1, Input::Tick);
            cluster.first_campaign(0, 1).is_some()
        };
        let ticks = (1..=100).find(campaigns);
        assert!(ticks.is_some_and(|ticks| ticks >= 50), "seed {seed}: {ticks:?}");
    }
}

// Requirements: S1-034, S1-057, S3-025.
#[test]
fn candidate_raises_its_term_and_asks_every_member() {
    let mut cluster = Cluster::new(5, 7);
    let leader = cluster.elect();
    let term = cluster.node(leader).role().term;
    let mark = cluster.sent.len();
    cluster.kill(leader);
    let successor = cluster.elect();
    assert_eq!(cluster.node(successor).role().term, term + 1);
    let requests = cluster.sent_since(mark, MessageType::MsgRequestVote);
    let own = requests.iter().filter(|request| request.from == successor);
    let asked: BTreeSet<(u64, u64)> = own.map(|request| (request.to, request.term)).collect();
    let everyone = (1..=5).filter(|&id| id != successor).map(|id| (id, term + 1)).collect();
    assert_eq!(asked, everyone);
}

/// Makes member 1 a candidate: the others, which it does not reach, have let it stand. The term in
/// which it asks for votes.
fn candidate(cluster: &mut Cluster, size: u64) -> u64 {
    cluster.input(1, Input::Campaign);
    let asked = cluster.sent_since(0, MessageType::MsgRequestPreVote);
    let term = asked.first().expect("it asks whether it may stand").term;
    for from in 2..=size {
        cluster.deliver(&message(MessageType::MsgRequestPreVoteResponse, from, 1, term));
    }
    cluster.run(5 * MS);
    let asked = cluster.sent_since(0, MessageType::MsgRequestVote);
    assert_eq!(asked.len() as u64, size - 1);
    assert!(asked.iter().all(|request| request.term == term));
    term
}

// Requirements: S1-035, S1-057, S3-025.
#[test]
fn more_than_half_of_the_votes_make_a_leader() {
    for (size, needed) in [(2, 2), (3, 2), (4, 3), (5, 3)] {
        let mut cluster = strangers(size, 7);
        let term = candidate(&mut cluster, size);
        let vote = |from| message(MessageType::MsgRequestVoteResponse, from, 1, term);
        // Its own vote counts, and that of another member only once.
        for from in (2..needed).chain(2..needed) {
            cluster.deliver(&vote(from));
            cluster.run(2 * MS);
        }
        assert!(!cluster.node(1).leads(), "too few of {size} votes");
        cluster.deliver(&vote(needed));
        cluster.run(2 * MS);
        assert_eq!(cluster.node(1).role(), Role { term, leader: Some(1), leads: true });
    }
}

// Requirements: S1-035, S1-057.
#[test]
fn candidate_yields_to_a_higher_term() {
    let mut cluster = strangers(3, 7);
    let term = candidate(&mut cluster, 3);
    let mut refusal = message(MessageType::MsgRequestVoteResponse, 2, 1, term + 4);
    refusal.reject = true;
    cluster.deliver(&refusal);
    let follows = Role { term: term + 4, leader: None, leads: false };
    assert_eq!(cluster.node(1).role(), follows);
    cluster.deliver(&message(MessageType::MsgRequestVoteResponse, 3, 1, term));
    cluster.run(5 * MS);
    assert_eq!(cluster.node(1).role(), follows, "a vote for its earlier term counts");
}

// Requirements: S1-057.
#[test]
fn half_of_the_members_elect_no_leader() {
    let mut cluster = Cluster::new(4, 7);
    let leader = cluster.elect();
    let others = cluster.others(leader);
    cluster.kill(leader);
    cluster.kill(others[0]);
    cluster.run(10_000 * MS);
    assert_eq!(cluster.leader(), None, "two of four have elected a leader");
    cluster.start(others[0]);
    let elected = cluster.elect();
    cluster.done(elected, put("a"));
}

/// A member asks another one for its vote in this term, with a log that ends with this entry.
fn request(from: u64, to: u64, term: u64, last: (u64, u64)) -> Message {
    let mut request = message(MessageType::MsgRequestVote, from, to, term);
    (request.log_term, request.index) = last;
    request
}

/// Whether a member votes for the candidate that asks it; nothing if it does not answer.
fn vote(cluster: &mut Cluster, request: &Message) -> Option<bool> {
    let mark = cluster.sent.len();
    cluster.deliver(request);
    cluster.run(5 * MS);
    let answers = cluster.sent_since(mark, MessageType::MsgRequestVoteResponse);
    let own = answers.iter().find(|one| (one.from, one.to) == (request.to, request.from));
    own.map(|answer| !answer.reject && answer.term == request.term)
}

/// A member that is alone with three entries that no other one has: its number, and the term and
/// index of its last entry.
fn alone_with_entries(cluster: &mut Cluster) -> (u64, (u64, u64)) {
    let voter = cluster.elect();
    cluster.done(voter, put("kept"));
    cluster.run(50 * MS);
    cluster.isolate(voter);
    for number in 1..=3 {
        cluster.propose(voter, put(&format!("k{number}")));
    }
    cluster.run(3 * TIMEOUT.1);
    let (node, term) = (cluster.node(voter), cluster.node(voter).role().term);
    assert!(!node.leads() && node.commit() + 3 == node.last_index());
    let last = node.entry(node.last_index()).expect("it is its last one").0;
    assert_eq!(last, term);
    (voter, (last, node.last_index()))
}

// Requirements: S1-034, S1-035, S1-036.
#[test]
fn vote_needs_a_current_term_and_a_recent_log() {
    let mut cluster = Cluster::new(3, 7);
    let (voter, (last_term, last)) = alone_with_entries(&mut cluster);
    let others = cluster.others(voter);
    let (one, term) = (others[0], cluster.node(voter).role().term);
    let mut asks = |term, log| vote(&mut cluster, &request(one, voter, term, log));
    assert_eq!(asks(term - 1, (last_term, last + 9)), None, "the term is over");
    assert_eq!(asks(term + 1, (last_term, last - 1)), Some(false), "the log is shorter");
    assert_eq!(asks(term + 2, (last_term - 1, last + 9)), Some(false), "its last term is older");
    assert_eq!(asks(term + 3, (last_term, last)), Some(true), "the log is as recent");
    assert_eq!(asks(term + 4, (last_term + 1, last - 1)), Some(true), "its last term is later");
    assert_eq!(cluster.node(voter).role().term, term + 4);
}

// Requirements: S1-013, S1-036, S1-037.
#[test]
fn vote_is_given_once_a_term_and_kept_over_a_restart() {
    let mut cluster = Cluster::new(3, 7);
    let (voter, last) = alone_with_entries(&mut cluster);
    let term = cluster.node(voter).role().term + 1;
    let others = cluster.others(voter);
    let (first, second) = (request(others[0], voter, term, last), others[1]);
    let longer = request(second, voter, term, (last.0, last.1 + 9));
    assert_eq!(vote(&mut cluster, &first), Some(true));
    assert_eq!(vote(&mut cluster, &longer), Some(false), "it has voted in this term");
    assert_eq!(vote(&mut cluster, &first), Some(true), "it says again what it has said");
    cluster.kill(voter);
    cluster.start(voter);
    // A member that was restarted waits for the others before it votes at all.
    cluster.run(3 * TIMEOUT.1);
    assert_eq!(cluster.node(voter).role().term, term);
    assert_eq!(vote(&mut cluster, &longer), Some(false), "it has forgotten its vote");
    assert_eq!(vote(&mut cluster, &first), Some(true));
    let next = request(second, voter, term + 1, last);
    assert_eq!(vote(&mut cluster, &next), Some(true), "a later term is another election");
}

/// A member that does not hear of its leader asks whether it could win before it raises its term.
// Requirements: S1-096.
#[test]
fn cut_off_member_does_not_depose_the_leader() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    let away = cluster.others(leader)[0];
    let role = cluster.node(leader).role();
    let unchanged = |cluster: &Cluster| {
        cluster.leader() == Some(leader)
            && cluster.running().all(|(_, node)| node.role().term == role.term)
    };
    cluster.isolate(away);
    cluster.run(60_000 * MS);
    assert!(unchanged(&cluster), "a minute alone has raised its term");
    cluster.cut.clear();
    cluster.run(5_000 * MS);
    assert!(unchanged(&cluster), "it has deposed the leader");
    // It hears nothing, and the others hear it all the time.
    cluster.cut.extend(cluster.others(away).iter().map(|&id| (id, away)));
    cluster.run(60_000 * MS);
    assert!(unchanged(&cluster), "its questions have deposed the leader");
    // The link comes and goes.
    for round in 1..=50 {
        cluster.isolate(away);
        cluster.run(TIMEOUT.1 + 37 * MS * round);
        cluster.cut.clear();
        cluster.run(50 * MS);
        assert!(unchanged(&cluster), "an election in round {round}");
    }
    cluster.done(leader, put("k"));
}
