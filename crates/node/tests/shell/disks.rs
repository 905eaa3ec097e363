//! Disks that fail under a node that runs, and files that were damaged while it did not.

use std::net::TcpListener;
use std::path::Path;

use fencepost_node::boot;
use fencepost_node::config::NodeConfig;
use fencepost_node::data_dir::Identity;
use fencepost_node::disk::{Crash, Disk as _, Fault, MemoryDisk, NamesKept, WritesKept};
use fencepost_node::io::{Class, ProposeError};
use fencepost_node::membership::{Member, Membership};
use fencepost_node::shell::{
    Ended, Freshness, Launch, Notice, Observer, RunningNode, Settings, run, start,
};
use fencepost_node::wal::WalConfig;

use crate::support::{cluster, has, put, until, write};

const ID: u64 = 7;
const COMMANDS: usize = 60;
/// With so many commands the first segment is more than half full.
const HALF: usize = 30;

fn wal_config() -> WalConfig {
    WalConfig { segment_bytes: 4_096, salt: 3 }
}

/// Runs the only member of a cluster on a disk in memory.
fn run_on(disk: &MemoryDisk, is_member: bool, boot: u64) -> Option<RunningNode> {
    run_with(disk, is_member, boot, NodeConfig { snapshot_entries: 10, ..NodeConfig::new(ID) })
}

fn run_with(
    disk: &MemoryDisk,
    is_member: bool,
    boot: u64,
    config: NodeConfig,
) -> Option<RunningNode> {
    let booted = boot::open(disk.clone(), wal_config(), is_member).ok()?;
    let name = "n1".to_owned();
    let launch = Launch {
        identity: Identity { cluster_id: 5, node_id: ID, name, incarnation: 0, boot },
        booted,
        config,
        listener: TcpListener::bind("127.0.0.1:0").expect("there are free ports"),
        peer: None,
        observers: Vec::new(),
        keep: None,
    };
    Some(run(launch).expect("the log is sound"))
}

fn founded() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let member = Member { id: ID, name: "n1".to_owned(), ..Member::default() };
    boot::found(&disk, Membership::founding(5, [member])).expect("the disk has no faults");
    disk
}

/// Writes until the node fails. How many writes were acknowledged.
fn write_many(node: &RunningNode) -> usize {
    let known =
        |status: &fencepost_node::shell::Status| status.role.leads || status.ended.is_some();
    until(node, known);
    let done = |number: &usize| {
        let command = put(&format!("k{number}"), "v");
        node.handle().propose_and_wait(Class::Ordinary, command).is_ok()
    };
    (0..COMMANDS).take_while(done).count()
}

/// How many operations of the disk a whole run takes, before and in it.
fn operations() -> (u64, u64) {
    let disk = founded();
    let before = disk.operations();
    let node = run_on(&disk, false, 1).expect("the disk has no faults");
    assert_eq!(write_many(&node), COMMANDS);
    assert_eq!(node.stop(), Ended::Stopped);
    (before, disk.operations())
}

#[test]
fn whatever_was_acknowledged_survives_a_disk_that_fails() {
    let (before, after) = operations();
    assert!(after - before > 100, "the run is too short to mean anything");
    for fault in [Fault::Die, Fault::Error, Fault::NoSpace] {
        // How many operations there are depends on how the threads meet. A sample over all of them
        // is what is wanted.
        for operation in (before + 1..after).step_by(5) {
            fails_at(operation, fault);
        }
    }
}

fn fails_at(operation: u64, fault: Fault) {
    let disk = founded();
    disk.fail_at(operation, fault);
    let Some(node) = run_on(&disk, false, 1) else { return };
    let acknowledged = write_many(&node);
    if acknowledged < COMMANDS {
        // It has ended, and says why, in the form in which everything is said.
        let Ended::Failed(why) = node.wait() else { panic!("it has failed") };
        assert_eq!(why.lines().count(), 3, "{why}");
        assert!(why.contains("the disk says"), "{why}");
    }
    drop(node);
    let lose_all = Crash { writes: WritesKept::None, names: NamesKept::None };
    let again = run_on(&disk.crash(lose_all), true, 2);
    let again = again.unwrap_or_else(|| panic!("{fault:?} at {operation}: it cannot be opened"));
    until(&again, |status| status.role.leads);
    for number in 0..acknowledged {
        let there = has(again.handle(), &format!("k{number}"), Freshness::Linearizable);
        assert_eq!(there, Ok(true), "{fault:?} at {operation}: k{number} is lost");
    }
}

#[test]
fn a_segment_is_made_ready_before_it_is_needed() {
    let disk = founded();
    // Without snapshots no segment is used again.
    let node = run_with(&disk, false, 1, NodeConfig::new(ID)).expect("the disk has no faults");
    let count = |ending: &str| {
        let names = disk.list().expect("the disk has no faults");
        names.iter().filter(|name| name.ends_with(ending)).count()
    };
    until(&node, |status| status.role.leads);
    // More than half of a segment, and less than all of it.
    for number in 0..HALF {
        write(node.handle(), &format!("k{number}"));
    }
    assert_eq!(count(".wal"), 1);
    until(&node, |_| count(".spare") == 1);
}

