//! What one seed means: how large the cluster is, how its parts are set up, and what will go wrong.
//!
//! Everything here is drawn once, before the run. Each kind of fault is off in about half of the
//! seeds: two faults that hide each other are then apart in a quarter of them.

use crate::client::WorkloadPlan;
use crate::dice::Dice;
use crate::fault::FaultKind;

/// A millisecond, in microseconds.
pub(crate) const MS: u64 = 1_000;
/// A second, in microseconds.
pub(crate) const SECOND: u64 = 1_000_000;

/// When the faults end.
pub const HEAL_AT: u64 = 45 * SECOND;
/// When the clients rest, so that the members can become equal.
pub(crate) const REST_AT: u64 = END_AT - SECOND;
/// When the run is over.
pub const END_AT: u64 = 60 * SECOND;
/// No fault that takes a disk away, or changes the members, begins after this: what it began has
/// to be finished by the operator.
pub(crate) const LAST_LOSS_AT: u64 = 38 * SECOND;

/// What the streams of chance are for. They do not disturb each other.
pub(crate) mod purpose {
    pub(crate) const PLAN: u64 = 1;
    pub(crate) const WORKLOAD: u64 = 2;
    pub(crate) const NETWORK: u64 = 3;
    pub(crate) const DISK: u64 = 4;
    pub(crate) const FAULTS: u64 = 5;
    pub(crate) const OPERATOR: u64 = 6;
    pub(crate) const CLOCKS: u64 = 7;
    pub(crate) const CLIENTS: u64 = 8;
    pub(crate) const DISKS_AND_BUILDS: u64 = 9;
    pub(crate) const RESTORES: u64 = 10;
    pub(crate) const COPIES: u64 = 11;
    /// Client `n` has this plus `n`.
    pub(crate) const EACH_CLIENT: u64 = 1_000;
}

/// How the network is.
#[derive(Clone, Copy, Debug)]
pub struct NetworkPlan {
    /// The least and the most time that a message takes, in microseconds.
    pub latency: (u64, u64),
    /// How many messages in a million are lost.
    pub loss: u32,
    /// How many are doubled.
    pub duplicate: u32,
    /// How many take longer.
    pub tail: u32,
    /// How much longer they take at most.
    pub tail_max: u64,
    /// Whether the messages of one link arrive in order.
    pub keeps_order: bool,
}

impl NetworkPlan {
    /// The same network on a good day.
    #[must_use]
    pub fn healed(self) -> NetworkPlan {
        let latency = (self.latency.0.min(5 * MS), self.latency.1.min(10 * MS));
        NetworkPlan { latency, loss: 0, duplicate: 0, tail: 0, keeps_order: true, ..self }
    }
}

/// How the disks are.
#[derive(Clone, Copy, Debug)]
pub struct DiskPlan {
    /// The least and the most time that a sync takes.
    pub sync: (u64, u64),
    /// The most time that making or loading a snapshot takes.
    pub snapshot_max: u64,
    /// Bytes in a segment of the log.
    pub segment_bytes: u64,
    /// Bytes in a chunk of a snapshot.
    pub chunk_bytes: usize,
}

/// How the clocks are.
#[derive(Clone, Copy, Debug)]
pub struct ClockPlan {
    /// Whether the rates of any two clocks differ by no more than is promised to be tolerated.
    pub in_bounds: bool,
    /// The slowest, in parts per million faster than true time.
    pub slowest_ppm: i64,
    /// The fastest.
    pub fastest_ppm: i64,
}

impl ClockPlan {
    /// The rate of one clock.
    pub(crate) fn rate(&self, dice: &mut Dice) -> i64 {
        let span = (self.fastest_ppm - self.slowest_ppm).cast_unsigned();
        // Extremes are where the promises are put to the test.
        match dice.roll(6) {
            0 => self.slowest_ppm,
            1 => self.fastest_ppm,
            _ => self.slowest_ppm + dice.roll(span + 1).cast_signed(),
        }
    }
}

