//! What a step of a scan may cost.

/// What one step may cost: about a millisecond, 2,048 keys that are collected, or 1 MiB.
pub const STEP_UNITS: u32 = 16_384;
/// What a key that is collected or hashed costs beside its bytes, or one of the past.
pub(super) const KEY_UNITS: u32 = 8;
/// Bytes of an answer or an event that cost one unit.
pub(super) const ANSWER_BYTES_PER_UNIT: usize = 64;

/// What a step may still cost. A step goes on until nothing is left, so it costs at most one key
/// more.
#[derive(Clone, Copy, Debug)]
pub struct StepBudget {
    left: u32,
}

impl StepBudget {
    /// So many units.
    pub const fn new(units: u32) -> StepBudget {
        StepBudget { left: units }
    }

    /// What is left.
    pub const fn left(self) -> u32 {
        self.left
    }

    /// Whether nothing is left.
    pub const fn is_spent(self) -> bool {
        self.left == 0
    }

    /// Spends so many units, or what is left.
    pub fn spend(&mut self, units: u32) {
        self.left = self.left.saturating_sub(units);
    }

    /// Spends what so many keys cost that are answered with so many bytes.
    pub fn spend_on_answer(&mut self, keys: usize, bytes: usize) {
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        self.spend_on(keys.saturating_mul(KEY_UNITS), bytes, ANSWER_BYTES_PER_UNIT);
    }

    pub(super) fn spend_on(&mut self, units: u32, bytes: usize, bytes_per_unit: usize) {
        let of_bytes = u32::try_from(bytes / bytes_per_unit).unwrap_or(u32::MAX);
        self.spend(units.saturating_add(of_bytes));
    }
}

impl Default for StepBudget {
    fn default() -> StepBudget {
        StepBudget::new(STEP_UNITS)
    }
}
