//! One member of the cluster, as a state machine without I/O.
//!
//! `handle` is the only door. It feeds the input to the consensus engine, packs what waits into
//! entries, and drains the engine: messages out, entries to persist, committed entries to apply.
//! What promises something durable (a vote, an acknowledgement) is held back until the disk has
//! confirmed the batch that it rests on.

mod announce;
mod disk_space;
mod drain;
mod fetch;
mod forward;
mod give;
mod guard;
mod handshake;
mod hear;
mod level;
mod make;
mod members;
mod peers;
mod propose;
mod quota;
mod read;
mod spare;
mod succeed;
mod witness;

use std::collections::{BTreeMap, VecDeque};

use raft::prelude::{Entry, Message};
use raft::{Config, RawNode, StateRole};

use crate::clock::LogClock;
use crate::config::NodeConfig;
use crate::io::{
    ForwardNumber, Input, MemberId, Micros, Output, PeerMessage, ProposeError, RequestId, Role,
};
use crate::machine::{LogTime, Machine};
use crate::membership::Membership;
use crate::replica::Replica;
use crate::snapshot_keeper::SnapshotDone;
use crate::snapshot_store::SnapshotId;
use crate::store::Store;

use announce::Announced;
use fetch::Fetch;
use forward::Forwards;
use give::Giving;
pub use guard::LOG_CONTRADICTED;
use level::Raise;
use make::Making;
pub use peers::PeerInfo;
use peers::Peers;
use propose::{Batch, Waiting};
use read::{ReadContext, Reads};
use spare::Spare;
use succeed::Succession;
use witness::Witnesses;

/// One member of the cluster.
pub struct Node {
    config: NodeConfig,
    pub(crate) raft: RawNode<Store>,
    pub(crate) machine: Machine,
    membership: Membership,
    clock: LogClock,
    now: Micros,
    ticks: u64,
    role: Role,
    /// Commands that are not in the log yet.
    waiting: Waiting,
    /// Entries that are in the log and not applied yet, with who waits for them.
    in_flight: VecDeque<Batch>,
    /// Commands that were sent to the leader.
    forwarded: Forwards,
    last_forward: u64,
    /// The last number that each other member's forwarded commands came with.
    heard_forwards: BTreeMap<MemberId, ForwardNumber>,
    /// The last question of each other member about the commit index.
    heard_questions: BTreeMap<MemberId, ReadContext>,
    reads: Reads,
    announced: Announced,
    spare: Spare,
    succession: Option<Succession>,
    /// Messages that rest on batches which are not durable yet, by the number of the batch.
    held_back: VecDeque<(u64, Vec<Message>)>,
    /// The batches that the disk has not confirmed, and when they were handed to it.
    unconfirmed: VecDeque<(u64, u64)>,
    /// With which number the disk will know the present term. None, if it does.
    unsure_term: Option<u64>,
    /// Entries that are committed and not applied yet.
    unapplied: Vec<Entry>,
    /// The last stamp that this node has put into the log, or found there when it took office.
    last_stamp: LogTime,
    /// When each other member was last heard of.
    heard: BTreeMap<MemberId, u64>,
    /// The processes of the other members.
    peers: Peers,
    /// What was seen of the other members.
    witnesses: Witnesses,
    /// The feature level that this leader has proposed.
    raise: Option<Raise>,
    /// The tick from which on the quota is looked at again.
    quota_again: u64,
    /// Who asked for the change of members that is not settled yet.
    changing: Option<RequestId>,
    /// Whether the disk has only its reserve left.
    disk_is_low: bool,
    /// The snapshots that this node makes, sends and receives.
    making: Making,
    giving: Giving,
    fetch: Option<Fetch>,
    /// A snapshot was installed with this batch, which is not durable yet. Until it is, the engine
    /// would look for the log that the snapshot has replaced.
    installing: Option<u64>,
    /// Whether this node leads and is no member any more.
    is_resigning: bool,
    halted: bool,
    /// The entry that this member has confirmed and its log lacks.
    lacking: Option<u64>,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::mutant::Mutant>,
    #[cfg(feature = "mutants")]
    pub(crate) wall_clock: u64,
    /// For how many milliseconds the first command of the present batch has waited.
    #[cfg(feature = "mutants")]
    pub(crate) batch_waited: u64,
}

