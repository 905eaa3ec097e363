//! The kinds of faults, and how often each was done.

use std::fmt;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// Messages are lost, all the time.
    Loss,
    /// Messages arrive twice, all the time.
    Duplicate,
    /// Some messages take long, all the time.
    Delay,
    /// Messages overtake each other, all the time.
    Reorder,
    /// The members, and the clients with them, fall into two parts.
    Partition,
    /// One direction of one link, or of all links of a member, is cut.
    OneWay,
    /// The leader is cut off from the other members.
    IsolateLeader,
    /// A follower is cut off from the other members.
    IsolateFollower,
    /// Two members hear each other only through a third.
    Bridge,
    /// A link is cut and mended again and again.
    Flap,
    /// A link is slow.
    SlowLink,
    /// Links are cut one by one, and mended in another order.
    Swizzle,
    /// A member loses power, or its process is killed.
    Crash,
    /// The same for the leader.
    CrashLeader,
    /// All members lose power at once.
    PowerCut,
    /// A member handles nothing for a while, then everything at once.
    Pause,
    /// The same for the leader.
    PauseLeader,
    /// The same for a client.
    PauseClient,
    /// The syncs of a member take long.
    SlowDisk,
    /// A disk operation fails.
    DiskError,
    /// A disk is full.
    DiskFull,
    /// A member loses power in the middle of a disk operation.
    DieInside,
    /// A bit of a stopped member's files is turned round.
    BitFlip,
    /// A member's wall clock jumps.
    WallJump,
    /// A member's disk is gone, and with it the member.
    Wipe,
    /// A member is added.
    Grow,
    /// A member is removed.
    Shrink,
    /// The leader is removed.
    RemoveLeader,
    /// A voter is replaced by a new member in one step.
    Replace,
    /// The leader is told to hand over.
    Transfer,
    /// All members are lost, and the cluster goes on from a backup.
    Restore,
    /// The leader loses power, then the first one that votes for a successor, while the successor
    /// is cut off. A vote that is forgotten makes two leaders of one term.
    CrashVoter,
    /// The disk of a member is set back to an older copy.
    OlderDisk,
    /// The log of a member that was stopped in good order loses its end.
    CutLog,
    /// A member is restarted with another build: with a newer one, or back with the older one.
    Upgrade,
    /// The data directory of a member is copied, and a second process runs from the copy.
    CopiedDirectory,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 36] = [
        FaultKind::Loss,
        FaultKind::Duplicate,
        FaultKind::Delay,
        FaultKind::Reorder,
        FaultKind::Partition,
        FaultKind::OneWay,
        FaultKind::IsolateLeader,
        FaultKind::IsolateFollower,
        FaultKind::Bridge,
        FaultKind::Flap,
        FaultKind::SlowLink,
        FaultKind::Swizzle,
        FaultKind::Crash,
        FaultKind::CrashLeader,
        FaultKind::PowerCut,
        FaultKind::Pause,
        FaultKind::PauseLeader,
        FaultKind::PauseClient,
        FaultKind::SlowDisk,
        FaultKind::DiskError,
        FaultKind::DiskFull,
        FaultKind::DieInside,
        FaultKind::BitFlip,
        FaultKind::WallJump,
        FaultKind::Wipe,
        FaultKind::Grow,
        FaultKind::Shrink,
        FaultKind::RemoveLeader,
        FaultKind::Replace,
        FaultKind::Transfer,
        FaultKind::Restore,
        FaultKind::CrashVoter,
        FaultKind::OlderDisk,
        FaultKind::CutLog,
        FaultKind::Upgrade,
        FaultKind::CopiedDirectory,
    ];

    /// How many of them are drawn before everything else in a plan. Later ones are drawn by
    /// themselves, so that a seed goes on to mean the same.
    pub(crate) const DRAWN_FIRST: usize = 32;
    /// How many are drawn after those.
    pub(crate) const DRAWN_SECOND: usize = 3;

    /// Whether it is counted when its last step is done.
    pub(crate) fn takes_steps(self) -> bool {
        matches!(self, FaultKind::OlderDisk | FaultKind::CopiedDirectory)
    }

    /// Whether it lasts for the whole time of faults, instead of being done now and then.
    #[must_use]
    pub fn is_weather(self) -> bool {
        matches!(
            self,
            FaultKind::Loss | FaultKind::Duplicate | FaultKind::Delay | FaultKind::Reorder
        )
    }
}

/// How often each kind of fault was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultCounts([u64; FaultKind::ALL.len()]);

impl Default for FaultCounts {
    fn default() -> FaultCounts {
        FaultCounts([0; FaultKind::ALL.len()])
    }
}

impl FaultCounts {
    /// Counts one.
    pub fn count(&mut self, kind: FaultKind) {
        self.0[kind as usize] += 1;
    }

    /// How many there were of one kind.
    #[must_use]
    pub fn of(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize]
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &FaultCounts) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            *mine += others;
        }
    }

    /// How many there were in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (kind, count)) in FaultKind::ALL.iter().zip(self.0).enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{kind:?} {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_count() {
        let mut counts = FaultCounts::default();
        for (place, kind) in FaultKind::ALL.iter().enumerate() {
            assert_eq!(place, *kind as usize);
            counts.count(*kind);
        }
        assert_eq!(counts, FaultCounts([1; FaultKind::ALL.len()]));
    }
}
