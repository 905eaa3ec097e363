//! How clusters begin, and what must not begin.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use fencepost_node::peer::Listed;
use fencepost_node::shell::{Notice, Observer, Origin, RunningNode, Settings, StartError, start};

use crate::support::{PATIENCE, cluster, folder, join, until, write};

/// Addresses that nobody listens on. They are found by listening on them for a moment.
fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("there are free ports"))
        .collect();
    listeners.iter().map(|one| one.local_addr().expect("it listens")).collect()
}

fn list(addresses: &[SocketAddr]) -> Vec<Listed> {
    let names = (1..).map(|number| format!("n{number}"));
    names.zip(addresses).map(|(name, peer)| Listed { name, peer: peer.to_string() }).collect()
}

fn founder(folder: &Path, place: usize, addresses: &[SocketAddr]) -> Settings {
    let name = format!("n{}", place + 1);
    Settings {
        peer_listen: addresses[place],
        origin: Origin::Founders(list(addresses)),
        patience: Some(PATIENCE),
        ..Settings::new(folder.join(&name), &name)
    }
}

/// Starts these founders at the same time.
fn form(settings: Vec<Settings>) -> Vec<Result<RunningNode, StartError>> {
    let starting: Vec<_> =
        settings.into_iter().map(|one| thread::spawn(move || start(one))).collect();
    starting.into_iter().map(|one| one.join().expect("it does not panic")).collect()
}

/// Three nodes that have formed a cluster from a list.
fn formed(folder: &Path, addresses: &[SocketAddr]) -> Vec<RunningNode> {
    let settings = (0..addresses.len()).map(|place| founder(folder, place, addresses)).collect();
    form(settings).into_iter().map(|node| node.expect("the directories are new")).collect()
}

struct Waits(std::sync::mpsc::SyncSender<String>);

impl Observer for Waits {
    fn observe(&mut self, notices: &[Notice]) -> bool {
        for notice in notices {
            if let Notice::Waiting(what) = notice {
                self.0.send(what.clone()).ok();
            }
        }
        true
    }
}

#[test]
fn three_nodes_form_a_cluster_although_one_comes_late() {
    let (folder, _) = folder(0);
    let addresses = free_addresses(3);
    let (sender, waits) = sync_channel(100);
    let mut first = founder(folder.path(), 0, &addresses);
    first.observers.push(Box::new(Waits(sender)));
    let others = [first, founder(folder.path(), 1, &addresses)];
    let early = thread::spawn(|| form(others.into()));
    // The founder has found the second, and waits for the third.
    loop {
        let waiting = waits.recv_timeout(PATIENCE).expect("the founder says what it waits for");
        if waiting == "waiting for n3" {
            break;
        }
    }
    let third = start(founder(folder.path(), 2, &addresses)).expect("the others wait for it");
    let mut nodes = vec![third];
    nodes.extend(
        early.join().expect("it does not panic").into_iter().map(|node| node.expect("formed")),
    );
    for node in &nodes {
        until(node, |status| status.role.leader.is_some());
        write(node.handle(), "a");
    }
    let ids: Vec<u64> = nodes.iter().map(|node| node.handle().status().cluster_id).collect();
    assert_eq!(ids, [ids[0]; 3]);
}

#[test]
fn a_wiped_disk_is_refused_and_may_join_after_it_was_removed() {
    let (folder, _) = folder(0);
    let addresses = free_addresses(3);
    let mut nodes = formed(folder.path(), &addresses);
    until(&nodes[0], |status| status.role.leader.is_some());
    let wiped = nodes.remove(1);
    let id = wiped.handle().status().id;
    wiped.kill();
    std::fs::remove_dir_all(folder.path().join("n2")).expect("it is there");
    let refused = start(founder(folder.path(), 1, &addresses)).expect_err("its name is taken");
    let text = refused.to_string();
    assert!(text.contains("n2 is already a member with another disk"), "{text}");
    assert!(text.contains("remove it, then let it join"), "{text}");
    assert_eq!(text.lines().count(), 3);
    let remove = fencepost_node::io::Change::Remove(id);
    nodes[0].handle().change_anywhere(&remove, PATIENCE).expect("the others are a majority");
    let again = join(&folder.path().join("n2"), "n2", &nodes[0]);
    until(&again, |status| status.members.voters().contains(&status.id));
}

#[test]
fn a_founder_whose_disk_was_wiped_founds_no_second_cluster() {
    let (folder, _) = folder(0);
    let addresses = free_addresses(3);
    let mut nodes = formed(folder.path(), &addresses);
    nodes.remove(0).kill();
    std::fs::remove_dir_all(folder.path().join("n1")).expect("it is there");
    let refused = start(founder(folder.path(), 0, &addresses)).expect_err("a cluster exists");
    assert!(refused.to_string().contains("n1 is already a member with another disk"), "{refused}");
}

#[test]
fn a_list_without_the_node_itself_is_refused() {
    let (folder, _) = folder(0);
    let addresses = free_addresses(2);
    let mut settings = founder(folder.path(), 1, &addresses);
    settings.name = "n9".to_owned();
    let refused = start(settings).expect_err("n9 is not on the list");
    assert!(matches!(refused, StartError::Settings { .. }), "{refused}");
    assert_eq!(refused.to_string().lines().count(), 3);
}

