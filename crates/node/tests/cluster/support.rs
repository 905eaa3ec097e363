//! A cluster in one thread: virtual time, a network that can be cut, disks that can be slow.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::codec::encode_command;
use fencepost_core::{Action, Command, LogTime, Outcome};
use fencepost_node::boot::{self, Booted, found};
use fencepost_node::config::NodeConfig;
use fencepost_node::disk::{Crash, MemoryDisk, NamesKept, WritesKept};
use fencepost_node::io::{
    Answer, Change, ChangeError, Class, Input, Micros, Output, PeerMessage, Persist, Proposal,
    RequestId,
};
use fencepost_node::membership::{self, Membership};
use fencepost_node::node::Node;
use fencepost_node::peer::VERSION_HIGHEST;
use fencepost_node::replica::Replica;
use fencepost_node::snapshot_keeper::{SnapshotKeeper, SnapshotTask, Source, read_replica};
use fencepost_node::snapshot_store::{SnapshotId, SnapshotStore};
use fencepost_node::wal::{Wal, WalConfig};

use crate::messages::Sent;

/// A millisecond, in microseconds.
pub(crate) const MS: u64 = 1_000;

const CLUSTER: u64 = 77;

/// A request of the test.
pub(crate) fn request(number: u64) -> RequestId {
    RequestId { line: 0, number }
}

/// How member `id` is called.
pub(crate) fn named(id: u64) -> membership::Member {
    let (peer, client) = (format!("peer-{id}:1"), format!("client-{id}:1"));
    membership::Member { id, name: format!("n{id}"), peer, client }
}

struct Member {
    node: Option<Node>,
    wal: Option<Wal<MemoryDisk>>,
    keeper: Option<SnapshotKeeper<MemoryDisk>>,
    disk: MemoryDisk,
    boot: u64,
    /// How long a sync takes.
    sync: u64,
}

enum Happening {
    Tick(u64),
    Arrives(u64, u64, PeerMessage),
    Synced(u64, Persist),
    Keeps(u64, SnapshotTask),
}

/// A cluster, and what its clients were told.
pub(crate) struct Cluster {
    members: BTreeMap<u64, Member>,
    agenda: BTreeMap<(u64, u64), Happening>,
    pub(crate) now: u64,
    counter: u64,
    pub(crate) cut: BTreeSet<(u64, u64)>,
    pub(crate) answers: BTreeMap<u64, Answer>,
    pub(crate) reads: BTreeSet<u64>,
    pub(crate) failed_reads: BTreeSet<u64>,
    /// How long a message takes.
    pub(crate) latency: u64,
    /// Whether every message arrives a second time.
    pub(crate) copies: bool,
    /// Every output, as text: two runs of one seed must give the same.
    pub(crate) trace: Vec<String>,
    /// Every message of the engine, also those that got lost.
    pub(crate) sent: Vec<Sent>,
    pub(crate) entries_persisted: usize,
    /// What came of changes of members.
    pub(crate) changed: BTreeMap<u64, Result<(), ChangeError>>,
    /// What came of backups.
    pub(crate) saved: BTreeMap<u64, Result<SnapshotId, String>>,
    /// How often a snapshot was installed.
    pub(crate) installed: u64,
    /// How many pieces of snapshots were sent, and how many of them get lost: one in so many.
    pub(crate) pieces: u64,
    pub(crate) lose_piece: u64,
    /// Who was told that it is no member any more.
    pub(crate) removed: BTreeSet<u64>,
    /// Whether a member may halt, and those that did, with the reason.
    pub(crate) may_halt: bool,
    pub(crate) halted: BTreeMap<u64, String>,
    /// The peer protocol version of members with older builds.
    pub(crate) versions: BTreeMap<u64, u32>,
    /// The feature level that a member's build supports; 1 unless it is here.
    pub(crate) levels: BTreeMap<u64, u32>,
    /// After how many entries a snapshot is made.
    pub(crate) snapshot_entries: u64,
    /// Up to which size a state is copied for it.
    pub(crate) snapshot_copy_max: usize,
    /// How long a task about a snapshot takes.
    pub(crate) snapshot_takes: u64,
    seed: u64,
}

impl Cluster {
    /// So many members, all of them voters, with nothing in their logs.
    pub(crate) fn new(size: u64, seed: u64) -> Cluster {
        Cluster::with_levels(size, seed, &[])
    }

