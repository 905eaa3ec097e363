//! Commands, queries and events on a cluster that is well, and on one that loses a node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::ThreadId;
use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_node::io::{Change, Class, ProposeError, RequestId};
use fencepost_node::shell::cluster::Cluster;
use fencepost_node::shell::{
    Delivery, Ended, Freshness, Handle, Mailbox, Notice, Observer, Query, Settings, Status, start,
};

use crate::support::{PATIENCE, cluster, folder, has, put, until, write};

// Requirements: S1-014.
#[test]
fn three_nodes_elect_and_serve_whoever_is_asked() {
    let (_folder, _, cluster) = cluster(3);
    for (place, node) in cluster.nodes().iter().enumerate() {
        write(node.handle(), &format!("k{place}"));
    }
    for node in cluster.nodes() {
        for place in 0..3 {
            let key = format!("k{place}");
            assert_eq!(has(node.handle(), &key, Freshness::Linearizable), Ok(true), "{key}");
        }
    }
}

// Requirements: S1-043.
#[test]
fn a_killed_follower_comes_back_and_catches_up() {
    let (_folder, dirs, mut cluster) = cluster(3);
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    let place = (leader + 1) % 3;
    let killed = cluster.take(place);
    let before = killed.handle().status();
    assert_eq!(killed.kill(), Ended::Stopped);
    assert_eq!(
        killed.handle().propose_and_wait(Class::Ordinary, put("a", "v")),
        Err(ProposeError::NoLeader)
    );
    for number in 0..20 {
        write(cluster.nodes()[0].handle(), &format!("k{number}"));
    }
    let settings = Settings {
        peer_listen: before.peer.parse().expect("it is an address"),
        ..Settings::new(dirs[place].clone(), "ignored")
    };
    let again = start(settings).expect("its directory is sound");
    let commit = cluster.nodes()[0].handle().status().commit;
    let status = until(&again, |status| status.applied >= commit);
    assert_eq!((status.id, &status.name), (before.id, &before.name));
    assert_eq!(has(again.handle(), "k19", Freshness::Stale), Ok(true));
}

#[test]
fn a_killed_leader_is_replaced_and_nothing_is_lost() {
    let (_folder, _, mut cluster) = cluster(3);
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    for number in 0..20 {
        write(cluster.nodes()[leader].handle(), &format!("k{number}"));
    }
    let killed = cluster.take(leader);
    let term = killed.handle().status().role.term;
    killed.kill();
    for node in cluster.nodes() {
        until(node, |status| status.role.term > term && status.role.leader.is_some());
    }
    for number in 0..20 {
        let read =
            || has(cluster.nodes()[0].handle(), &format!("k{number}"), Freshness::Linearizable);
        assert_eq!(read(), Ok(true), "k{number}");
    }
}

// Requirements: S1-050, S1-097.
#[test]
fn stale_reads_need_no_quorum_and_all_else_does() {
    let (_folder, _, mut cluster) = cluster(3);
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    let last = cluster.take(leader);
    write(last.handle(), "k");
    assert_eq!(has(last.handle(), "k", Freshness::Linearizable), Ok(true));
    for node in cluster.nodes() {
        node.kill();
    }
    let refused = [ProposeError::NoLeader, ProposeError::Indeterminate];
    let read = has(last.handle(), "k", Freshness::Linearizable).expect_err("no quorum, no read");
    let written = last.handle().propose_and_wait(Class::Ordinary, put("a", "v"));
    let written = written.expect_err("no quorum, no write");
    assert!(refused.contains(&read) && refused.contains(&written), "{read}, {written}");
    let removal = Change::Remove(cluster.nodes()[0].handle().status().id);
    let changed = last.handle().change_anywhere(&removal, Duration::ZERO);
    assert!(changed.is_err(), "no quorum, no change of members");
    assert_eq!(has(last.handle(), "k", Freshness::Stale), Ok(true));
}

#[test]
fn a_killed_leader_is_replaced_long_before_the_timers_notice() {
    let config = NodeConfig { election_ticks: (300, 600), ..NodeConfig::new(0) };
    let (_folder, dirs) = folder(3);
    let mut cluster = Cluster::start(&dirs, &config).expect("the directories are new");
    let leader = cluster.leader(PATIENCE).expect("a leader is elected");
    let killed = cluster.take(leader);
    let term = killed.handle().status().role.term;
    killed.kill();
    // No timer runs out within three seconds. Its connections take a few milliseconds.
    let next = |status: &Status| status.role.term > term && status.role.leader.is_some();
    let waited = cluster.nodes()[0].handle().board().wait_until(Duration::from_secs(2), next);
    assert!(waited.is_ok(), "{waited:?}");
}

