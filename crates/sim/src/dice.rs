//! Chance, from one seed.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

/// A stream of chance. Streams that were split off do not disturb each other: a change in the
/// workload leaves the faults of a seed as they were.
#[derive(Clone, Debug)]
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// The stream of a seed for one purpose.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Dice {
        Dice(Pcg64Mcg::seed_from_u64(seed ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `sides`, which is not zero.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.number() % sides
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll(high - low + 1)
    }

    /// Whether something happens that happens so many times in a million.
    pub fn chance(&mut self, per_million: u32) -> bool {
        self.roll(1_000_000) < u64::from(per_million)
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = usize::try_from(self.roll(from.len() as u64)).expect("shorter than memory");
        &from[at]
    }
}