    /// The same, with builds that support these feature levels: member 1 has the first of them.
    pub(crate) fn with_levels(size: u64, seed: u64, levels: &[u32]) -> Cluster {
        let mut cluster = Cluster {
            members: BTreeMap::new(),
            agenda: BTreeMap::new(),
            now: 0,
            counter: 0,
            cut: BTreeSet::new(),
            answers: BTreeMap::new(),
            reads: BTreeSet::new(),
            failed_reads: BTreeSet::new(),
            latency: MS,
            copies: false,
            trace: Vec::new(),
            sent: Vec::new(),
            entries_persisted: 0,
            changed: BTreeMap::new(),
            saved: BTreeMap::new(),
            installed: 0,
            pieces: 0,
            lose_piece: u64::MAX,
            removed: BTreeSet::new(),
            may_halt: false,
            halted: BTreeMap::new(),
            versions: BTreeMap::new(),
            levels: (1..).zip(levels.iter().copied()).collect(),
            snapshot_entries: 1_000_000,
            snapshot_copy_max: 0,
            snapshot_takes: 2 * MS,
            seed,
        };
        let membership = Membership::founding(CLUSTER, (1..=size).map(named));
        for id in 1..=size {
            cluster.add_disk(id, MemoryDisk::new());
            found(&cluster.members[&id].disk, membership.clone()).expect("the disk is sound");
            cluster.start(id);
        }
        cluster
    }

    /// A member that has only a disk.
    pub(crate) fn add_disk(&mut self, id: u64, disk: MemoryDisk) {
        let member = Member { node: None, wal: None, keeper: None, disk, boot: 0, sync: MS };
        self.members.insert(id, member);
        self.plan(id * MS, Happening::Tick(id));
    }

    /// A node with an empty disk that wants to join.
    pub(crate) fn newcomer(&mut self, id: u64) -> membership::Member {
        self.add_disk(id, MemoryDisk::new());
        self.start(id);
        named(id)
    }

    fn plan(&mut self, after: u64, what: Happening) {
        self.counter += 1;
        self.agenda.insert((self.now + after, self.counter), what);
    }

    /// Starts a member from what its disk has.
    pub(crate) fn start(&mut self, id: u64) {
        let member = self.members.get_mut(&id).expect("a member of this cluster");
        member.boot += 1;
        let config = WalConfig { segment_bytes: 4_096, salt: self.seed };
        let booted = boot::open(member.disk.clone(), config, member.boot > 1);
        let Booted { wal, snapshots, store, replica, warnings } =
            booted.expect("a crash damages nothing");
        assert!(warnings.is_empty(), "{warnings:?}");
        member.wal = Some(wal);
        member.keeper = Some(SnapshotKeeper::new(snapshots.with_chunk_bytes(300)));
        let config = NodeConfig {
            boot: member.boot,
            boot_nonce: id << 32 | member.boot,
            feature_level: self.levels.get(&id).copied().unwrap_or(1),
            memory_bytes: id << 30,
            seed: self.seed,
            snapshot_entries: self.snapshot_entries,
            snapshot_copy_max: self.snapshot_copy_max,
            ..NodeConfig::new(id)
        };
        member.node = Some(Node::new(config, store, replica).expect("the log is sound"));
        let others: Vec<u64> = self.members.keys().copied().filter(|&other| other != id).collect();
        for other in others {
            self.connect(id, other);
            self.connect(other, id);
        }
    }

    /// A connection from one member to another stands.
    fn connect(&mut self, from: u64, to: u64) {
        let version = |id: &u64| self.versions.get(id).copied().unwrap_or(VERSION_HIGHEST);
        let agreed = version(&from).min(version(&to));
        self.input(from, Input::Connected(to, agreed));
    }

    /// Stops a member. What was not durable is gone.
    pub(crate) fn kill(&mut self, id: u64) {
        let member = self.members.get_mut(&id).expect("a member of this cluster");
        member.node = None;
        (member.wal, member.keeper) = (None, None);
        let lose_all = Crash { writes: WritesKept::None, names: NamesKept::None };
        member.disk = member.disk.crash(lose_all);
        let lost = |what: &Happening| match what {
            Happening::Synced(to, ..) | Happening::Keeps(to, ..) => *to == id,
            Happening::Tick(_) | Happening::Arrives(..) => false,
        };
        self.agenda.retain(|_, what| !lost(what));
    }

    /// A copy of what is durable on a member's disk.
    pub(crate) fn copy_disk(&self, id: u64) -> MemoryDisk {
        let durable = Crash { writes: WritesKept::None, names: NamesKept::None };
        self.members[&id].disk.crash(durable)
    }

    /// Sets the disk of a member that does not run back to a copy.
    pub(crate) fn set_disk(&mut self, id: u64, disk: MemoryDisk) {
        let member = self.members.get_mut(&id).expect("a member of this cluster");
        assert!(member.node.is_none(), "member {id} runs");
        member.disk = disk;
    }