#[test]
fn a_leader_that_stops_hands_over_first() {
    let (_folder, _, mut cluster) = cluster(3);
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    let stopped = cluster.take(leader);
    let term = stopped.handle().status().role.term;
    assert_eq!(stopped.stop(), Ended::Stopped);
    // The next leader was made by this one: nobody had to stand up twice.
    let next = cluster.leader(PATIENCE).expect("there is a leader");
    assert_eq!(cluster.nodes()[next].handle().status().role.term, term + 1);
}

#[test]
fn a_whole_cluster_comes_back_at_other_addresses() {
    let (_folder, dirs, cluster) = cluster(3);
    write(cluster.nodes()[0].handle(), "kept");
    let ids: BTreeSet<u64> = cluster.nodes().iter().map(|node| node.handle().status().id).collect();
    cluster.stop();
    let cluster = Cluster::start(&dirs, &NodeConfig::new(0)).expect("the directories are sound");
    cluster.leader(PATIENCE).expect("a leader is elected");
    let again: BTreeSet<u64> =
        cluster.nodes().iter().map(|node| node.handle().status().id).collect();
    assert_eq!(ids, again);
    assert_eq!(has(cluster.nodes()[1].handle(), "kept", Freshness::Linearizable), Ok(true));
    // The cluster learns where its members are now.
    for node in cluster.nodes() {
        let status = node.handle().status();
        until(&cluster.nodes()[0], |seen| seen.members.members[&status.id].peer == status.peer);
    }
}

#[test]
fn a_mailbox_gets_all_answers_of_its_line_and_no_others() {
    let (_folder, _, cluster) = cluster(3);
    let handle = cluster.nodes()[0].handle();
    let (inbox, answers) = mailbox();
    let (other_inbox, others) = mailbox();
    let line = handle.line(inbox);
    let other = handle.line(other_inbox);
    let commands: Vec<(RequestId, Vec<u8>)> =
        (0..500).map(|number| (line.draw(), put(&format!("k{number}"), "v"))).collect();
    let asked: BTreeSet<RequestId> = commands.iter().map(|(request, _)| *request).collect();
    let refused = line.propose_all(Class::Ordinary, commands).expect("the node runs");
    assert_eq!(refused, []);
    let request = other.draw();
    other.propose(request, Class::Renewal, put("other", "v")).expect("there is room");
    let mut answered = BTreeSet::new();
    while answered.len() < asked.len() {
        for (request, delivery) in answers.recv_timeout(PATIENCE).expect("answers come") {
            assert!(matches!(delivery, Delivery::Answer(Ok(_))), "{delivery:?}");
            assert!(answered.insert(request), "answered twice");
        }
    }
    assert_eq!(answered, asked);
    let theirs = others.recv_timeout(PATIENCE).expect("an answer comes");
    assert_eq!(theirs.iter().map(|one| one.0).collect::<Vec<_>>(), [request]);
}

#[test]
fn a_flood_is_refused_at_once_and_leaves_room_for_renewals() {
    let (_folder, _, cluster) = cluster(1);
    let handle = cluster.nodes()[0].handle();
    let (inbox, answers) = mailbox();
    let line = handle.line(inbox);
    // The loop stands still until this test lets it go on.
    let (let_go, gate) = sync_channel::<()>(0);
    let (inside, stands) = sync_channel::<()>(1);
    let block = Query::once(move |_| {
        inside.send(()).ok();
        gate.recv().ok();
    });
    let blocked = line.draw();
    // Whoever asks may be the one on whose thread the query runs, so it is not this one.
    let line = Arc::new(line);
    let asker = {
        let line = Arc::clone(&line);
        std::thread::spawn(move || line.read(blocked, Freshness::Stale, block))
    };
    stands.recv_timeout(PATIENCE).expect("the query runs");
    let mut asked = BTreeSet::from([blocked]);
    let refusal = loop {
        let request = line.draw();
        match line.propose(request, Class::Ordinary, put("flood", "v")) {
            Ok(()) => assert!(asked.insert(request) && asked.len() < 1_000_000, "no bound"),
            Err(why) => break why,
        }
    };
    assert_eq!(refusal, ProposeError::Overloaded);
    let renewal = line.draw();
    line.propose(renewal, Class::Renewal, put("renewal", "v"))
        .expect("renewals have their own room");
    asked.insert(renewal);
    let_go.send(()).expect("the query waits");
    asker.join().expect("it goes on").expect("there was room");
    // Whatever was let in is answered.
    while !asked.is_empty() {
        for (request, _) in answers.recv_timeout(PATIENCE).expect("answers come") {
            assert!(asked.remove(&request), "answered twice");
        }
    }
}

