//! Joining, voting, leaving, and catching up by a snapshot.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_node::io::{Change, ChangeError};
use fencepost_node::membership::Member;
use fencepost_node::peer::{Ask, FrameBuffer, PREAMBLE_BYTES, Preamble, Refusal, Told, kind};
use fencepost_node::shell::cluster::Cluster;
use fencepost_node::shell::{Ended, Freshness, Origin, Settings, StartError, start};

use crate::support::{PATIENCE, cluster, folder, has, join, until, until_votes, write};

// Requirements: S1-026, S1-028, S1-044, S1-061, S1-105.
#[test]
fn a_fourth_node_joins_votes_and_is_removed() {
    let (folder, _, cluster) = cluster(3);
    write(cluster.nodes()[0].handle(), "before");
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    // Through a follower: it sends the newcomer on to the leader.
    let follower = &cluster.nodes()[(leader + 1) % 3];
    let fourth = join(&folder.path().join("n4"), "n4", follower);
    let id = fourth.handle().status().id;
    for node in cluster.nodes().iter().chain([&fourth]) {
        until_votes(node, id);
    }
    assert_eq!(has(fourth.handle(), "before", Freshness::Linearizable), Ok(true));
    write(fourth.handle(), "through the newcomer");
    let removed = follower.handle().change_anywhere(&Change::Remove(id), PATIENCE);
    assert_eq!(removed, Ok(()));
    assert_eq!(fourth.wait(), Ended::Removed);
    until(follower, |status| status.members.removed.contains(&id));
    write(follower.handle(), "after");
}

// Requirements: S1-051.
#[test]
fn a_member_leaves_by_itself_even_if_it_leads() {
    let (_folder, _, mut cluster) = cluster(3);
    // First one that follows, then the one that leads.
    for leads in [false, true] {
        let leader = cluster.leader(PATIENCE).expect("there is a leader");
        let other = (leader + 1) % cluster.nodes().len();
        let leaving = cluster.take(if leads { leader } else { other });
        let id = leaving.handle().status().id;
        assert_eq!(leaving.leave(PATIENCE), Ok(Ended::Removed));
        for node in cluster.nodes() {
            until(node, |status| status.members.removed.contains(&id));
        }
    }
    write(cluster.nodes()[0].handle(), "after");
}

#[test]
fn the_last_voter_stays() {
    let (_folder, _, cluster) = cluster(1);
    let node = &cluster.nodes()[0];
    assert_eq!(node.leave(PATIENCE), Err(ChangeError::LastVoter));
    write(node.handle(), "still here");
}

#[test]
fn a_removed_node_that_was_away_is_told_when_it_comes_back() {
    let (_folder, dirs, mut cluster) = cluster(3);
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    let place = (leader + 1) % 3;
    let away = cluster.take(place);
    let id = away.handle().status().id;
    away.kill();
    let rest = &cluster.nodes()[0];
    assert_eq!(rest.handle().change_anywhere(&Change::Remove(id), PATIENCE), Ok(()));
    let back = start(Settings::new(dirs[place].clone(), "n")).expect("its directory is sound");
    assert_eq!(back.wait(), Ended::Removed);
}