    /// Makes a member's disk take so long for a sync.
    pub(crate) fn slow_disk(&mut self, id: u64, sync: u64) {
        self.members.get_mut(&id).expect("a member of this cluster").sync = sync;
    }

    /// Cuts a member off, both ways.
    pub(crate) fn isolate(&mut self, id: u64) {
        let others: Vec<u64> = self.members.keys().copied().filter(|&one| one != id).collect();
        for other in others {
            self.cut.insert((id, other));
            self.cut.insert((other, id));
        }
    }

    pub(crate) fn node(&self, id: u64) -> &Node {
        self.members[&id].node.as_ref().expect("the member runs")
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (u64, &Node)> {
        self.members.iter().filter_map(|(&id, member)| Some((id, member.node.as_ref()?)))
    }

    pub(crate) fn leader(&self) -> Option<u64> {
        let leaders = self.running().filter(|(_, node)| node.leads());
        leaders.max_by_key(|(_, node)| node.role().term).map(|(id, _)| id)
    }

    /// Hands an input to a member and plans what it wants done.
    pub(crate) fn input(&mut self, id: u64, input: Input) {
        let now = Micros(self.now);
        let Some(node) = self.members.get_mut(&id).and_then(|member| member.node.as_mut()) else {
            return;
        };
        for output in node.handle(now, input) {
            self.trace.push(format!("{} {id} {output:?}", self.now));
            match output {
                Output::Persist(persist) => {
                    self.entries_persisted += persist.entries.len();
                    let sync = self.members[&id].sync;
                    self.append(id, &persist);
                    self.plan(sync, Happening::Synced(id, persist));
                }
                Output::Send(to, message) => {
                    self.sent.extend(Sent::read(self.now, &message));
                    if self.cut.contains(&(id, to)) || self.loses(&message) {
                        continue;
                    }
                    if self.copies {
                        self.plan(7 * MS, Happening::Arrives(id, to, message.clone()));
                    }
                    self.plan(self.latency, Happening::Arrives(id, to, message));
                }
                Output::Reply(RequestId { number: request, .. }, answer) => {
                    let twice = self.answers.insert(request, answer);
                    assert!(twice.is_none(), "request {request} was answered twice");
                }
                Output::ReadReady(RequestId { number: request, .. }) => {
                    self.reads.insert(request);
                }
                Output::ReadFailed(RequestId { number: request, .. }, _) => {
                    self.failed_reads.insert(request);
                }
                Output::Halt(why) => {
                    assert!(self.may_halt, "member {id} halted: {why}");
                    self.halted.insert(id, why);
                }
                // Each member is reached by its number.
                Output::SendBack(..)
                | Output::Applied(..)
                | Output::Role(_)
                | Output::Members(_)
                | Output::PeerLevels(_) => {}
                Output::Snapshot(task) => {
                    self.plan(self.snapshot_takes, Happening::Keeps(id, *task))
                }
                Output::Purge(start) => {
                    let wal = self.members.get_mut(&id).and_then(|member| member.wal.as_mut());
                    wal.expect("the member runs").purge(start).expect("the disk is sound");
                }
                Output::Installed(_) => self.installed += 1,
                Output::Changed(RequestId { number: request, .. }, result) => {
                    self.changed.insert(request, result);
                }
                Output::Saved(RequestId { number: request, .. }, result) => {
                    self.saved.insert(request, result);
                }
                Output::Removed => drop(self.removed.insert(id)),
            }
        }
    }

    fn loses(&mut self, message: &PeerMessage) -> bool {
        if !matches!(message, PeerMessage::SnapshotPiece(_)) {
            return false;
        }
        self.pieces += 1;
        self.pieces.is_multiple_of(self.lose_piece)
    }

    fn append(&mut self, id: u64, persist: &Persist) {
        let wal = self.members.get_mut(&id).and_then(|member| member.wal.as_mut());
        wal.expect("the member runs").append(&persist.batch()).expect("the disk is sound");
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Tick(id) => {
                self.input(id, Input::Tick);
                self.plan(10 * MS, Happening::Tick(id));
            }
            Happening::Arrives(from, to, message) => self.input(to, Input::Peer(from, message)),
            Happening::Synced(id, persist) => {
                let wal = self.members.get_mut(&id).and_then(|member| member.wal.as_mut());
                wal.expect("the member runs").sync().expect("the disk is sound");
                self.input(id, Input::Persisted(persist.number));
            }
            Happening::Keeps(id, task) => {
                let keeper = self.members.get_mut(&id).and_then(|member| member.keeper.as_mut());
                let done = keeper.expect("the member runs").perform(task);
                self.input(id, Input::Snapshot(done));
            }
        }
    }

