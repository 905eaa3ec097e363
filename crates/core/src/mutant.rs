//! Planted bugs. A checker that has never caught anything proves nothing.
//!
//! Each switch breaks one rule at the one place that keeps it. They exist only in builds with
//! the feature `mutants`; in all others [`crate::State::mutant`] is a constant `false`.

/// A bug that can be planted.
#[cfg_attr(not(feature = "mutants"), expect(unreachable_pub, reason = "public with the feature"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A lease that is due, but not removed yet, still serves and is still granted locks.
    DueLeaseServes,
    /// An ended lease leaves its waiters in their queues, and they are granted.
    ExpiryKeepsWaiters,
    /// Tokens come from a counter in the lock's own record, which begins anew with each key.
    TokenPerKey,
    /// The last to come is the first to be granted.
    LastComeFirstServed,
    /// A release does not look at the token.
    ReleaseIgnoresToken,
    /// A delayed copy of a request acts again.
    RepeatActsAgain,
    /// An acquire that arrives after its own cancellation is served.
    CancelForgotten,
    /// A put that attaches a lease makes a foreign key a contender at a new place.
    PutMovesForward,
    /// A permit is granted although an exclusive contender waits ahead of it.
    PermitOvertakes,
    /// A shared contender joins an exclusive holder.
    SharedJoinsExclusive,
    /// One permit too many is granted.
    PermitTooMany,
    /// A renewal may shorten a lease.
    RenewShortens,
    /// A renewal does not look at the epoch.
    RenewIgnoresEpoch,
    /// A try that fails leaves its contender in the queue.
    TryStays,
    /// Ending a lease raises the revision once for each key.
    RevisionPerKey,
    /// A stamp from the past moves log time back.
    TimeRunsBack,
    /// Several locks at once are granted one by one.
    GroupPiecemeal,
    /// A forced release fences off all tokens up to the present revision, waiters' included.
    FloorTooHigh,
    /// A waiter is granted after its wait was over.
    WaitNeverEnds,
    /// Re-entry makes a new place at the end of the queue.
    ReentryQueuesAgain,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 20] = [
        Mutant::DueLeaseServes,
        Mutant::ExpiryKeepsWaiters,
        Mutant::TokenPerKey,
        Mutant::LastComeFirstServed,
        Mutant::ReleaseIgnoresToken,
        Mutant::RepeatActsAgain,
        Mutant::CancelForgotten,
        Mutant::PutMovesForward,
        Mutant::PermitOvertakes,
        Mutant::SharedJoinsExclusive,
        Mutant::PermitTooMany,
        Mutant::RenewShortens,
        Mutant::RenewIgnoresEpoch,
        Mutant::TryStays,
        Mutant::RevisionPerKey,
        Mutant::TimeRunsBack,
        Mutant::GroupPiecemeal,
        Mutant::FloorTooHigh,
        Mutant::WaitNeverEnds,
        Mutant::ReentryQueuesAgain,
    ];
}
