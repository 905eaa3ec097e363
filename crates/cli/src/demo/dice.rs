//! Numbers that follow from a seed: the same ones every time.

/// SplitMix64: small, and good enough for how long a client thinks.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `from` to `to`, both included.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to.saturating_sub(from) + 1)
    }

    /// Other dice that follow from these.
    pub(super) fn fork(&mut self) -> Dice {
        Dice(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_it_all() {
        let thrown = |seed| -> Vec<u64> {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| dice.between(3, 7)).collect()
        };
        assert_eq!(thrown(1), thrown(1));
        assert_ne!(thrown(1), thrown(2));
        assert!(thrown(1).iter().all(|number| (3..=7).contains(number)));
        assert!((3..=7).all(|number| thrown(1).contains(&number)));
    }
}