#[test]
fn nodes_with_different_lists_do_not_form_a_cluster() {
    let (folder, _) = folder(0);
    let addresses = free_addresses(3);
    let (sender, waits) = sync_channel(100);
    let mut second = founder(folder.path(), 1, &addresses);
    second.patience = Some(Duration::from_secs(5));
    second.observers.push(Box::new(Waits(sender)));
    let second = thread::spawn(|| start(second));
    waits.recv_timeout(PATIENCE).expect("it says what it waits for");
    let mut first = founder(folder.path(), 0, &addresses[..2]);
    first.patience = Some(Duration::from_secs(5));
    let results = [start(first), second.join().expect("it does not panic")];
    // Whoever asks first is refused. The other one may then wait in vain.
    let texts = results.map(|result| result.expect_err("the lists differ").to_string());
    assert!(texts.iter().any(|text| text.contains("another list")), "{texts:?}");
    assert!(texts.iter().all(|text| text.lines().count() == 3), "{texts:?}");
}

#[test]
fn a_founder_that_waits_in_vain_says_for_whom() {
    let (folder, _) = folder(0);
    let addresses = free_addresses(2);
    let patience = Some(Duration::from_millis(1));
    let settings = Settings { patience, ..founder(folder.path(), 0, &addresses) };
    let refused = start(settings).expect_err("n2 is not there").to_string();
    assert!(refused.contains("waited in vain for n2"), "{refused}");
    assert_eq!(refused.lines().count(), 3);
}

#[test]
fn a_directory_that_has_an_identity_ignores_where_it_should_come_from() {
    let (_folder, dirs, cluster) = cluster(1);
    let id = cluster.nodes()[0].handle().status().id;
    cluster.stop();
    let origin = Origin::Join(vec!["127.0.0.1:1".to_owned()]);
    let settings = Settings { origin, ..Settings::new(dirs[0].clone(), "other") };
    let node = start(settings).expect("it is what it was");
    let status = until(&node, |status| status.role.leads);
    assert_eq!((status.id, status.name.as_str()), (id, "n1"));
}

#[test]
fn members_of_another_cluster_are_refused_with_both_names() {
    let (_folder, dirs, mut ours) = cluster(3);
    let (_other_folder, _, theirs) = cluster(1);
    let leader = ours.leader(PATIENCE).expect("there is a leader");
    let gone = ours.take((leader + 1) % 3);
    let (id, peer) = (gone.handle().status().id, gone.handle().status().peer);
    gone.kill();
    drop(gone);
    // The address now leads to a node of the other cluster: it listens where ours did.
    let dir = dirs[0].parent().expect("it is in a folder").join("stranger");
    let origin = Origin::Join(vec![theirs.nodes()[0].handle().status().peer]);
    let peer_listen = peer.parse().expect("it is an address");
    let stranger = Settings { origin, peer_listen, ..Settings::new(dir, "stranger") };
    let stranger = start(stranger).expect("it is let in");
    let ids = (ours.nodes()[0].handle().status().cluster_id, stranger.handle().status().cluster_id);
    let leader = ours.leader(PATIENCE).expect("there is a leader");
    let status = until(&ours.nodes()[leader], |status| {
        let trouble = status.links.get(&id).and_then(|link| link.trouble.as_ref());
        trouble.is_some_and(|trouble| trouble.contains("belongs to cluster"))
    });
    let trouble = status.links[&id].trouble.clone().unwrap_or_default();
    assert!(trouble.contains(&format!("{:016x}", ids.0)), "{trouble}");
    assert!(trouble.contains(&format!("{:016x}", ids.1)), "{trouble}");
    assert_eq!(trouble.lines().count(), 3);
}

#[test]
fn a_directory_and_an_address_that_are_in_use_are_refused() {
    let (folder, dirs, cluster) = cluster(1);
    let refused = start(Settings::new(dirs[0].clone(), "n1")).expect_err("it is in use");
    assert!(refused.to_string().contains("another process has it open"), "{refused}");
    let peer_listen = cluster.nodes()[0].handle().status().peer.parse().expect("an address");
    let settings = Settings { peer_listen, ..Settings::new(folder.path().join("n2"), "n2") };
    let refused = start(settings).expect_err("the address is taken").to_string();
    assert!(refused.starts_with("cannot listen for other members on"), "{refused}");
    assert_eq!(refused.lines().count(), 3);
}

#[test]
fn a_directory_that_lost_its_log_or_its_identity_is_refused() {
    let (_folder, dirs, cluster) = cluster(1);
    write(cluster.nodes()[0].handle(), "a");
    cluster.stop();
    let identity = std::fs::read(dirs[0].join("identity")).expect("it has one");
    std::fs::remove_file(dirs[0].join("identity")).expect("it has one");
    let refused = start(Settings::new(dirs[0].clone(), "n1")).expect_err("whose log is this?");
    assert!(matches!(refused, StartError::NotEmpty { .. }), "{refused}");
    assert_eq!(refused.to_string().lines().count(), 3);
    std::fs::write(dirs[0].join("identity"), identity).expect("there is room");
    for file in std::fs::read_dir(&dirs[0]).expect("it is there") {
        let path = file.expect("it can be listed").path();
        if path.extension().is_some_and(|extension| extension == "wal") {
            std::fs::remove_file(path).expect("it is there");
        }
    }
    let refused = start(Settings::new(dirs[0].clone(), "n1")).expect_err("the log is gone");
    assert!(refused.to_string().contains("the log of this member is gone"), "{refused}");
    assert_eq!(refused.to_string().lines().count(), 3);
}