/// When a backup is made, and when all members are lost.
#[derive(Clone, Copy, Debug)]
pub struct RestorePlan {
    /// When the backup is made.
    pub backup: u64,
    /// When all members are lost, and the backup is restored.
    pub first: u64,
    /// When those of the restored cluster are lost, and the same backup is restored again.
    pub second: Option<u64>,
    /// How far the wall clock is set forward between the two, in milliseconds.
    pub wall_jump_ms: u64,
}

impl RestorePlan {
    fn draw(seed: u64, backup: u64, first: u64) -> RestorePlan {
        let mut dice = Dice::new(seed, purpose::RESTORES);
        // Often a second later, and often after the restored cluster has granted locks.
        let later = match dice.roll(4) {
            0 => None,
            1 => Some(SECOND),
            _ => Some(dice.between(2 * SECOND, 12 * SECOND)),
        };
        let wall_jump_ms = if dice.roll(2) == 0 { 60 * 60 * 1_000 } else { 0 };
        RestorePlan { backup, first, second: later.map(|later| first + later), wall_jump_ms }
    }
}

/// What one seed means.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// How many members found the cluster.
    pub founders: u64,
    /// A snapshot is made after so many entries.
    pub snapshot_entries: u64,
    /// Up to which size a state is copied for it.
    pub snapshot_copy_max: usize,
    /// The network.
    pub network: NetworkPlan,
    /// The disks.
    pub disk: DiskPlan,
    /// The clocks.
    pub clocks: ClockPlan,
    /// Whether a process that was paused finds all its ticks, or one.
    pub ticks_pile_up: bool,
    /// Whether a member that is alone works out what follows from what its disk is at.
    pub goes_ahead: bool,
    /// Whether a follower that has something to write applies what is committed only after it.
    pub catches_up_late: bool,
    /// Whether the founders run a build of feature level 1 at first.
    pub begins_old: bool,
    /// The faults that are done now and then, as often in this list as they are likely.
    pub faults: Vec<FaultKind>,
    /// The faults that last.
    pub weather: Vec<FaultKind>,
    /// The mean time between faults.
    pub fault_every: u64,
    /// The backup, and the restores from it.
    pub restore: Option<RestorePlan>,
    /// What the clients do.
    pub workload: WorkloadPlan,
}

impl Plan {
    /// Draws everything from a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut dice = Dice::new(seed, purpose::PLAN);
        let (first, later) = FaultKind::ALL.split_at(FaultKind::DRAWN_FIRST);
        let kinds: Vec<FaultKind> = first.iter().copied().filter(|_| dice.roll(2) == 0).collect();
        let (later, last) = later.split_at(FaultKind::DRAWN_SECOND);
        let mut later_dice = Dice::new(seed, purpose::DISKS_AND_BUILDS);
        let later: Vec<FaultKind> =
            later.iter().copied().filter(|_| later_dice.roll(2) == 0).collect();
        let mut copy_dice = Dice::new(seed, purpose::COPIES);
        let has = |kind: FaultKind| kinds.contains(&kind);
        let (weather, rest): (Vec<FaultKind>, Vec<FaultKind>) =
            kinds.iter().partition(|kind| kind.is_weather());
        let mut faults = Vec::new();
        for kind in rest.into_iter().filter(|&kind| kind != FaultKind::Restore) {
            let weight = dice.between(1, 4);
            faults.extend((0..weight).map(|_| kind));
        }
        for &kind in &later {
            let weight = later_dice.between(1, 4);
            faults.extend((0..weight).map(|_| kind));
        }
        for &kind in last.iter().filter(|_| copy_dice.roll(2) == 0).collect::<Vec<_>>() {
            let weight = copy_dice.between(1, 4);
            faults.extend((0..weight).map(|_| kind));
        }
        let restores = has(FaultKind::Restore) && dice.roll(5) == 0;
        let restore = restores.then(|| {
            let backup = dice.between(2 * SECOND, 14 * SECOND);
            RestorePlan::draw(seed, backup, backup + dice.between(SECOND, 12 * SECOND))
        });
        Plan {
            seed,
            founders: *dice.pick(&[1, 3, 3, 3, 3, 3, 3, 5, 5]),
            snapshot_entries: dice.between(20, 400),
            network: draw_network(&mut dice, has),
            disk: draw_disk(&mut dice),
            clocks: draw_clocks(&mut dice),
            ticks_pile_up: dice.roll(2) == 0,
            faults,
            weather,
            fault_every: *dice.pick(&[700 * MS, 1_500 * MS, 3 * SECOND, 8 * SECOND]),
            restore,
            workload: WorkloadPlan::draw(&mut Dice::new(seed, purpose::WORKLOAD)),
            goes_ahead: dice.roll(4) > 0,
            snapshot_copy_max: *dice.pick(&[0, 20, usize::MAX]),
            catches_up_late: dice.roll(2) > 0,
            begins_old: later.contains(&FaultKind::Upgrade),
        }
    }
}

