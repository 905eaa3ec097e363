//! A cluster in one thread: virtual time, a network that can be cut, disks that can be slow.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::codec::encode_command;
use fencepost_core::{Action, Command, LogTime, Outcome};
use fencepost_node::config::NodeConfig;
use fencepost_node::disk::{Crash, MemoryDisk, NamesKept, WritesKept};
use fencepost_node::io::{
    Answer, Class, Input, Micros, Output, PeerMessage, Persist, Proposal, RequestId,
};
use fencepost_node::machine::Machine;
use fencepost_node::node::Node;
use fencepost_node::store::Store;
use fencepost_node::wal::{Wal, WalConfig};
use raft::prelude::ConfState;

/// A millisecond, in microseconds.
pub(crate) const MS: u64 = 1_000;

struct Member {
    node: Option<Node>,
    wal: Option<Wal<MemoryDisk>>,
    disk: MemoryDisk,
    boot: u64,
    /// How long a sync takes.
    sync: u64,
}

enum Happening {
    Tick(u64),
    Arrives(u64, u64, PeerMessage),
    Synced(u64, Persist),
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
    pub(crate) entries_persisted: usize,
    seed: u64,
}

impl Cluster {
    /// So many members, all of them voters, with nothing in their logs.
    pub(crate) fn new(size: u64, seed: u64) -> Cluster {
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
            entries_persisted: 0,
            seed,
        };
        for id in 1..=size {
            let disk = MemoryDisk::new();
            let member = Member { node: None, wal: None, disk, boot: 0, sync: MS };
            cluster.members.insert(id, member);
        }
        for id in 1..=size {
            cluster.start(id);
            cluster.plan(id * MS, Happening::Tick(id));
        }
        cluster
    }

    fn plan(&mut self, after: u64, what: Happening) {
        self.counter += 1;
        self.agenda.insert((self.now + after, self.counter), what);
    }

    /// Starts a member from what its disk has.
    pub(crate) fn start(&mut self, id: u64) {
        let voters: Vec<u64> = self.members.keys().copied().collect();
        let member = self.members.get_mut(&id).expect("a member of this cluster");
        member.boot += 1;
        let config = WalConfig { segment_bytes: 4_096, salt: self.seed };
        let opened = Wal::open(member.disk.clone(), config);
        let (wal, recovered) = opened.expect("a crash damages no log");
        member.wal = Some(wal);
        let store = Store::recovered(recovered, ConfState::from((voters, Vec::new())));
        let config = NodeConfig { boot: member.boot, seed: self.seed, ..NodeConfig::new(id) };
        let node = Node::new(config, store, Machine::default()).expect("the log is sound");
        member.node = Some(node);
    }

    /// Stops a member. What was not durable is gone.
    pub(crate) fn kill(&mut self, id: u64) {
        let member = self.members.get_mut(&id).expect("a member of this cluster");
        member.node = None;
        member.wal = None;
        let lose_all = Crash { writes: WritesKept::None, names: NamesKept::None };
        member.disk = member.disk.crash(lose_all);
        let lost = |what: &Happening| matches!(what, Happening::Synced(to, ..) if *to == id);
        self.agenda.retain(|_, what| !lost(what));
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
                    if self.cut.contains(&(id, to)) {
                        continue;
                    }
                    if self.copies {
                        self.plan(7 * MS, Happening::Arrives(id, to, message.clone()));
                    }
                    self.plan(self.latency, Happening::Arrives(id, to, message));
                }
                Output::Reply(RequestId(request), answer) => {
                    let twice = self.answers.insert(request, *answer);
                    assert!(twice.is_none(), "request {request} was answered twice");
                }
                Output::ReadReady(RequestId(request)) => drop(self.reads.insert(request)),
                Output::ReadFailed(RequestId(request), _) => {
                    self.failed_reads.insert(request);
                }
                Output::Halt(why) => panic!("member {id} halted: {why}"),
                Output::Applied(..) | Output::Role(_) => {}
            }
        }
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
        }
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
        let request = RequestId(number);
        self.input(id, Input::Propose(Proposal { request, class, command }));
        number
    }

    /// Proposes bytes that need not be a command.
    pub(crate) fn propose_bytes(&mut self, id: u64, command: Vec<u8>) -> u64 {
        self.counter += 1;
        let (number, class) = (self.counter, Class::Ordinary);
        let request = RequestId(number);
        self.input(id, Input::Propose(Proposal { request, class, command }));
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
        self.input(id, Input::Read(RequestId(number)));
        number
    }

    pub(crate) fn log_time(&self, id: u64) -> LogTime {
        self.node(id).machine().state().now()
    }
}
