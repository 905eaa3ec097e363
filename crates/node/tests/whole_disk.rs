//! A member's whole disk under one node: log and snapshots together, killed at every operation
//! and damaged at every byte. It either comes back with all that it had confirmed, or refuses.

use std::collections::BTreeMap;

use fencepost_core::codec::encode_command;
use fencepost_core::command::Put;
use fencepost_core::{Action, Command, Key, Value};
use fencepost_node::boot::{self, Booted};
use fencepost_node::config::NodeConfig;
use fencepost_node::disk::{Crash, Disk, Fault, MemoryDisk, NamesKept, WritesKept};
use fencepost_node::io::{Class, Input, Micros, Output, Proposal, RequestId};
use fencepost_node::membership::{Member, Membership};
use fencepost_node::node::Node;
use fencepost_node::snapshot_keeper::SnapshotKeeper;
use fencepost_node::wal::{Wal, WalConfig};

const CONFIG: WalConfig = WalConfig { segment_bytes: 1_024, salt: 99 };

/// A cluster of one, whose outputs are carried out on the spot.
struct Single {
    node: Node,
    wal: Wal<MemoryDisk>,
    keeper: SnapshotKeeper<MemoryDisk>,
    now: u64,
    /// Set when the disk has failed: a process would have stopped.
    dead: bool,
    /// What was answered: how many commands, and the state's hash after each entry.
    answered: u64,
    hashes: BTreeMap<u64, [u8; 32]>,
}

impl Single {
    fn start(disk: &MemoryDisk, is_member: bool) -> Result<Single, boot::Error> {
        let Booted { wal, snapshots, store, replica, .. } =
            boot::open(disk.clone(), CONFIG, is_member)?;
        let config = NodeConfig { snapshot_entries: 5, snapshot_copy_max: 2, ..NodeConfig::new(1) };
        let node = Node::new(config, store, replica).expect("what boots is sound");
        let keeper = SnapshotKeeper::new(snapshots.with_chunk_bytes(200));
        let hashes = BTreeMap::new();
        Ok(Single { node, wal, keeper, now: 0, dead: false, answered: 0, hashes })
    }

    fn input(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop().filter(|_| !self.dead) {
            for output in self.node.handle(Micros(self.now), input) {
                if let Some(next) = self.carry_out(output) {
                    inputs.insert(0, next);
                }
            }
            let machine = self.node.machine();
            self.hashes.insert(machine.applied(), machine.state().hash());
        }
    }

    fn carry_out(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Persist(persist) if !self.dead => {
                let written = self.wal.append(&persist.batch()).and_then(|()| self.wal.sync());
                self.dead |= written.is_err();
                (!self.dead).then_some(Input::Persisted(persist.number))
            }
            Output::Purge(start) if !self.dead => {
                self.dead |= self.wal.purge(start).is_err();
                None
            }
            Output::Snapshot(task) if !self.dead => {
                Some(Input::Snapshot(self.keeper.perform(*task)))
            }
            Output::Reply(_, answer) => {
                self.answered += u64::from(answer.is_ok());
                None
            }
            Output::Halt(why) => panic!("the node halted: {why}"),
            _ => None,
        }
    }

    /// Ticks until it leads, and puts so many keys.
    fn work(&mut self, keys: u64) {
        while !self.node.leads() && !self.dead {
            self.now += 10_000;
            self.input(Input::Tick);
        }
        for number in 0..keys {
            let (key, value) = (format!("k{number}"), Value::from("v"));
            let put = Put { key: Key::from(key.as_str()), value, ..Put::default() };
            let mut command = Vec::new();
            encode_command(&Command::from(Action::Put(put)), &mut command);
            let request = RequestId { line: 0, number };
            self.now += 1_000;
            let class = Class::Ordinary;
            self.input(Input::Propose(Proposal { request, class, command: command.into() }));
        }
    }

    fn keys(&self) -> u64 {
        self.node.machine().state().revision().0 - 1
    }
}

fn founded() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let member = Member { id: 1, name: "n1".to_owned(), ..Member::default() };
    boot::found(&disk, Membership::founding(7, [member])).expect("the disk is sound");
    disk
}

/// What comes back must be what was there at that place of the log.
fn check(single: &mut Single, before: &Single, what: &str) {
    single.work(0);
    assert!(!single.dead, "{what}: the disk is sound now");
    let applied = single.node.machine().applied();
    if let Some(hash) = before.hashes.get(&applied.min(last(before))) {
        let known = single.hashes.get(&applied.min(last(before)));
        assert!(known.is_none_or(|known| known == hash), "{what}: another state at {applied}");
    }
    assert!(single.keys() >= before.answered, "{what}: {} of {}", single.keys(), before.answered);
}

fn last(single: &Single) -> u64 {
    single.hashes.keys().next_back().copied().unwrap_or_default()
}

