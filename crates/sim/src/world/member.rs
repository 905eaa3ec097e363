//! One member: its disk, its clocks, and its process while it runs.

use std::collections::{BTreeMap, VecDeque};

use fencepost_core::LockName;
use fencepost_node::disk::MemoryDisk;
use fencepost_node::io::{Input, MemberId, Output, Persist, RequestId};
use fencepost_node::node::Node;
use fencepost_node::snapshot_keeper::{SnapshotKeeper, SnapshotTask};
use fencepost_node::snapshot_store::SnapshotStore;
use fencepost_node::wal::{SpareOrder, Start, Wal};

use super::clock::Clock;
use super::happening::{Life, ToMember};
use crate::client::{CallNumber, ClientNumber};

/// One member.
pub(crate) struct Member {
    pub(crate) disk: MemoryDisk,
    pub(crate) clock: Clock,
    /// How much faster than true time its clock runs, over all its lives.
    pub(crate) fast_ppm: i64,
    /// How far its wall clock is ahead of true time, in milliseconds.
    pub(crate) wall_ahead: u64,
    /// Counts its starts, as its directory would.
    pub(crate) boot: u64,
    /// Whether its directory was ever opened, so that it must have a log.
    pub(crate) is_opened: bool,
    pub(crate) life: Life,
    pub(crate) process: Option<Process>,
    pub(crate) fate: Fate,
    /// What came while it was paused; nothing if it is not.
    pub(crate) paused: Option<Pause>,
    /// Until when its syncs are slow, and how slow.
    pub(crate) slow_disk: (u64, u64),
    /// The disk operation that will fail, and whether the machine dies in it.
    pub(crate) trap: Option<Trap>,
    /// Its files were damaged, so it may refuse to run.
    pub(crate) is_damaged: bool,
    /// The last entry of its log when that was closed and then damaged; 0 if it was not.
    pub(crate) closed_at: u64,
    /// The build that it runs or will run has feature level 1 and peer protocol 1.
    pub(crate) is_old: bool,
    /// When its process was started.
    pub(crate) started: u64,
    /// Its snapshots from this index on are whole, and its log must reach back to all but the
    /// newest of them.
    pub(crate) sound_from: u64,
    /// The last term in which it was seen to lead.
    pub(crate) led_in: u64,
}

/// What will become of a member that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It runs, or will be started again.
    Lives,
    /// Its disk is gone or refused: it will never run again, and should be replaced.
    Lost,
    /// It is not a member any more.
    Retired,
}

/// A pause, and what came in it.
pub(crate) struct Pause {
    pub(crate) since: u64,
    pub(crate) backlog: VecDeque<ToMember>,
}

/// A disk operation that will fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    pub(crate) operation: u64,
    pub(crate) kills: bool,
}

/// The process of a member.
pub(crate) struct Process {
    pub(crate) node: Node,
    pub(crate) wal: Wal<MemoryDisk>,
    /// A segment that is to be made.
    pub(crate) spare: Option<SpareOrder<MemoryDisk>>,
    pub(crate) keeper: SnapshotKeeper<MemoryDisk>,
    /// The same snapshots, for backups.
    pub(crate) snapshots: SnapshotStore<MemoryDisk>,
    /// What the log writer has not taken yet.
    pub(crate) writes: VecDeque<Write>,
    /// What will be durable when the present sync is done.
    pub(crate) syncing: Option<u64>,
    /// What was worked out ahead of the present sync.
    pub(crate) ahead: Option<Ahead>,
    /// Snapshot tasks, the present one first.
    pub(crate) tasks: VecDeque<SnapshotTask>,
    pub(crate) keeper_works: bool,
    /// Who waits for what.
    pub(crate) asked: BTreeMap<RequestId, Asked>,
}

/// What a member that is alone has worked out while its disk is busy. It does nothing else meanwhile.
pub(crate) struct Ahead {
    /// The last entry that it had applied before.
    pub(crate) before: u64,
    /// What it wants done when the sync is.
    pub(crate) outputs: Vec<Output>,
    /// What has come meanwhile.
    pub(crate) backlog: Vec<Input>,
}

/// Something for the log writer.
pub(crate) enum Write {
    /// To be appended.
    Persist(Persist),
    /// To be purged, in order with the rest.
    Purge(Start),
}

/// Who waits for an answer of a node.
pub(crate) enum Asked {
    /// A client, for a command.
    Command(ClientNumber, CallNumber),
    /// A client, for a view of a lock.
    Read(ClientNumber, CallNumber, LockName),
}

impl Asked {
    pub(crate) fn whose(&self) -> (ClientNumber, CallNumber) {
        match self {
            Asked::Command(client, call) | Asked::Read(client, call, _) => (*client, *call),
        }
    }
}

impl Member {
    /// A member with a disk of its own, which does not run yet.
    pub(crate) fn new(disk: MemoryDisk, fast_ppm: i64, wall_ahead: u64) -> Member {
        Member {
            disk,
            clock: Clock::showing(0, 0, fast_ppm),
            fast_ppm,
            wall_ahead,
            boot: 0,
            is_opened: false,
            life: Life(0),
            process: None,
            fate: Fate::Lives,
            paused: None,
            slow_disk: (0, 0),
            trap: None,
            is_damaged: false,
            closed_at: 0,
            is_old: false,
            started: 0,
            sound_from: 0,
            led_in: 0,
        }
    }

    /// Its node, if it runs.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.process.as_ref().map(|process| &process.node)
    }

    /// Whether it handles what happens to it.
    pub(crate) fn is_awake(&self) -> bool {
        self.process.is_some() && self.paused.is_none()
    }

    /// Whether it can be counted on. One whose files were damaged may still refuse some day.
    pub(crate) fn is_whole(&self) -> bool {
        self.fate == Fate::Lives && !self.is_damaged
    }

    /// Whether the trap on its disk has gone off.
    pub(crate) fn is_trapped(&self) -> bool {
        self.trap.is_some_and(|trap| self.disk.operations() >= trap.operation)
    }
}

/// The members of the world, by number.
pub(crate) type Members = BTreeMap<MemberId, Member>;
