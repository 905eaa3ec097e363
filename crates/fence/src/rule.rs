//! The rule: may this token still write?
//!
//! Owns: the mark of one resource, and the only comparison of a token with it.
//! Refuses: I/O and clocks. Whoever keeps marks decides how they become durable.
//! Guarantees: after an exclusive token was accepted, no lower token is, in any mode.

use std::collections::BTreeSet;

use crate::token::{Mode, Presented, Token};

/// Single tokens that one mark lists as taken away. The lock service lists no more for one lock.
pub const TAKEN_MAX: usize = 1_024;

/// What to do with a token that equals the highest one seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Repeats {
    /// Accept it: a holder may write as often as it likes, and may repeat a write whose answer was
    /// lost.
    #[default]
    Accepted,
    /// Accept it with the data that it wrote last, which is how a write is repeated whose answer was
    /// lost, and refuse it with other data. Where the data is not known, as in the HTTP layer, this is
    /// [`Repeats::Refused`].
    SameData,
    /// Refuse it: every exclusive token writes at most once. Only exclusive tokens leave a mark,
    /// so shared ones and permits are not counted.
    Refused,
}

/// What a resource remembers about the tokens it has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The highest exclusive token that was accepted; zero if there was none.
    highest: u64,
    /// Tokens below it were taken away by an operator; zero if none was.
    below: u64,
    /// Single tokens that were taken away.
    ///
    /// Invariant F1: each is at least `highest` and `below`. A lower one is refused by those
    /// already, and the list would grow for ever.
    taken: BTreeSet<u64>,
}

impl Mark {
    /// The highest exclusive token that was accepted.
    pub fn highest(&self) -> Option<Token> {
        Token::new(self.highest)
    }

    /// What operators took away.
    pub fn floor(&self) -> Floor {
        let taken = self.taken.iter().filter_map(|&number| Token::new(number)).collect();
        Floor { below: Token::new(self.below), taken }
    }

    /// A mark as it was written down.
    pub(crate) fn restored(highest: u64, below: u64, taken: BTreeSet<u64>) -> Mark {
        let mut mark = Mark { highest, below, taken };
        mark.prune();
        mark
    }

    /// Whether a token may write. Changes nothing.
    ///
    /// # Errors
    ///
    /// Why it may not.
    pub fn check(&self, presented: Presented, repeats: Repeats) -> Result<(), Refusal> {
        let token = presented.token;
        let number = token.get();
        if number < self.highest {
            let last = Token::new(self.highest).unwrap_or(Token::MAX);
            return Err(Refusal::Stale { token, last });
        }
        if number < self.below {
            let floor = Token::new(self.below).unwrap_or(Token::MAX);
            return Err(Refusal::BelowFloor { token, floor });
        }
        if self.taken.contains(&number) {
            return Err(Refusal::Taken { token });
        }
        if number == self.highest && repeats != Repeats::Accepted {
            return Err(Refusal::Reused { token });
        }
        Ok(())
    }

    /// Checks a token, and raises the mark if it is exclusive and higher. Says whether the mark
    /// changed: if it did, that must be durable before anything is written in the token's name.
    ///
    /// # Errors
    ///
    /// Why it may not write; the mark is as it was.
    pub fn present(&mut self, presented: Presented, repeats: Repeats) -> Result<bool, Refusal> {
        self.check(presented, repeats)?;
        let raises = presented.mode == Mode::Exclusive && presented.token.get() > self.highest;
        if raises {
            self.highest = presented.token.get();
            self.prune();
        }
        Ok(raises)
    }

    /// As [`Mark::present`], where it is known whether the data is what the same token wrote last.
    ///
    /// # Errors
    ///
    /// Why it may not write; the mark is as it was.
    pub fn present_data(
        &mut self,
        presented: Presented,
        repeats: Repeats,
        is_same: bool,
    ) -> Result<bool, Refusal> {
        let is_retry = repeats == Repeats::SameData && is_same;
        self.present(presented, if is_retry { Repeats::Accepted } else { repeats })
    }

    /// Takes over what an operator took away. Says whether that was news.
    ///
    /// # Errors
    ///
    /// The list of single tokens would grow past [`TAKEN_MAX`]; the mark is as it was.
    pub fn raise_floor(&mut self, floor: &Floor) -> Result<bool, FloorFull> {
        let mut raised = self.clone();
        raised.below = raised.below.max(floor.below.map_or(0, Token::get));
        raised.taken.extend(floor.taken.iter().map(|token| token.get()));
        raised.prune();
        if raised.taken.len() > TAKEN_MAX {
            return Err(FloorFull);
        }
        let is_news = raised != *self;
        *self = raised;
        Ok(is_news)
    }

