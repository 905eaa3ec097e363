//! Planted bugs, chosen at run time, that the simulation must catch.
//!
//! Without the feature `mutants` the question below is answered at compile time, and nothing of
//! this is left in the program.

use super::Session;

/// A bug that can be planted.
#[cfg_attr(not(feature = "mutants"), expect(unreachable_pub, reason = "exported for tests"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A lease is believed in from when the answer came, not from when the renewal was sent.
    CountsFromAnswer,
    /// Nothing is taken off a TTL for clocks that differ.
    TrustsClocks,
    /// A hold is not given up at its cutoff.
    IgnoresCutoff,
    /// A renewal extends a hold whatever happened to the lease's places.
    IgnoresChanges,
    /// An acquire that is out of time is reported before it is known to be undone.
    ReportsTooEarly,
    /// Acquires of one name do not wait for each other.
    NoLine,
    /// An abandoned acquire is forgotten without a word to the service.
    LeavesPlaces,
    /// The answer to a renewal counts for whatever was sent last.
    IgnoresNumbers,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 8] = [
        Mutant::CountsFromAnswer,
        Mutant::TrustsClocks,
        Mutant::IgnoresCutoff,
        Mutant::IgnoresChanges,
        Mutant::ReportsTooEarly,
        Mutant::NoLine,
        Mutant::LeavesPlaces,
        Mutant::IgnoresNumbers,
    ];
}

impl Session {
    /// Plants a bug, for tests that must catch it.
    #[cfg(feature = "mutants")]
    pub fn plant(&mut self, mutant: Mutant) {
        self.planted = Some(mutant);
    }

    #[inline]
    pub(super) fn mutant(&self, asked: Mutant) -> bool {
        #[cfg(feature = "mutants")]
        return self.planted == Some(asked);
        #[cfg(not(feature = "mutants"))]
        {
            let _ = asked;
            false
        }
    }
}