impl Node {
    /// A node over a recovered log. The machine stands where the log's snapshot left it.
    pub fn new(config: NodeConfig, mut store: Store, replica: Replica) -> raft::Result<Node> {
        let Replica { machine, membership } = replica;
        level::level_supported(config.feature_level, &machine)
            .map_err(raft::Error::ConfigInvalid)?;
        let witnesses = Witnesses::recovered(store.take_witnesses());
        // What was applied or witnessed was committed, whatever the log on disk knew of that.
        store.raise_commit(machine.applied().max(witnesses.highest()));
        let engine = Config {
            id: config.id,
            election_tick: config.election_ticks.0,
            heartbeat_tick: config.heartbeat_ticks,
            min_election_tick: config.election_ticks.0,
            max_election_tick: config.election_ticks.1,
            applied: machine.applied(),
            max_size_per_msg: 1 << 20,
            max_inflight_msgs: 32,
            check_quorum: true,
            pre_vote: true,
            // This node says itself what is committed.
            skip_bcast_commit: true,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let mut node = Node {
            raft: RawNode::new(&engine, store, &logger)?,
            making: Making::of(&machine),
            machine,
            membership,
            clock: LogClock::default(),
            now: Micros(0),
            ticks: 0,
            role: Role::default(),
            waiting: Waiting::default(),
            in_flight: VecDeque::new(),
            forwarded: Forwards::default(),
            last_forward: 0,
            heard_forwards: BTreeMap::new(),
            heard_questions: BTreeMap::new(),
            reads: Reads::default(),
            announced: Announced::default(),
            spare: Spare::default(),
            succession: None,
            held_back: VecDeque::new(),
            unconfirmed: VecDeque::new(),
            unsure_term: None,
            unapplied: Vec::new(),
            last_stamp: LogTime::default(),
            heard: BTreeMap::new(),
            peers: Peers::new(handshake::patience(&config)),
            witnesses,
            raise: None,
            quota_again: 0,
            changing: None,
            disk_is_low: false,
            giving: Giving::new(),
            fetch: None,
            installing: None,
            is_resigning: false,
            halted: false,
            lacking: None,
            #[cfg(feature = "mutants")]
            mutant: None,
            #[cfg(feature = "mutants")]
            wall_clock: 0,
            #[cfg(feature = "mutants")]
            batch_waited: 0,
            config,
        };
        node.draw_election_timeout();
        Ok(node)
    }

    /// Handles one input at one moment, and says what is to be done.
    pub fn handle(&mut self, now: Micros, input: Input) -> Vec<Output> {
        self.handle_all(now, [input])
    }

    /// Handles several inputs that have come by one moment. Commands among them share a batch.
    pub fn handle_all(
        &mut self,
        now: Micros,
        inputs: impl IntoIterator<Item = Input>,
    ) -> Vec<Output> {
        let mut outputs = self.rush(now, inputs);
        outputs.extend(self.catch_up());
        outputs
    }

    /// The same, but a follower does not apply what is committed before it
    /// [catches up](Node::catch_up): what is to be sent and written goes first.
    pub fn rush(&mut self, now: Micros, inputs: impl IntoIterator<Item = Input>) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.now = self.now.max(now);
        self.clock.advance(now);
        for input in inputs {
            // A client's request changes nothing that the next input depends on. Whatever else
            // comes may, and must be seen to the end first.
            let is_request = matches!(input, Input::Propose(_) | Input::Read(_));
            if !self.halted {
                self.take(input, &mut outputs);
            }
            if !is_request {
                if !self.halted {
                    self.draw_election_timeout();
                }
                self.drain(&mut outputs);
            }
        }
        self.drain(&mut outputs);
        if !self.halted {
            self.succeed();
            self.settle();
            self.raise_level(&mut outputs);
            self.fit_quota(&mut outputs);
            self.propose_what_waits(&mut outputs);
            self.drain(&mut outputs);
            self.announce();
            self.drain(&mut outputs);
            self.send_what_has_waited(&mut outputs);
        }
        outputs
    }

    /// Applies what is committed and was left.
    pub fn catch_up(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.apply_what_is_left(&mut outputs);
        if !self.halted {
            self.drain(&mut outputs);
            self.make_if_due(&mut outputs);
        }
        outputs
    }

    fn take(&mut self, input: Input, outputs: &mut Vec<Output>) {
        match input {
            Input::Tick => self.tick(outputs),
            // Lost: others will say it again.
            Input::Peer(_, PeerMessage::Raft(_)) if self.installing.is_some() => {}
            Input::Peer(from, message) => self.hear(from, message, outputs),
            Input::Propose(proposal) => self.admit(proposal, outputs),
            Input::Read(request) => self.read(request, outputs),
            Input::Persisted(number) => self.persisted(number, outputs),
            Input::Campaign if self.may_stand() => self.stand(),
            Input::Campaign => {}
            Input::Connected(member, version) => self.connected(member, version, outputs),
            Input::Gone(member) => self.gone(member),
            Input::TransferTo(member) => {
                if self.leads() {
                    self.transfer_to(member);
                }
            }
            Input::Change(request, change) => self.change(request, change, outputs),
            Input::Snapshot(done) => self.snapshot_done(done, outputs),
            Input::Save(request) => self.save(request),
            Input::DiskIsLow(is_low) => self.disk_is_low = is_low,
        }
    }

    fn tick(&mut self, outputs: &mut Vec<Output>) {
        self.ticks += 1;
        self.repeat_reads(outputs);
        self.give_up_forwards(outputs);
        if self.installing.is_some() {
            return;
        }
        if self.leads() || self.may_campaign() || !self.raft.raft.promotable() {
            self.raft.tick();
        } else if !self.may_claim_office() {
            self.tick_without_campaign();
        }
        self.tick_peers(outputs);
        self.yield_if_stuck();
        self.leave_joint();
        self.ask_if_member(outputs);
        self.give_up_gifts();
        self.tick_fetch(outputs);
    }

