//! A state from a backup, made safe to go on with.
//!
//! The cluster that the backup was taken from lived on after it, and may have granted tokens and
//! leases that the backup does not know. So the revision jumps beyond anything it can have
//! reached, leases and contenders are dropped, and no lease is granted until the holders of the
//! lost cluster must have stopped.

use alloc::vec::Vec;

use crate::history::History;
use crate::ids::{LogTime, Millis, Revision};
use crate::lease::Ending;
use crate::limits::{RECOVERY_MIN, RESTORE_JUMP};
use crate::outcome::Reason;
use crate::state::State;
use crate::step::Step;
use crate::timer::{Timer, Timers};

impl State {
    /// Prepares a decoded backup. `grant_after` replaces the waiting time, which otherwise is the
    /// longest lease in the backup, but at least a minute.
    pub fn restore(mut self, grant_after: Option<Millis>) -> Result<State, Reason> {
        if self.revision.0.saturating_add(2 * RESTORE_JUMP) >= Revision::LIMIT.0 {
            return Err(Reason::RevisionFuture(self.revision));
        }
        let left = self.leases.values().map(|lease| lease.longest(self.now));
        let longest = left.max().unwrap_or_default().max(RECOVERY_MIN);
        // An earlier restore that is not over yet has holders of its own to wait for.
        let wait = grant_after.unwrap_or(longest.max(self.recovering_until.since(self.now)));
        self.drop_leases();
        self.clients.clear();
        self.delays.clear();
        self.lost_nodes.clear();
        self.retire_all_keys();
        self.revision.0 += RESTORE_JUMP;
        self.next_sub = 0;
        self.last_epoch += RESTORE_JUMP;
        self.last_lease = self.last_lease.saturating_add(RESTORE_JUMP.cast_signed());
        self.incarnation += 1;
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
