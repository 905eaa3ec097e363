//! Planted bugs. A checker that has never caught anything proves nothing.
//!
//! Each switch breaks one rule at the one place that keeps it. They exist only in builds with
//! the feature `mutants`; in all others `State::mutant` is a constant `false`. Whatever a bug needs
//! beyond a condition is kept here, out of the way of the code that is to be trusted.

use crate::command::Mode;
use crate::ids::{Key, LeaseId, LogTime, Millis};
use crate::lease::Lease;
use crate::lock::{Many, Then};
use crate::record::{Record, Role, queue_form};
use crate::state::State;
use crate::step::Step;
use crate::timer::{Timer, Timers};

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

impl State {
    /// What a planted bug would grant: a waiting permit, whoever waits ahead of it.
    pub(crate) fn overtaking_permit<'a>(&self, many: &'a Many) -> Option<&'a Key> {
        let holder = self.keys[many.first_key()?].contender()?;
        let Mode::Permit(limit) = holder.mode else {
            return None;
        };
        if !holder.holds() || many.held() >= limit as usize {
            return None;
        }
        let waits = |key: &&Key| {
            let contender = self.keys[*key].contender();
            contender.is_some_and(|one| one.mode == holder.mode && !one.holds())
        };
        many.all_keys().find(waits)
    }
}

impl Step<'_> {
    /// What a planted bug does to a foreign key that is given the lease it is named after.
    pub(crate) fn move_forward(&mut self, key: &Key, record: &mut Record) {
        let Some((name, own)) = queue_form(key) else {
            return;
        };
        if matches!(record.role, Role::Foreign) && own == record.lease {
            self.leave_queue(name.clone(), record);
            record.role = Role::Contender(self.plain_contender());
            record.created = record.modified;
            record.sub = 0;
            self.enter(name, key, record, Then::GoOn);
        }
    }
}

#[cfg(feature = "mutants")]
impl State {
    /// What a planted bug does when another node takes office: every lease gets its time anew.
    pub fn restart_leases(&mut self) {
        for (&id, lease) in &mut self.leases {
            self.timers.disarm(lease.deadline, Timer::Lease(id));
            lease.deadline = self.now.after(lease.ttl);
            self.timers.arm(lease.deadline, Timer::Lease(id));
        }
    }
}

/// What a planted bug does instead.
pub(crate) fn shorten(lease: &mut Lease, id: LeaseId, timers: &mut Timers, now: LogTime) {
    timers.disarm(lease.deadline, Timer::Lease(id));
    lease.deadline = now.after(Millis(lease.ttl.0 / 2));
    timers.arm(lease.deadline, Timer::Lease(id));
}