fn draw_network(dice: &mut Dice, has: impl Fn(FaultKind) -> bool) -> NetworkPlan {
    let low = *dice.pick(&[200, 500, MS, 2 * MS]);
    let high = low + *dice.pick(&[200, 2 * MS, 10 * MS, 40 * MS]);
    let loss = u32::try_from(dice.between(1_000, 300_000)).unwrap_or(0);
    // Most lossy networks lose little; a few lose nearly everything.
    let loss = if dice.roll(3) > 0 { loss / 10 } else { loss };
    let duplicate = u32::try_from(dice.between(1_000, 500_000)).unwrap_or(0);
    let tail = u32::try_from(dice.between(1_000, 100_000)).unwrap_or(0);
    NetworkPlan {
        latency: (low, high),
        loss: if has(FaultKind::Loss) { loss } else { 0 },
        duplicate: if has(FaultKind::Duplicate) { duplicate } else { 0 },
        tail: if has(FaultKind::Delay) { tail } else { 0 },
        tail_max: *dice.pick(&[50 * MS, 500 * MS, 5 * SECOND]),
        keeps_order: !has(FaultKind::Reorder),
    }
}

fn draw_disk(dice: &mut Dice) -> DiskPlan {
    let low = *dice.pick(&[100, 500, 2 * MS]);
    let high = low + *dice.pick(&[100, MS, 10 * MS]);
    DiskPlan {
        sync: (low, high),
        snapshot_max: *dice.pick(&[2 * MS, 50 * MS, 500 * MS]),
        segment_bytes: *dice.pick(&[4 << 10, 8 << 10, 16 << 10, 64 << 10]),
        chunk_bytes: *dice.pick(&[512, 1 << 10, 2 << 10, 8 << 10]),
    }
}

/// All rates within a hundredth of true time, and within a hundredth of each other: that is what
/// is promised to be tolerated. In some seeds they are far outside.
fn draw_clocks(dice: &mut Dice) -> ClockPlan {
    if dice.roll(6) == 0 {
        return ClockPlan { in_bounds: false, slowest_ppm: -100_000, fastest_ppm: 100_000 };
    }
    // A little less than a hundredth: rates are multiplied, not added.
    let slowest_ppm = dice.roll(10_001).cast_signed() - 10_000;
    ClockPlan { in_bounds: true, slowest_ppm, fastest_ppm: slowest_ppm + 9_800 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_on_in_about_half_of_the_seeds() {
        let plans: Vec<Plan> = (0..400).map(Plan::draw).collect();
        let has = |plan: &Plan, kind| plan.faults.contains(&kind) || plan.weather.contains(&kind);
        for kind in FaultKind::ALL.into_iter().filter(|&kind| kind != FaultKind::Restore) {
            let on = plans.iter().filter(|plan| has(plan, kind)).count();
            assert!((150..250).contains(&on), "{kind:?} is on in {on} of 400");
        }
        assert!(plans.iter().any(|plan| plan.restore.is_some()));
    }

    #[test]
    fn clocks_in_bounds_keep_the_promise() {
        for seed in 0..400 {
            let ClockPlan { in_bounds, slowest_ppm, fastest_ppm } = Plan::draw(seed).clocks;
            let kept = 99 * (1_000_000 + fastest_ppm) <= 100 * (1_000_000 + slowest_ppm);
            assert_eq!(in_bounds, kept, "seed {seed}");
        }
    }
}