#[test]
fn a_death_at_every_operation_loses_nothing_that_was_answered() {
    let mut single = Single::start(&founded(), false).expect("it was just founded");
    single.work(30);
    assert_eq!(single.answered, 30);
    let disk = founded();
    drop(Single::start(&disk, false).map(|mut single| single.work(30)));
    let operations = disk.operations();
    assert!(operations > 100, "{operations}");
    for operation in 1..=operations {
        for crash in crashes(operation) {
            let disk = founded();
            let begun = disk.operations();
            if operation <= begun {
                continue;
            }
            disk.fail_at(operation, Fault::Die);
            let before = Single::start(&disk, false).map(|mut single| {
                single.work(30);
                single
            });
            let what = format!("operation {operation}, {crash:?}");
            let after = disk.crash(crash);
            let Ok(before) = before else {
                // It died before it had promised anything: a directory like new, or like an old
                // one, but never one that cannot be opened.
                let again = Single::start(&after, false);
                assert!(again.is_ok(), "{what}: {:?}", again.err());
                continue;
            };
            match Single::start(&after, true) {
                Ok(mut after) => check(&mut after, &before, &what),
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

fn crashes(operation: u64) -> Vec<Crash> {
    let torn = WritesKept::Torn { whole: 0, bytes: usize::try_from(operation % 97).unwrap_or(1) };
    vec![
        Crash { writes: WritesKept::None, names: NamesKept::None },
        Crash { writes: WritesKept::All, names: NamesKept::All },
        Crash { writes: torn, names: NamesKept::All },
        Crash { writes: WritesKept::Sectors(operation.wrapping_mul(77)), names: NamesKept::None },
    ]
}

#[test]
fn an_error_at_every_operation_stops_the_node_and_loses_nothing() {
    let disk = founded();
    let begun = disk.operations();
    drop(Single::start(&disk, false).map(|mut single| single.work(30)));
    for operation in begun + 1..=disk.operations() {
        for fault in [Fault::Error, Fault::NoSpace] {
            let disk = founded();
            disk.fail_at(operation, fault);
            let Ok(mut before) = Single::start(&disk, false) else { continue };
            before.work(30);
            let what = format!("operation {operation}, {fault:?}");
            match Single::start(&disk.kill(), true) {
                Ok(mut after) => check(&mut after, &before, &what),
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found_or_does_no_harm() {
    let disk = founded();
    let mut before = Single::start(&disk, false).expect("it was just founded");
    before.work(30);
    let Single { wal, node, keeper, now, dead, answered, hashes } = before;
    wal.close().expect("the disk is sound");
    let refused =
        |disk: &MemoryDisk| Single::start(disk, true).err().map(|error| error.to_string());
    let (mut survived, mut detected) = (0, 0);
    let before = Single::start(&disk.fork(), true).map(|single| Single {
        node,
        keeper,
        now,
        dead,
        answered,
        hashes,
        ..single
    });
    let before = before.expect("the disk is sound");
    for name in disk.list().expect("the disk is sound") {
        let len = disk.contents(&name).map_or(0, |bytes| bytes.len() as u64);
        for offset in 0..len {
            let damaged = disk.fork();
            assert!(damaged.flip(&name, offset, u32::try_from(offset % 8).unwrap_or(0)));
            let what = format!("{name} at {offset}");
            match Single::start(&damaged, true) {
                Ok(mut after) => {
                    check(&mut after, &before, &what);
                    survived += 1;
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.lines().count() >= 3, "{what}: no help in {text:?}");
                    assert_eq!(refused(&damaged), Some(text), "{what}: refused in another way");
                    detected += 1;
                }
            }
        }
    }
    assert!(survived > 100, "one of two snapshots can be done without: {survived}");
    assert!(detected > 100, "{detected}");
}

#[test]
fn a_member_without_its_log_is_refused() {
    let disk = founded();
    let mut single = Single::start(&disk, false).expect("it was just founded");
    single.work(3);
    for name in disk.list().expect("the disk is sound") {
        if name.ends_with(".wal") {
            disk.remove(&name).expect("the disk is sound");
        }
    }
    let error = Single::start(&disk, true).err().expect("it has forgotten its votes");
    assert!(error.to_string().contains("log of this member is gone"), "{error}");
}

#[test]
fn a_member_without_its_snapshots_is_refused() {
    let disk = founded();
    let mut single = Single::start(&disk, false).expect("it was just founded");
    single.work(30);
    for name in disk.list().expect("the disk is sound") {
        if name.ends_with(".snapshot") {
            disk.remove(&name).expect("the disk is sound");
        }
    }
    let error = Single::start(&disk, true).err().expect("nothing covers what was purged");
    assert!(error.to_string().contains("no sound snapshot covers the log"), "{error}");
}
