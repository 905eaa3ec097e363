//! Restoring a state from a backup.
//!
//! Owns: what a backup keeps and what it loses when a new cluster starts from it.
//!
//! Guarantees: tokens, lease ids and lease epochs of the restored state are above those of the lost
//! cluster and of every earlier restore of the same backup, as long as the wall clock of a later
//! restore is later and no cluster makes more than 1024 revisions per millisecond (ADR 032). No
//! lease is granted before every lease of the lost cluster has expired.
//!
//! Refuses: a restore that leaves too few revisions below [`Revision::LIMIT`].

use alloc::vec::Vec;

use crate::history::History;
use crate::ids::{LogTime, Millis, Revision};
use crate::lease::Ending;
use crate::outcome::Reason;
use crate::state::State;
use crate::step::Step;
use crate::timer::{Timer, Timers};

/// Revisions reserved for each millisecond of wall-clock time, as a power of two. With 1024 of them
/// the counters stay below [`Revision::LIMIT`] until the year 2248.
const REVISION_BITS_PER_MS: u32 = 10;

/// The inputs of a restore. The state machine has no clock and no random numbers, so the caller
/// supplies both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restore {
    /// Wall clock of the restore, in milliseconds since the Unix epoch. The counters start from it.
    pub unix_ms: u64,
    /// Random number below [`Restore::INCARNATION_LIMIT`] that names the restored cluster. Must not
    /// be the backup's own.
    pub incarnation: u64,
    /// Lower bound for the counters, for an operator who knows a larger token. Zero for none.
    pub min_revision: Revision,
    /// Wait before the first lease is granted; overrides the default and `elapsed`.
    pub grant_after: Option<Millis>,
    /// Time since the lost cluster stopped, which shortens the default wait.
    pub elapsed: Millis,
}

impl Restore {
    /// Incarnations stay below this, so that a JSON number can carry one.
    pub const INCARNATION_LIMIT: u64 = 1 << 53;

    /// A restored cluster has at least so many revisions left: enough for a million a second over
    /// twelve days, by which time an operator has noticed that the number was wrong.
    pub const REVISIONS_MIN: u64 = 1 << 40;

    /// What the counters of a state with this revision must exceed.
    fn base(&self, revision: Revision) -> Option<u64> {
        let clock = self.unix_ms.checked_mul(1 << REVISION_BITS_PER_MS)?;
        let base = revision.max(self.min_revision).0.max(clock);
        (base.checked_add(Restore::REVISIONS_MIN)? < Revision::LIMIT.0).then_some(base)
    }
}

impl State {
    /// Prepares a decoded backup for a new cluster.
    ///
    /// # Errors
    ///
    /// If fewer than [`Restore::REVISIONS_MIN`] revisions are left below [`Revision::LIMIT`].
    ///
    /// # Panics
    ///
    /// If the incarnation is the backup's own or out of range: members of the lost cluster would
    /// pass for members of the restored one.
    pub fn restore(mut self, restore: Restore) -> Result<State, Reason> {
        assert!(restore.incarnation < Restore::INCARNATION_LIMIT, "incarnation out of range");
        assert!(restore.incarnation != self.incarnation, "a restore needs a new incarnation");
        let Some(base) = restore.base(self.revision) else {
            return Err(Reason::RevisionFuture(self.revision));
        };
        let wait = restore
            .grant_after
            .unwrap_or_else(|| Millis(self.restore_wait().0.saturating_sub(restore.elapsed.0)));
        self.drop_leases();
        self.clients.clear();
        self.count_bytes();
        self.delays.clear();
        self.lost_nodes.clear();
        self.retire_all_keys();
        self.revision = Revision(base + 1);
        self.next_sub = 0;
        self.last_epoch = self.last_epoch.max(base) + 1;
        self.last_lease = self.last_lease.max(base.cast_signed()).saturating_add(1);
        self.incarnation = restore.incarnation;
        self.history = History::starting_at(self.revision);
        self.timers = Timers::default();
        for (name, floor) in &self.floors {
            self.timers.arm(floor.until, Timer::Floor(name.clone()));
        }
        self.recovering_until = self.now.after(wait);
        if self.recovering_until > self.now {
            self.timers.arm(self.recovering_until, Timer::Recovered);
        } else {
            self.recovering_until = LogTime(0);
        }
        Ok(self)
    }

    /// The default wait of a restore: how long a client of the lost cluster can believe in a lease
    /// after that cluster stopped.
    ///
    /// A lease granted after the backup is not in it, so the largest TTL that it could have asked
    /// for counts. A lease in the backup may be longer if the limit was lowered later, and an
    /// unfinished wait of an earlier restore covers the clients of the cluster before.
    pub fn restore_wait(&self) -> Millis {
        let leases = self.leases.values().map(|lease| lease.longest(self.now));
        let longest = leases.max().unwrap_or_default();
        self.limits.ttl_max.max(longest).max(self.recovering_until.since(self.now))
    }

    /// How much longer a restored state grants no lease.
    pub fn recovering_for(&self) -> Millis {
        self.recovering_until.since(self.now)
    }

    /// What a planted bug does when a snapshot is installed.
    #[cfg(feature = "mutants")]
    pub fn lose_leases(&mut self) {
        self.drop_leases();
    }

    /// Ends every lease. Contenders live only on live leases, so no contender is left.
    fn drop_leases(&mut self) {
        let ids: Vec<_> = self.leases.keys().copied().collect();
        for id in ids {
            Step::new(self, &mut Vec::new()).end_lease(id, Ending::Revoked);
        }
    }
}
