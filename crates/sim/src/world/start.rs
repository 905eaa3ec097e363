//! A member's process begins.

use std::collections::{BTreeMap, VecDeque};

use fencepost_node::boot::{self, Booted};
use fencepost_node::config::NodeConfig;
use fencepost_node::disk::MemoryDisk;
use fencepost_node::io::{Input, MemberId};
use fencepost_node::machine::FEATURE_LEVEL;
use fencepost_node::membership::{self, Membership};
use fencepost_node::node::Node;
use fencepost_node::snapshot_keeper::SnapshotKeeper;
use fencepost_node::snapshot_store::SnapshotStore;
use fencepost_node::wal::WalConfig;

use super::World;
use super::clock::Clock;
use super::happening::{Happening, Life, ToMember};
use super::member::{Fate, Member, Process};
use crate::bug::Bug;
use crate::plan::{MS, SECOND};
use crate::seen::Seen;

/// How often a member's timer goes off, by its own clock.
pub(super) const TICK: u64 = 10 * MS;

/// A wall clock shows this much more than true time when a run begins.
const WALL_AHEAD: u64 = 1_000_000;

impl World {
    /// The cluster's first members, with the same beginning on each disk.
    pub(super) fn found(&mut self) {
        let ids: Vec<MemberId> = (0..self.plan.founders).map(|_| self.new_member()).collect();
        let membership = Membership::founding(self.plan.seed, ids.iter().map(|&id| person(id)));
        for id in ids {
            boot::found(&self.members[&id].disk, membership.clone()).expect("the disk is sound");
            self.start(id);
        }
        self.membership = (0, membership);
    }

    /// A member under a fresh number, with an empty disk. It does not run yet.
    pub(super) fn new_member(&mut self) -> MemberId {
        self.last_member += 1;
        let rate = self.plan.clocks.rate(&mut self.dice.clocks);
        let wall_ahead = WALL_AHEAD + self.dice.clocks.roll(1_000);
        let mut member = Member::new(MemoryDisk::new(), rate, wall_ahead);
        member.is_old = self.plan.begins_old && self.raised_at.is_none();
        self.members.insert(self.last_member, member);
        self.last_member
    }

    /// Starts a member from what its disk has.
    pub(super) fn start(&mut self, id: MemberId) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.process.is_some() || member.fate != Fate::Lives {
            return;
        }
        member.boot += 1;
        member.life = Life(member.life.0 + 1);
        let seed = self.plan.seed;
        let config = WalConfig { segment_bytes: self.plan.disk.segment_bytes, salt: seed };
        let disk = member.disk.clone();
        let opened = match member.is_opened {
            true => boot::open_member(disk, config, member.boot),
            false => boot::open(disk, config, false),
        };
        let opened = opened.map_err(|error| error.to_string());
        let config = NodeConfig {
            boot: member.boot,
            boot_nonce: member.life.0,
            feature_level: if member.is_old { 1 } else { FEATURE_LEVEL },
            seed,
            snapshot_entries: self.plan.snapshot_entries,
            snapshot_copy_max: self.plan.snapshot_copy_max,
            ..NodeConfig::new(id)
        };
        match opened.and_then(|booted| make_process(member, config, booted, &self.plan)) {
            Ok(process) => self.begin(id, process),
            Err(why) => self.refused(id, &why),
        }
    }

    fn begin(&mut self, id: MemberId, mut process: Process) {
        match self.bug {
            Some(Bug::Node(mutant)) => process.node.plant(mutant),
            Some(Bug::Core(mutant)) => {
                process.node.plant_core(mutant);
                if mutant == fencepost_core::Mutant::TimeRunsBack {
                    // A sound node never stamps an entry with an earlier time than the one before.
                    process.node.plant(fencepost_node::mutant::Mutant::TimeStartsAnew);
                }
            }
            Some(Bug::World(_)) | None => {}
        }
        let now = self.now;
        let member = self.members.get_mut(&id).expect("it was just opened");
        member.is_opened = true;
        // A new process has a new clock, which may begin anywhere.
        let shows = self.dice.clocks.roll(1_000 * SECOND);
        member.clock = Clock::showing(shows, now, member.fast_ppm);
        let (boot, life, is_damaged) = (member.boot, member.life, member.is_damaged);
        member.started = now;
        let closed_at = std::mem::take(&mut member.closed_at);
        let node = &member.process.insert(process).node;
        if node.last_index() < closed_at {
            let what = format!("member {id} was closed at {closed_at}, and starts with less");
            self.watch.broken("log-end", what);
        }
        let index = node.machine().applied();
        self.trace.note(
            now,
            1,
            &[id, boot, index],
            format_args!("n{id} starts, boot {boot}, at {index}"),
        );
        self.watch.tell(now, &Seen::Started { member: id, index });
        self.watch.tell_standing(now, id, node);
        let first = self.dice.clocks.roll(TICK);
        self.plan_in(first, Happening::Member(id, ToMember::Tick(life)));
        self.connect(id);
        // Some operators do not trust a disk that was bad once.
        if is_damaged && self.operator.is_idle() && self.dice.faults.roll(2) == 0 {
            self.replace_lost(id);
        }
    }

    /// Every member that runs connects to the new process, and the new process to them.
    pub(super) fn connect(&mut self, id: MemberId) {
        let others = self.members.iter().filter(|(other, _)| **other != id);
        let others: Vec<(MemberId, Life)> = others.map(|(&id, other)| (id, other.life)).collect();
        let life = self.members[&id].life;
        for (other, other_life) in others {
            let version = self.version_between(id, other);
            let there = Input::Connected(other, version);
            self.plan_in(0, Happening::Member(id, ToMember::Told(life, there)));
            let back = Input::Connected(id, version);
            self.plan_in(0, Happening::Member(other, ToMember::Told(other_life, back)));
        }
    }

    /// A member does not start. That is right only if its disk was damaged or failed.
    fn refused(&mut self, id: MemberId, why: &str) {
        let now = self.now;
        self.trace.note(now, 2, &[id], format_args!("n{id} does not start: {why}"));
        if self.upgrade_if_too_old(id, why) {
            return;
        }
        let member = self.members.get_mut(&id).expect("it was just opened");
        if member.is_trapped() {
            member.trap = None;
            member.disk = member.disk.kill();
            self.plan_in(SECOND, Happening::Start(id));
        } else if member.is_damaged {
            self.lose(id);
        } else {
            self.watch.broken("boot", format!("member {id} does not start: {why}"));
        }
    }
}

/// What a member is called.
pub(super) fn person(id: MemberId) -> membership::Member {
    membership::Member {
        id,
        name: format!("n{id}"),
        peer: format!("peer-{id}"),
        client: format!("client-{id}"),
    }
}

fn make_process(
    member: &Member,
    config: NodeConfig,
    booted: Booted<MemoryDisk>,
    plan: &crate::plan::Plan,
) -> Result<Process, String> {
    let Booted { wal, snapshots, store, replica, .. } = booted;
    let node = Node::new(config, store, replica).map_err(|error| error.to_string())?;
    // Opened now, while no snapshot is being written: opening clears unfinished ones away.
    let again = SnapshotStore::open(member.disk.clone()).map_err(|error| error.to_string())?;
    Ok(Process {
        node,
        wal,
        spare: None,
        keeper: SnapshotKeeper::new(snapshots.with_chunk_bytes(plan.disk.chunk_bytes)),
        snapshots: again,
        writes: VecDeque::new(),
        syncing: None,
        ahead: None,
        tasks: VecDeque::new(),
        keeper_works: false,
        asked: BTreeMap::new(),
    })
}