    /// Restores F1.
    fn prune(&mut self) {
        let least = self.highest.max(self.below);
        self.taken.retain(|&number| number >= least);
    }
}

/// What an operator took away by releasing a lock by force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Every token below this one.
    pub below: Option<Token>,
    /// These single tokens, of shared holders and of permits: their neighbours go on holding.
    pub taken: BTreeSet<Token>,
}

/// Too many single tokens were taken away from one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {TAKEN_MAX} single tokens were taken away: let an exclusive holder write first")]
pub struct FloorFull;

/// Why a token may not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A later holder has written already.
    #[error("Token {token} is stale, last seen was {last}")]
    Stale {
        /// The token that came too late.
        token: Token,
        /// The highest one seen.
        last: Token,
    },
    /// It has written before, and each may only once.
    #[error("Token {token} already used")]
    Reused {
        /// The token.
        token: Token,
    },
    /// An operator took it away.
    #[error("Token {token} is below the fence floor {floor}: its lock was released by force")]
    BelowFloor {
        /// The token.
        token: Token,
        /// The lowest one that may still write.
        floor: Token,
    },
    /// An operator took this one away, and not its neighbours.
    #[error("Token {token} was taken away: its lock was released by force")]
    Taken {
        /// The token.
        token: Token,
    },
}