#[test]
fn removal_that_risks_the_quorum_is_refused_at_once() {
    let (_folder, _, mut cluster) = cluster(3);
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    let down = cluster.take((leader + 1) % 3);
    let lost = down.handle().status().id;
    down.kill();
    let leader = cluster.leader(PATIENCE).expect("it still leads");
    let (leader, follower) = (&cluster.nodes()[leader], &cluster.nodes()[1 - leader]);
    // Longer than any election takes: by then the leader knows that the member is gone.
    let silence = || leader.handle().status().contacts[&lost].silent_for;
    while silence() < Duration::from_secs(2) {
        std::thread::yield_now();
    }
    let remove = Change::Remove(follower.handle().status().id);
    for node in [leader, follower] {
        // If it were tried again, this test would not end.
        let refused = node.handle().change_anywhere(&remove, Duration::from_secs(86_400));
        assert_eq!(refused, Err(ChangeError::QuorumAtRisk));
    }
    write(leader.handle(), "after");
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let (folder, _, cluster) = cluster(1);
    let origin = Origin::Join(vec![cluster.nodes()[0].handle().status().peer]);
    let settings = Settings { origin, ..Settings::new(folder.path().join("other"), "n1") };
    let refused = start(settings).expect_err("the name is taken");
    assert!(matches!(refused, StartError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("n1 is already a member with another disk"), "{refused}");
    assert_eq!(refused.to_string().lines().count(), 3);
}

#[test]
fn a_node_that_lags_behind_catches_up_by_a_snapshot() {
    let config = NodeConfig { snapshot_entries: 20, ..NodeConfig::new(0) };
    let (_folder, dirs) = folder(3);
    let mut cluster = Cluster::start(&dirs, &config).expect("the directories are new");
    let leader = cluster.leader(PATIENCE).expect("a leader is elected");
    let place = (leader + 1) % 3;
    let away = cluster.take(place);
    let before = away.handle().status();
    away.kill();
    let rest = &cluster.nodes()[0];
    for number in 0..200 {
        write(rest.handle(), &format!("k{number}"));
    }
    // The log before the last two snapshots is gone everywhere.
    let far = before.applied + 60;
    for node in cluster.nodes() {
        until(node, |status| status.snapshot.index > far);
    }
    let settings = Settings { config, ..Settings::new(dirs[place].clone(), "n") };
    let back = start(settings).expect("its directory is sound");
    let commit = rest.handle().status().commit;
    until(&back, |status| status.applied >= commit);
    assert_eq!(has(back.handle(), "k199", Freshness::Stale), Ok(true));
}

/// The answer to one question of a stranger that speaks these versions of the peer protocol.
fn asked(address: &str, versions: Preamble, ask: &Ask) -> (u8, Vec<u8>) {
    let mut out = Vec::new();
    versions.put(&mut out);
    ask.put(&mut out);
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(&out).expect("it reads");
    let mut buffer = FrameBuffer::default();
    let mut preamble = [0; PREAMBLE_BYTES];
    stream.read_exact(&mut preamble).expect("it answers");
    loop {
        match buffer.next_frame().expect("it is a frame") {
            Some((kind, body)) => break (kind, body.to_vec()),
            None => drop(buffer.fill(&mut stream).expect("it answers")),
        }
    }
}

/// A build that speaks only version 1 of the peer protocol supports feature level 1.
#[test]
fn older_build_is_refused_after_the_level_is_raised() {
    let (_folder, _, cluster) = cluster(1);
    let node = &cluster.nodes()[0];
    let status = until(node, |status| status.feature_level == 2);
    let member = Member { id: 77, name: "old".to_owned(), ..Member::default() };
    let ask = Ask::Change { cluster_id: 0, change: Change::Add(member) };
    let (kind, body) = asked(&status.peer, Preamble { lowest: 1, highest: 1 }, &ask);
    assert_eq!(kind, kind::REFUSED);
    assert_eq!(Refusal::read(&body), Some(Refusal::Version { lowest: 2, highest: 2 }));
}

// Requirements: S1-105.
#[test]
fn follower_sends_a_newcomer_on_to_the_leader() {
    // No other leader is elected meanwhile, however busy the machine is.
    let config = NodeConfig { election_ticks: (300, 600), ..NodeConfig::new(0) };
    let (_folder, dirs) = folder(3);
    let cluster = Cluster::start(&dirs, &config).expect("the directories are new");
    for node in cluster.nodes() {
        until(node, |status| status.feature_level == 2 && status.role.leader.is_some());
    }
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    let peer_of = |place: usize| cluster.nodes()[place % 3].handle().status().peer;
    let member = Member { id: 77, name: "new".to_owned(), ..Member::default() };
    let ask = Ask::Change { cluster_id: 0, change: Change::Add(member) };
    for follower in [leader + 1, leader + 2] {
        let (kind, body) = asked(&peer_of(follower), Preamble::OURS, &ask);
        assert_eq!((kind, Told::read(&body)), (kind::TOLD, Some(Told::Redirect(peer_of(leader)))));
    }
    let (_, body) = asked(&peer_of(leader), Preamble::OURS, &ask);
    let Some(Told::Changed { membership, .. }) = Told::read(&body) else { panic!("{body:?}") };
    assert!(membership.contains(77) && membership.members.len() == 4);
}

// Requirements: S1-005.
#[test]
fn every_member_has_a_number_of_its_own() {
    let (folder, _, cluster) = cluster(3);
    let fourth = join(&folder.path().join("n4"), "n4", &cluster.nodes()[0]);
    let all = || cluster.nodes().iter().chain([&fourth]);
    let ids: BTreeSet<u64> = all().map(|node| node.handle().status().id).collect();
    assert_eq!(ids.len(), 4, "a number is there twice: {ids:?}");
    for node in all() {
        until(node, |status| {
            status.members.members.keys().copied().collect::<BTreeSet<_>>() == ids
        });
    }
}

#[test]
fn status_shows_the_feature_levels() {
    let (_folder, _, cluster) = cluster(3);
    for node in cluster.nodes() {
        let status = until(node, |status| status.feature_level == 2);
        let levels = until(node, |status| status.peer_levels.len() == 2).peer_levels;
        assert!(levels.values().all(|&level| level == 2), "{levels:?}");
        assert!(!levels.contains_key(&status.id));
    }
}