#[test]
fn what_is_not_answered_when_a_node_ends_is_unknown() {
    let (_folder, _, mut cluster) = cluster(3);
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    let last = cluster.take(leader);
    // Without the others nothing can be committed.
    for node in cluster.nodes() {
        node.kill();
    }
    let (inbox, answers) = mailbox();
    let line = last.handle().line(inbox);
    let request = line.draw();
    line.propose(request, Class::Ordinary, put("a", "v")).expect("there is room");
    last.kill();
    // Either the node has said that it is unknown or not done, or it has hung up.
    while let Ok(deliveries) = answers.recv_timeout(PATIENCE) {
        for (_, delivery) in deliveries {
            assert!(matches!(delivery, Delivery::Answer(Err(_))), "{delivery:?}");
        }
    }
}

#[test]
fn observers_hear_of_roles_events_and_the_end() {
    let (_folder, dirs) = folder(1);
    let node = start(Settings::new(dirs[0].clone(), "n1")).expect("the directory is new");
    let heard = watch(node.handle());
    until(&node, |status| status.role.leads);
    write(node.handle(), "a");
    node.stop();
    let mut seen = BTreeSet::new();
    loop {
        match heard.recv_timeout(PATIENCE).expect("notices come") {
            Notice::Role(role) if role.leads => drop(seen.insert("role")),
            Notice::Applied(_, events) if !events.is_empty() => drop(seen.insert("applied")),
            Notice::Ended(Ended::Stopped) => break,
            _ => {}
        }
    }
    assert!(seen.contains("applied"), "{seen:?}");
}

type Answers = Receiver<Vec<(RequestId, Delivery)>>;

struct Box1(SyncSender<Vec<(RequestId, Delivery)>>);

impl Mailbox for Box1 {
    fn deliver(&self, deliveries: Vec<(RequestId, Delivery)>) {
        self.0.send(deliveries).ok();
    }
}

fn mailbox() -> (Box<dyn Mailbox>, Answers) {
    let (sender, receiver) = sync_channel(1_000);
    (Box::new(Box1(sender)), receiver)
}

/// Tells on which threads entries are applied.
struct Places(SyncSender<ThreadId>);

impl Observer for Places {
    fn observe(&mut self, notices: &[Notice]) -> bool {
        let is_applied = |notice: &Notice| matches!(notice, Notice::Applied(..));
        !notices.iter().any(is_applied) || self.0.send(std::thread::current().id()).is_ok()
    }
}

/// Each change of threads takes as long as a part of a sync.
#[test]
fn whoever_asks_a_node_that_is_alone_takes_the_turn_by_itself() {
    const WRITES: usize = 10_000;
    let (_folder, _, cluster) = cluster(1);
    let handle = cluster.nodes()[0].handle();
    let (sender, places) = sync_channel(10 * WRITES);
    handle.observe(Box::new(Places(sender)));
    let here = std::thread::current().id();
    // Whenever the loop's own thread is at it just then, it does this too: on a busy machine that may be so many
    // times in a row.
    let is_done_here = (0..WRITES).any(|number| {
        write(handle, &format!("k{number}"));
        places.try_iter().any(|place| place == here)
    });
    assert!(is_done_here, "another thread has done it all");
}

/// Tells what comes in which order, as answers and as notices.
#[derive(Clone)]
struct Diary(SyncSender<&'static str>);

impl Mailbox for Diary {
    fn deliver(&self, deliveries: Vec<(RequestId, Delivery)>) {
        for _ in deliveries {
            self.0.send("answered").ok();
        }
    }
}

impl Observer for Diary {
    fn observe(&mut self, notices: &[Notice]) -> bool {
        let is_event =
            |notice: &&Notice| matches!(notice, Notice::Applied(_, events) if !events.is_empty());
        notices.iter().filter(is_event).all(|_| self.0.send("heard").is_ok())
    }
}

/// Whoever has waited for a lock hears of it as observers do, and goes on with it. Whoever has let go
/// of it gets an answer, and only wants to know.
#[test]
fn what_has_happened_is_heard_before_few_are_answered() {
    let (_folder, _, cluster) = cluster(1);
    let handle = cluster.nodes()[0].handle();
    let (sender, diary) = sync_channel(1_000);
    handle.observe(Box::new(Diary(sender.clone())));
    let line = handle.line(Box::new(Diary(sender)));
    for number in 0..100 {
        let command = put(&format!("k{number}"), "v");
        line.propose(line.draw(), Class::Ordinary, command).expect("there is room");
        for wanted in ["heard", "answered"] {
            assert_eq!(diary.recv_timeout(PATIENCE), Ok(wanted), "write {number}");
        }
    }
}

struct Watch(SyncSender<Notice>);

impl Observer for Watch {
    fn observe(&mut self, notices: &[Notice]) -> bool {
        notices.iter().all(|notice| self.0.send(notice.clone()).is_ok())
    }
}

fn watch(handle: &Handle) -> Receiver<Notice> {
    let (sender, receiver) = sync_channel(10_000);
    handle.observe(Box::new(Watch(sender)));
    receiver
}
