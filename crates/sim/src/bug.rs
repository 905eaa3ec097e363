//! Planted bugs: in the state machine, in the node, and in the world around it.
//!
//! A checker that has never caught anything proves nothing.

use std::fmt;

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// In the state machine.
    Core(fencepost_core::Mutant),
    /// In the node.
    Node(fencepost_node::mutant::Mutant),
    /// In what surrounds the node.
    World(WorldBug),
}

/// A bug in what surrounds the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldBug {
    /// A backup is gone on with as it is, as if the lost cluster had not lived on after it.
    RestoreWithoutJump,
    /// Every restore of a backup starts its counters at the same wall-clock time.
    RestoreSameBase,
    /// The wait of a restored cluster counts from the backup, as if nothing was granted after it.
    RestoreDelayTooShort,
    /// A client keeps its leases when it meets a cluster that was restored.
    IncarnationIgnored,
    /// The log writer says that all is durable and does not sync.
    SyncSkipped,
    /// A failed sync is reported as done.
    SyncErrorIgnored,
    /// What a member that is alone has worked out ahead is told before the sync.
    ToldAhead,
    /// A member that has lost its disk comes back under its old number.
    NumberUsedAgain,
    /// The store takes every write, whatever its token.
    StoreIgnoresTokens,
}

impl WorldBug {
    /// All of them.
    pub const ALL: [WorldBug; 9] = [
        WorldBug::RestoreWithoutJump,
        WorldBug::RestoreSameBase,
        WorldBug::RestoreDelayTooShort,
        WorldBug::IncarnationIgnored,
        WorldBug::SyncSkipped,
        WorldBug::SyncErrorIgnored,
        WorldBug::ToldAhead,
        WorldBug::NumberUsedAgain,
        WorldBug::StoreIgnoresTokens,
    ];
}

impl Bug {
    /// Every bug that can be planted.
    #[must_use]
    pub fn all() -> Vec<Bug> {
        let core = fencepost_core::Mutant::ALL.into_iter().map(Bug::Core);
        let node = fencepost_node::mutant::Mutant::ALL.into_iter().map(Bug::Node);
        let world = WorldBug::ALL.into_iter().map(Bug::World);
        world.chain(node).chain(core).collect()
    }

    /// Whether it shows only after a restore from a backup.
    pub(crate) fn needs_restore(self) -> bool {
        use WorldBug::{
            IncarnationIgnored, RestoreDelayTooShort, RestoreSameBase, RestoreWithoutJump,
        };
        let Bug::World(bug) = self else { return false };
        let all = [IncarnationIgnored, RestoreDelayTooShort, RestoreSameBase, RestoreWithoutJump];
        all.contains(&bug)
    }

    /// The bug of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Bug> {
        Bug::all().into_iter().find(|bug| bug.to_string() == name)
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bug::Core(bug) => write!(f, "core-{bug:?}"),
            Bug::Node(bug) => write!(f, "node-{bug:?}"),
            Bug::World(bug) => write!(f, "world-{bug:?}"),
        }
    }
}