    fn snapshot_done(&mut self, done: SnapshotDone, outputs: &mut Vec<Output>) {
        match done {
            SnapshotDone::Made(id, result) => self.made(id, result, outputs),
            SnapshotDone::Read(to, id, piece) => self.give_piece(to, id, piece, outputs),
            SnapshotDone::Kept(id, number, result) => self.kept(id, number, &result, outputs),
            SnapshotDone::Loaded(id, result) => {
                let checked =
                    result.as_ref().map_or(Ok(()), |read| self.check_level(&read.machine));
                match checked {
                    Ok(()) => self.loaded(id, result),
                    Err(why) => self.halt_level(&why, outputs),
                }
            }
        }
    }

    /// Whether this node may stand for election.
    ///
    /// The engine does not look by itself when it is told to: without voters it would elect itself
    /// by all of nobody's votes. And the only voter is elected at once, which the engine does not
    /// expect of a node with entries that are not durable yet.
    fn may_campaign(&self) -> bool {
        let raft = &self.raft.raft;
        let alone = self.membership.conf.voters.len() <= 1 && !self.membership.is_joint();
        let may = raft.promotable() && (!alone || self.unconfirmed.is_empty());
        may && self.may_claim_office()
    }

    /// Whether this node may stand for election at this moment.
    fn may_stand(&self) -> bool {
        self.installing.is_none() && self.may_campaign()
    }

    fn stand(&mut self) {
        // Refused while a change of members is pending; the timer will see to it.
        drop(self.raft.campaign());
        self.draw_election_timeout();
    }

    /// The engine draws its timeouts from the thread's random numbers. They are replaced after
    /// every input that reaches it, so that a run can be repeated from its seed.
    fn draw_election_timeout(&mut self) {
        let (least, most) = self.config.election_ticks;
        let term = self.raft.raft.term;
        let bucket = self.ticks / most as u64;
        let mut drawn = self.config.seed;
        for part in [self.config.id, term, bucket] {
            drawn = mix(drawn ^ part);
        }
        let span = (most - least).max(1) as u64;
        let ticks = least + usize::try_from(drawn % span).unwrap_or(0);
        self.raft.raft.set_randomized_election_timeout(ticks);
    }

    /// A leader whose disk hangs commits through the others but applies nothing: its clients would
    /// wait while their leases run out. It hands leadership to the member that has most of the log.
    fn yield_if_stuck(&mut self) {
        let patience = self.config.election_ticks.1 as u64;
        let stuck = |&(_, tick): &(u64, u64)| tick + patience < self.ticks;
        if self.leads() && self.unconfirmed.front().is_some_and(stuck) {
            self.hand_over();
        }
    }

    /// Hands leadership to the voter that has most of the log.
    fn hand_over(&mut self) {
        if let Some(best) = self.successor() {
            self.transfer_to(best);
        }
    }

    /// The other voter that has most of the log, as far as a leader knows.
    pub fn successor(&self) -> Option<MemberId> {
        let progress = self.raft.raft.prs();
        let can_lead = |id: u64| {
            id != self.config.id && progress.conf().voters().contains(id) && self.is_active(id)
        };
        let members = progress.iter().filter(|(id, _)| can_lead(**id));
        members.max_by_key(|(id, progress)| (progress.matched, **id)).map(|(id, _)| *id)
    }

    /// The last entry that is known to be committed.
    pub fn commit(&self) -> u64 {
        self.raft.raft.raft_log.committed
    }

    fn transfer_to(&mut self, member: MemberId) {
        // The successor's log time goes on from here.
        self.propose_stamp();
        self.raft.transfer_leader(member);
    }

    /// The index of the last entry in the log, committed or not.
    pub fn last_index(&self) -> u64 {
        self.raft.raft.raft_log.last_index()
    }

    /// Whether this node leads.
    pub fn leads(&self) -> bool {
        self.raft.raft.state == StateRole::Leader
    }

    /// Whether there is nobody else in the cluster, and nobody is about to be.
    pub fn is_alone(&self) -> bool {
        let conf = &self.membership.conf;
        conf.voters == [self.config.id] && conf.learners.is_empty() && !self.membership.is_joint()
    }

    /// What this node is, and whom it follows.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The replicated state, for reading.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Who the members are, as far as the log is applied.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// An entry of the log, if it is still there: its term, its kind and its bytes.
    pub fn entry(&self, index: u64) -> Option<(u64, i32, &[u8])> {
        let entry = self.raft.store().entry(index)?;
        Some((entry.term, entry.entry_type, &entry.data))
    }

    /// The newest snapshot on disk.
    pub fn snapshot_id(&self) -> SnapshotId {
        self.raft.store().snapshot_id()
    }

    /// How often the leader's clock was found to have jumped ahead.
    pub fn clock_cuts(&self) -> u64 {
        self.clock.cuts()
    }

    fn refuse(&self, request: RequestId, why: ProposeError, outputs: &mut Vec<Output>) {
        outputs.push(Output::Reply(request, Err(why)));
    }
}

/// A good mixer of 64 bits (the finalizer of SplitMix64).
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
