//! What the clients of a run are like, drawn from its seed.
//!
//! Drawn swarm style: each kind of behaviour is off in about half of the runs, because a mix in
//! which everything always happens never gets deep into any one thing.

use fencepost_core::Limits;
use fencepost_core::command::Mode;
use fencepost_core::{LockName, Millis};

use crate::dice::Dice;

/// The lock that only the first client uses, to find out whether the service serves.
pub(crate) const PROBE: &str = "probe";

/// A lock of the workload, and how it is shared.
#[derive(Clone, Debug)]
pub(crate) struct KeyPlan {
    pub(crate) name: LockName,
    /// The mode that is asked for when it is not exclusive.
    pub(crate) shared: Option<Mode>,
}

/// How often each behaviour is chosen, relative to the others. Zero is never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weights {
    pub(crate) acquire: u64,
    pub(crate) acquire_many: u64,
    pub(crate) by_owner: u64,
    pub(crate) read: u64,
    pub(crate) read_stale: u64,
    pub(crate) plain: u64,
    pub(crate) wrong_release: u64,
    pub(crate) reenter: u64,
    pub(crate) revoke: u64,
    pub(crate) freeze: u64,
    pub(crate) die: u64,
    pub(crate) cancel_ahead: u64,
    pub(crate) foreign: u64,
    pub(crate) force: u64,
}

/// What the clients of a run are like.
#[derive(Clone, Debug)]
pub struct WorkloadPlan {
    /// How many clients there are.
    pub clients: u32,
    pub(crate) keys: Vec<KeyPlan>,
    pub(crate) weights: Weights,
    /// The shortest and the longest lease, in milliseconds.
    pub(crate) ttl: (u64, u64),
    /// The mean time between two acts of one client, in microseconds.
    pub(crate) think: u64,
    /// How long a client waits for an answer at most, in microseconds.
    pub(crate) patience: u64,
    /// Out of a million requests that were answered, so many come again later.
    pub(crate) copies: u32,
    /// Out of a million waiters, so many are cancelled.
    pub(crate) cancels: u32,
    /// Out of a million acquires, so many ask for a lock-delay, a value, or a bound on holding.
    pub(crate) terms: u32,
    /// Out of a million holds, so many outlast the lease many times over.
    pub(crate) long_holds: u32,
    /// Out of a million holds, so many are ended by freezing.
    pub(crate) freezes: u32,
    /// Whether work is stopped at half of the lease, or only when the lease may be over.
    pub(crate) cautious: bool,
    /// Whether clients ask for the same lease id again and again.
    pub(crate) reuse_ids: bool,
    /// When all clients are quiet, in microseconds since each of them began.
    pub(crate) quiet: Option<(u64, u64)>,
    /// Limits that the first client sets.
    pub(crate) limits: Limits,
}

impl WorkloadPlan {
    /// Draws a plan.
    pub fn draw(dice: &mut Dice) -> WorkloadPlan {
        let clients = dice.between(2, 10);
        let fewest = if clients > 5 { 10 } else { 2 };
        let keys = dice.between(fewest, 14);
        let mut swarm = |weight: u64| if dice.chance(500_000) { weight } else { 0 };
        let weights = Weights {
            acquire: 400,
            acquire_many: swarm(80),
            by_owner: swarm(100),
            read: 100 + swarm(200),
            read_stale: swarm(60),
            plain: swarm(100),
            wrong_release: swarm(100),
            reenter: swarm(100),
            revoke: swarm(8),
            freeze: swarm(4),
            die: swarm(1),
            cancel_ahead: swarm(50),
            foreign: swarm(8),
            force: swarm(60),
        };
        let mut swarm = |rate: u32| if dice.chance(500_000) { rate } else { 0 };
        let (copies, cancels) = (swarm(80_000), swarm(150_000));
        let (terms, long_holds, freezes) = (swarm(150_000), swarm(100_000), swarm(30_000));
        let ttl = *dice.pick(&[(1_000, 3_000), (500, 1_500), (1_000, 3_000), (1_000, 10_000)]);
        let rate = dice.between(25, 75);
        WorkloadPlan {
            clients: u32::try_from(clients).expect("at most ten"),
            keys: (0..keys).map(|number| KeyPlan::draw(number, dice)).collect(),
            weights,
            ttl,
            think: clients * 1_000_000 / rate,
            patience: *dice.pick(&[1_000_000, 1_000_000, 2_000_000, 8_000_000]),
            copies,
            cancels,
            terms,
            long_holds,
            freezes,
            cautious: dice.chance(700_000),
            reuse_ids: dice.chance(400_000),
            quiet: dice.chance(300_000).then(|| {
                let from = dice.between(48_500_000, 50_000_000);
                (from, from + dice.between(2_000_000, 4_500_000))
            }),
            limits: Limits { ttl_max: Millis(ttl.1), ..draw_limits(dice) },
        }
    }
}

impl KeyPlan {
    fn draw(number: u64, dice: &mut Dice) -> KeyPlan {
        let shared = match dice.roll(10) {
            0..=4 => None,
            5..=7 => Some(Mode::Shared),
            _ => Some(Mode::Permit(u32::try_from(dice.between(1, 3)).expect("at most three"))),
        };
        // Some names lie below others: a lock is not blocked by the locks below it.
        let name = match number % 5 {
            4 => format!("l{}/below{number}", number - 4),
            _ => format!("l{number}"),
        };
        KeyPlan { name: LockName::from(&*name), shared }
    }
}

/// A short history keeps snapshots small; few timers per entry make leases that are due but not
/// ended yet; short queues are full at times.
fn draw_limits(dice: &mut Dice) -> Limits {
    let mut small = |chance, low, high, usual| match dice.chance(chance) {
        true => u32::try_from(dice.between(low, high)).expect("small"),
        false => usual,
    };
    let usual = Limits::default();
    Limits {
        history_events_max: small(1_000_000, 50, 400, usual.history_events_max),
        due_per_entry_max: small(300_000, 1, 2, usual.due_per_entry_max),
        queue_len_max: small(200_000, 2, 5, usual.queue_len_max),
        floor_kept: Millis(dice.between(5_000, 60_000)),
        ..usual
    }
}