impl Refusal {
    /// A stable word for machines.
    pub const fn code(&self) -> &'static str {
        match self {
            Refusal::Stale { .. } => "token_stale",
            Refusal::Reused { .. } => "token_reused",
            Refusal::BelowFloor { .. } => "token_below_floor",
            Refusal::Taken { .. } => "token_taken",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn token(number: u64) -> Token {
        Token::new(number).expect("it is not zero")
    }

    fn exclusive(number: u64) -> Presented {
        Presented::exclusive(token(number))
    }

    // Requirements: S0-073.
    #[test]
    fn the_first_token_is_compared_with_nothing() {
        assert_eq!(Mark::default().highest(), None);
        for repeats in [Repeats::Accepted, Repeats::Refused] {
            let mut mark = Mark::default();
            assert_eq!(mark.present(exclusive(1), repeats), Ok(true));
            assert_eq!(mark.highest(), Some(token(1)));
        }
    }

    // Requirements: S0-074.
    #[test]
    fn a_lower_token_is_stale_in_the_founding_words() {
        let mut mark = Mark::default();
        assert_eq!(mark.present(exclusive(101), Repeats::Accepted), Ok(true));
        let refusal = mark.present(exclusive(100), Repeats::Accepted).expect_err("it is stale");
        assert_eq!(refusal.to_string(), "Token 100 is stale, last seen was 101");
        assert_eq!(refusal.code(), "token_stale");
        assert_eq!(mark.highest(), Some(token(101)), "a refusal changes nothing");
    }

    // Requirements: S0-075.
    #[test]
    fn an_equal_token_passes_or_is_used_up() {
        let mut mark = Mark::default();
        assert_eq!(mark.present(exclusive(5), Repeats::Accepted), Ok(true));
        assert_eq!(mark.present(exclusive(5), Repeats::Accepted), Ok(false));
        let refusal = mark.present(exclusive(5), Repeats::Refused).expect_err("it is used up");
        assert_eq!(refusal.to_string(), "Token 5 already used");
    }

    // Requirements: S0-075.
    #[test]
    fn an_equal_token_passes_with_the_same_data() {
        let mut mark = Mark::default();
        let mut present =
            |number, is_same| mark.present_data(exclusive(number), Repeats::SameData, is_same);
        assert_eq!(present(5, false), Ok(true));
        assert_eq!(present(5, true), Ok(false));
        let refusal = present(5, false).expect_err("it is used up");
        assert_eq!(refusal.to_string(), "Token 5 already used");
        assert!(matches!(present(4, true), Err(Refusal::Stale { .. })));
        assert_eq!(present(6, true), Ok(true));
        let strict = mark.present_data(exclusive(6), Repeats::Refused, true);
        assert!(matches!(strict, Err(Refusal::Reused { .. })));
    }

    #[test]
    fn only_exclusive_tokens_raise_the_mark() {
        let mut mark = Mark::default();
        for other in [Presented::shared(token(9)), Presented::permit(token(8))] {
            assert_eq!(mark.present(other, Repeats::Accepted), Ok(false));
            assert_eq!(mark.highest(), None);
        }
        assert_eq!(mark.present(exclusive(10), Repeats::Accepted), Ok(true));
        for late in [Presented::shared(token(9)), Presented::permit(token(8))] {
            assert!(matches!(mark.check(late, Repeats::Accepted), Err(Refusal::Stale { .. })));
        }
        for later in [Presented::shared(token(11)), Presented::permit(token(12))] {
            assert_eq!(mark.present(later, Repeats::Refused), Ok(false));
        }
    }

    #[test]
    fn a_floor_refuses_the_forced_token_and_nobody_after_it() {
        let mut mark = Mark::default();
        assert_eq!(mark.present(exclusive(7), Repeats::Accepted), Ok(true));
        let floor = Floor { below: Some(token(8)), taken: BTreeSet::new() };
        assert_eq!(mark.raise_floor(&floor), Ok(true));
        assert_eq!(mark.raise_floor(&floor), Ok(false), "it is no news any more");
        let refusal = mark.check(exclusive(7), Repeats::Accepted).expect_err("it was forced");
        assert_eq!(
            refusal.to_string(),
            "Token 7 is below the fence floor 8: its lock was released by force"
        );
        // The floor is not a token that was seen: the very next holder may have it as its own.
        assert_eq!(mark.present(exclusive(8), Repeats::Refused), Ok(true));
    }

    #[test]
    fn a_single_token_is_taken_and_its_neighbours_stay() {
        let mut mark = Mark::default();
        let floor = Floor { below: None, taken: BTreeSet::from([token(5)]) };
        assert_eq!(mark.raise_floor(&floor), Ok(true));
        for (number, passes) in [(4, true), (5, false), (6, true)] {
            let presented = Presented::shared(token(number));
            assert_eq!(mark.check(presented, Repeats::Accepted).is_ok(), passes, "{number}");
        }
        assert_eq!(mark.present(exclusive(9), Repeats::Accepted), Ok(true));
        assert!(mark.floor().taken.is_empty(), "what is stale anyway is forgotten");
    }

    #[test]
    fn the_list_of_taken_tokens_is_bounded() {
        let many = |count: u64| Floor { below: None, taken: (1..=count).map(token).collect() };
        let mut mark = Mark::default();
        assert_eq!(mark.raise_floor(&many(1_024)), Ok(true));
        let before = mark.clone();
        assert_eq!(mark.raise_floor(&many(1_025)), Err(FloorFull));
        assert_eq!(mark, before);
    }

    fn any_presented() -> impl Strategy<Value = Presented> {
        let mode = prop_oneof![Just(Mode::Exclusive), Just(Mode::Shared), Just(Mode::Permit)];
        (1_u64..40, mode).prop_map(|(number, mode)| Presented { token: token(number), mode })
    }

    proptest! {
        /// Compared with all that was accepted so far, which the mark itself does not keep.
        // Requirements: S0-076.
        #[test]
        fn the_mark_agrees_with_the_whole_history(
            steps in vec((any_presented(), any::<bool>(), 0_u64..10), 1..80),
        ) {
            let mut mark = Mark::default();
            let mut writers: Vec<u64> = Vec::new();
            let mut below = 0;
            for (presented, strict, floor) in steps {
                // One step in ten is a forced release.
                if floor == 9 {
                    below = below.max(presented.token.get());
                    let floor = Floor { below: Some(presented.token), taken: BTreeSet::new() };
                    mark.raise_floor(&floor).expect("nothing is listed");
                    continue;
                }
                let number = presented.token.get();
                let stale = writers.iter().any(|&earlier| number < earlier) || number < below;
                let used = strict && writers.iter().max() == Some(&number);
                let repeats = if strict { Repeats::Refused } else { Repeats::Accepted };
                let outcome = mark.present(presented, repeats);
                prop_assert_eq!(outcome.is_ok(), !stale && !used);
                if outcome.is_ok() && presented.mode == Mode::Exclusive {
                    writers.push(number);
                }
            }
            prop_assert!(writers.is_sorted(), "a lower token wrote after a higher one");
        }
    }
}
