//! One of three disks is replaced by an older copy, and all nodes restart.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fencepost_node::config::NodeConfig;
use fencepost_node::io::Class;
use fencepost_node::shell::cluster::Cluster;
use fencepost_node::shell::{Ended, Freshness, RunningNode, Settings, start};

use crate::support::{PATIENCE, answered, folder, has, put, until};

/// A restarted member waits twice the first of these for the others, also on a busy machine.
const ELECTION_TICKS: (usize, usize) = (100, 200);

fn config() -> NodeConfig {
    NodeConfig { election_ticks: ELECTION_TICKS, ..NodeConfig::new(0) }
}

fn write(node: &RunningNode, key: &str) {
    let answer = answered(|| node.handle().propose_and_wait(Class::Ordinary, put(key, "v")));
    answer.expect("it is done");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("it is not there yet");
    for file in fs::read_dir(from).expect("it is there") {
        let file = file.expect("it can be listed");
        fs::copy(file.path(), to.join(file.file_name())).expect("there is room");
    }
}

/// Starts a node where it was before.
fn restart(dir: &Path, place: usize, peer: &str) -> RunningNode {
    let address: SocketAddr = peer.parse().expect("it is an address");
    let settings = Settings {
        peer_listen: address,
        peer_advertised: Some(peer.to_owned()),
        config: config(),
        ..Settings::new(dir.to_owned(), &format!("n{}", place + 1))
    };
    start(settings).expect("its directory is sound")
}

/// Three nodes of feature level 2, and where they are reached.
fn three(dirs: &[PathBuf]) -> (Vec<Option<RunningNode>>, Vec<String>, usize) {
    let mut cluster = Cluster::start(dirs, &config()).expect("the directories are new");
    let leader = cluster.leader(PATIENCE).expect("a leader is elected");
    for node in cluster.nodes() {
        until(node, |status| status.feature_level == 2);
    }
    let peers = cluster.nodes().iter().map(|node| node.handle().status().peer).collect();
    let nodes = (0..3).map(|_| Some(cluster.take(0))).collect();
    (nodes, peers, leader)
}

fn replaced_disk_is_found(order: [usize; 3], is_copied_while_it_runs: bool) {
    let (folder, dirs) = folder(3);
    let (mut nodes, peers, leader) = three(&dirs);
    let (victim, lagging) = ((leader + 1) % 3, (leader + 2) % 3);
    let older = folder.path().join("older");
    let witness = nodes[leader].as_ref().expect("it runs");
    for number in 0..5 {
        write(witness, &format!("before{number}"));
    }
    let applied = witness.handle().status().applied;
    until(nodes[victim].as_ref().expect("it runs"), |status| status.applied >= applied);
    if is_copied_while_it_runs {
        copy(&dirs[victim], &older);
    } else {
        nodes[victim].take().expect("it runs").kill();
        copy(&dirs[victim], &older);
        nodes[victim] = Some(restart(&dirs[victim], victim, &peers[victim]));
        until(nodes[victim].as_ref().expect("it runs"), |status| status.applied >= applied);
    }
    nodes[lagging].take().expect("it runs").kill();
    let witness = nodes[leader].as_ref().expect("it runs");
    for number in 0..50 {
        write(witness, &format!("after{number}"));
    }
    for node in nodes.iter_mut().filter_map(Option::take) {
        node.kill();
    }
    fs::remove_dir_all(&dirs[victim]).expect("it is there");
    fs::rename(&older, &dirs[victim]).expect("it is there");
    for place in order {
        let place = (leader + place) % 3;
        nodes[place] = Some(restart(&dirs[place], place, &peers[place]));
    }
    let ended = nodes[victim].as_ref().expect("it was started").wait();
    let Ended::Failed(why) = &ended else { panic!("{ended:?}") };
    let is_known = ["has seen it confirm entry", "its data directory is a copy"];
    assert!(is_known.iter().any(|text| why.contains(text)), "{why}");
    assert_eq!(why.lines().count(), 3, "{why}");
    if why.contains(is_known[0]) {
        // A supervisor may start it again, while the others are down.
        let again = start(Settings::new(dirs[victim].clone(), "n")).expect_err("it lacks entries");
        assert!(again.to_string().contains("has held entry"), "{again}");
    }
    for place in [leader, lagging] {
        let node = nodes[place].as_ref().expect("it was started");
        for number in 0..50 {
            let key = format!("after{number}");
            let found = loop {
                if let Ok(found) = has(node.handle(), &key, Freshness::Linearizable) {
                    break found;
                }
                std::thread::yield_now();
            };
            assert!(found, "{key} was acknowledged");
        }
    }
}

#[test]
fn replaced_disk_is_found_when_the_witness_starts_first() {
    replaced_disk_is_found([0, 1, 2], true);
    replaced_disk_is_found([0, 2, 1], true);
}

#[test]
fn replaced_disk_is_found_when_the_older_disk_starts_first() {
    replaced_disk_is_found([1, 0, 2], true);
    replaced_disk_is_found([1, 2, 0], true);
}

#[test]
fn replaced_disk_is_found_when_the_lagging_node_starts_first() {
    replaced_disk_is_found([2, 0, 1], true);
    replaced_disk_is_found([2, 1, 0], true);
}

/// The copy counts the same start as the process that ran last.
#[test]
fn replaced_disk_of_a_stopped_node_is_found() {
    replaced_disk_is_found([2, 1, 0], false);
}

/// The original goes on, and the copy stops.
#[test]
fn copied_directory_beside_the_original_halts() {
    copy_halts(|_| None);
}

/// With the configuration of the original, the others do not reach the copy.
#[test]
fn copy_that_announces_the_address_of_the_original_halts() {
    copy_halts(|peer| Some(peer.to_owned()));
}

fn copy_halts(advertised: impl Fn(&str) -> Option<String>) {
    let (folder, dirs) = folder(3);
    let (nodes, peers, leader) = three(&dirs);
    let original = (leader + 1) % 3;
    let node = |place: usize| nodes[place].as_ref().expect("it runs");
    for number in 0..5 {
        write(node(leader), &format!("before{number}"));
    }
    let applied = node(leader).handle().status().applied;
    until(node(original), |status| status.applied >= applied);
    let copied = folder.path().join("copy");
    copy(&dirs[original], &copied);
    for number in 0..5 {
        write(node(leader), &format!("after{number}"));
    }
    let settings = Settings {
        config: config(),
        peer_advertised: advertised(&peers[original]),
        ..Settings::new(copied, "copy")
    };
    let clone = start(settings).expect("its directory is sound");
    let ended = clone.wait();
    let Ended::Failed(why) = &ended else { panic!("{ended:?}") };
    let is_known = ["has seen it confirm entry", "its data directory is a copy"];
    assert!(is_known.iter().any(|text| why.contains(text)), "{why}");
    write(node(leader), "still here");
    let applied = node(leader).handle().status().applied;
    until(node(original), |status| status.applied >= applied);
    assert!(node(original).handle().status().ended.is_none(), "{peers:?}");
}