#[test]
fn spare_that_cannot_be_made_does_not_end_the_node() {
    let disk = founded();
    let node = run_with(&disk, false, 1, NodeConfig::new(ID)).expect("the disk has no faults");
    until(&node, |status| status.role.leads);
    let (tell, told) = std::sync::mpsc::sync_channel(16);
    node.handle().observe(Box::new(Troubles(tell)));
    disk.refuse_new_files(true);
    let mut number = 0;
    let trouble = loop {
        write(node.handle(), &format!("k{number}"));
        number += 1;
        if let Ok(trouble) = told.try_recv() {
            break trouble;
        }
        assert!(number < COMMANDS, "the segment is full");
        if number > HALF {
            // It is being tried beside the log.
            break told.recv().expect("the node runs");
        }
    };
    assert!(trouble.contains("no segment of the log could be made ready"), "{trouble}");
    assert_eq!(trouble.lines().count(), 3, "{trouble}");
    write(node.handle(), "after");
    disk.refuse_new_files(false);
    for number in 0..COMMANDS {
        write(node.handle(), &format!("later{number}"));
    }
    assert_eq!(node.stop(), Ended::Stopped);
}

#[test]
fn full_disk_refuses_writes_until_there_is_room() {
    let disk = founded();
    let node = run_with(&disk, false, 1, NodeConfig::new(ID)).expect("the disk has no faults");
    until(&node, |status| status.role.leads);
    let before = until(&node, |status| status.applied > 0);
    assert_eq!(before.disk, None, "this disk does not say how full it is");
    // A quarter of the disk is the reserve, and less than that is free.
    disk.set_capacity(disk.used() + disk.used() / 5);
    let status = until(&node, |status| status.disk.is_some_and(|disk| disk.is_low));
    assert!(status.disk.is_some_and(|disk| disk.free < disk.reserve), "{status:?}");
    let refused = node.handle().propose_and_wait(Class::Ordinary, put("refused", "v"));
    assert_eq!(refused, Err(ProposeError::DiskFull));
    assert_eq!(has(node.handle(), "refused", Freshness::Linearizable), Ok(false));
    disk.set_capacity(1 << 30);
    until(&node, |status| status.disk.is_some_and(|disk| !disk.is_low));
    write(node.handle(), "written");
}

/// Passes on what an operator should know.
struct Troubles(std::sync::mpsc::SyncSender<String>);

impl Observer for Troubles {
    fn observe(&mut self, notices: &[Notice]) -> bool {
        for notice in notices {
            if let Notice::Trouble(trouble) = notice {
                drop(self.0.try_send(trouble.clone()));
            }
        }
        true
    }
}

/// Turns a bit of the first file whose name ends like this.
fn damage(dir: &Path, ending: &str, at: usize) {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .expect("it is there")
        .map(|file| file.expect("it can be listed").path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    let mut bytes = std::fs::read(&files[0]).expect("it can be read");
    bytes[at] ^= 4;
    std::fs::write(&files[0], bytes).expect("there is room");
}

#[test]
fn damaged_files_are_refused_with_a_reason_and_a_remedy() {
    for (ending, at, text) in [
        (".wal", 200, "the log is damaged"),
        ("identity", 20, "the identity of this node is damaged"),
        // The versions of the identity and of the log: damage, not an upgrade.
        ("identity", 9, "the identity of this node is damaged"),
        (".wal", 9, "the log is damaged"),
        (".snapshot", 40, "no sound snapshot covers the log"),
    ] {
        let (_folder, dirs, cluster) = cluster(1);
        for number in 0..20 {
            write(cluster.nodes()[0].handle(), &format!("k{number}"));
        }
        cluster.stop();
        damage(&dirs[0], ending, at);
        let refused = start(Settings::new(dirs[0].clone(), "n1")).expect_err("it is damaged");
        let refused = refused.to_string();
        assert!(refused.contains(text), "{ending}: {refused}");
        assert_eq!(refused.lines().count(), 3, "{refused}");
    }
}

/// Zeros the end of what was written to a file.
fn zero_the_end(path: &Path, len: usize) {
    let mut bytes = std::fs::read(path).expect("it can be read");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("something was written") + 1;
    bytes[end.saturating_sub(len)..end].fill(0);
    std::fs::write(path, bytes).expect("there is room");
}

#[test]
fn closed_log_that_lost_its_end_is_refused() {
    for (len, is_refused) in [(0, false), (600, true), (2_000, true)] {
        let (_folder, dirs, cluster) = cluster(1);
        for number in 0..20 {
            write(cluster.nodes()[0].handle(), &format!("k{number}"));
        }
        cluster.stop();
        assert!(dirs[0].join("log-end").exists());
        zero_the_end(&dirs[0].join("0000000000000001.wal"), len);
        match start(Settings::new(dirs[0].clone(), "n1")) {
            Ok(_) => assert!(!is_refused, "{len} bytes are gone"),
            Err(refused) => {
                assert!(is_refused, "{refused}");
                let refused = refused.to_string();
                assert!(refused.contains("has held entry"), "{refused}");
                assert_eq!(refused.lines().count(), 3, "{refused}");
            }
        }
    }
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("there is room");
    let refused = start(Settings::new(file.path().to_owned(), "n1")).expect_err("it is a file");
    assert!(refused.to_string().contains("is not a directory"), "{refused}");
}