    /// Asks for a change of members and waits for what comes of it.
    pub(crate) fn change(&mut self, id: u64, change: Change) -> Result<(), ChangeError> {
        self.counter += 1;
        let number = self.counter;
        self.input(id, Input::Change(request(number), change));
        assert!(self.run_until(|cluster| cluster.changed.contains_key(&number)), "no answer");
        self.changed[&number].clone()
    }

    /// Asks for a snapshot and waits for it.
    pub(crate) fn save(&mut self, id: u64) -> Replica {
        self.counter += 1;
        let number = self.counter;
        self.input(id, Input::Save(request(number)));
        assert!(self.run_until(|cluster| cluster.saved.contains_key(&number)), "no answer");
        let saved = self.saved[&number].clone().expect("the disk is sound");
        let store = SnapshotStore::open(self.members[&id].disk.clone()).expect("it can be read");
        read_replica(&store, saved).expect("it can be read")
    }

    fn tasks(&self, id: u64) -> impl Iterator<Item = &SnapshotTask> {
        self.agenda.values().filter_map(move |what| match what {
            Happening::Keeps(member, task) if *member == id => Some(task),
            _ => None,
        })
    }

    /// Whether a member makes a snapshot just now.
    pub(crate) fn is_making(&self, id: u64) -> bool {
        self.making(id).is_some()
    }

    /// From what a member makes a snapshot, if it does just now.
    pub(crate) fn making(&self, id: u64) -> Option<&Source> {
        self.tasks(id).find_map(|task| match task {
            SnapshotTask::Make { source, .. } => Some(source),
            _ => None,
        })
    }

    /// How many tasks about snapshots a member has.
    pub(crate) fn tasks_waiting(&self, id: u64) -> usize {
        self.tasks(id).count()
    }

    pub(crate) fn damage_newest_snapshot(&mut self, id: u64) {
        let SnapshotId { index, term } = self.node(id).snapshot_id();
        let name = format!("{index:016x}-{term:016x}.snapshot");
        assert!(self.members[&id].disk.flip(&name, 50, 3), "there is no {name}");
    }

    /// Lets time go by while all processes stand still.
    pub(crate) fn freeze(&mut self, length: u64) {
        let agenda = std::mem::take(&mut self.agenda);
        self.agenda = agenda.into_iter().map(|((at, n), what)| ((at + length, n), what)).collect();
        self.now += length;
    }

    /// Lets virtual time go by.
    pub(crate) fn run(&mut self, length: u64) {
        let until = self.now + length;
        while let Some((&(at, _), _)) = self.agenda.first_key_value() {
            if at > until {
                break;
            }
            let ((at, _), what) = self.agenda.pop_first().expect("it was just seen");
            self.now = at;
            self.happen(what);
        }
        self.now = until;
    }

    /// Runs until `done`, and says whether it came to that within ten virtual seconds.
    pub(crate) fn run_until(&mut self, done: impl Fn(&Cluster) -> bool) -> bool {
        for _ in 0..10_000 {
            if done(self) {
                return true;
            }
            self.run(MS);
        }
        false
    }

    /// Waits for a leader that has applied something in its term.
    pub(crate) fn elect(&mut self) -> u64 {
        let settled = self.run_until(|cluster| cluster.leader().is_some());
        assert!(settled, "no leader within ten seconds");
        self.run(20 * MS);
        self.leader().expect("there is a leader")
    }

    pub(crate) fn propose(&mut self, id: u64, action: Action) -> u64 {
        let class = match action {
            Action::LeaseRenew(_) => Class::Renewal,
            _ => Class::Ordinary,
        };
        self.counter += 1;
        let number = self.counter;
        let mut command = Vec::new();
        encode_command(&Command::from(action), &mut command);
        let request = request(number);
        self.input(id, Input::Propose(Proposal { request, class, command: command.into() }));
        number
    }

    /// Proposes bytes that need not be a command.
    pub(crate) fn propose_bytes(&mut self, id: u64, command: Vec<u8>) -> u64 {
        self.counter += 1;
        let (number, class) = (self.counter, Class::Ordinary);
        let request = request(number);
        self.input(id, Input::Propose(Proposal { request, class, command: command.into() }));
        number
    }

    /// Proposes and waits for the outcome.
    pub(crate) fn done(&mut self, id: u64, action: Action) -> Outcome {
        let request = self.propose(id, action);
        assert!(self.run_until(|cluster| cluster.answers.contains_key(&request)), "no answer");
        self.answers[&request].clone().expect("the command is done").outcome
    }

    pub(crate) fn read(&mut self, id: u64) -> u64 {
        self.counter += 1;
        let number = self.counter;
        self.input(id, Input::Read(request(number)));
        number
    }

    pub(crate) fn log_time(&self, id: u64) -> LogTime {
        self.node(id).machine().state().now()
    }
}
