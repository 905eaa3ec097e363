//! I16, once: two requests with the same caller and number act once and get the same answer, over
//! leader changes and snapshots. An answer that said "wait" may become the grant or the end; a
//! grant that was cancelled says so; everything else stays. An acquire that comes after its own
//! cancellation is dead. And whatever its number, a command is applied no more often than copies
//! of it have reached a member and were not refused.

mod arrivals;

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::command::{Caller, CancelTarget};
use fencepost_core::event::Cause;
use fencepost_core::outcome::{Outcome, Reason};
use fencepost_core::{Action, ClientId, Command, Epoch, LeaseId, Millis, Seq};

use super::i13_renewals::lease_of;
use super::{Check, broken};

pub(super) use arrivals::Arrivals;

/// Whose number it is. Leases count anew with each grant of their id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Client(ClientId),
    Lease(LeaseId, Epoch),
}

/// The last answer to each number.
#[derive(Default)]
pub(super) struct Once {
    answers: BTreeMap<(Whose, Seq), Outcome>,
    cancelled: BTreeSet<(Whose, Seq)>,
}

impl Once {
    /// The cluster goes on from a backup, which has forgotten all callers.
    pub(super) fn restore(&mut self) {
        self.answers.clear();
        self.cancelled.clear();
    }

    /// Looks at an answer. Says whether the request was a repeat, or refused as one.
    pub(super) fn answered(
        &mut self,
        command: &Command,
        outcome: &Outcome,
    ) -> Result<bool, crate::seen::Violation> {
        let Some(once) = &command.once else { return Ok(false) };
        let whose = match &once.by {
            Caller::Client(id) => Whose::Client(id.clone()),
            Caller::Lease(id) => {
                let epoch = lease_of(&command.action).map_or(Epoch::ANY, |lease| lease.epoch);
                Whose::Lease(*id, epoch)
            }
        };
        if is_turned_away(&whose, outcome) {
            return Ok(true);
        }
        let key = (whose.clone(), once.seq);
        self.stays_cancelled(&key, command, outcome)?;
        if let Action::Cancel(cancel) = &command.action
            && let CancelTarget::Seq(seq) = cancel.target
            && *outcome == Outcome::Ended(Cause::Cancelled)
        {
            self.cancelled.insert((whose, seq));
        }
        let known = self.answers.insert(key.clone(), outcome.clone());
        let Some(known) = known else { return Ok(false) };
        if !may_follow(&known, outcome, self.cancelled.contains(&key)) {
            let what = format!("{once:?}: the answer was {known:?}, now it is {outcome:?}");
            return Err(broken("I16", what));
        }
        Ok(true)
    }

    fn stays_cancelled(&self, key: &(Whose, Seq), command: &Command, outcome: &Outcome) -> Check {
        let acquires = matches!(command.action, Action::Acquire(_) | Action::AcquireMany(_));
        let dead = matches!(outcome, Outcome::Ended(_) | Outcome::Rejected(_) | Outcome::Denied(_));
        if acquires && self.cancelled.contains(key) && !dead {
            let what = format!("{key:?} was cancelled and is served: {outcome:?}");
            return Err(broken("I16", what));
        }
        Ok(())
    }
}

/// Whether the number was refused, so that its request has neither acted nor been remembered.
fn is_turned_away(whose: &Whose, outcome: &Outcome) -> bool {
    let Outcome::Rejected(reason) = outcome else { return false };
    match reason {
        Reason::SeqTooOld(..) | Reason::SeqTooFar(..) => true,
        Reason::LeaseNotFound(_) | Reason::LeaseEpochStale(..) => {
            matches!(whose, Whose::Lease(..))
        }
        _ => false,
    }
}

fn may_follow(known: &Outcome, next: &Outcome, cancelled: bool) -> bool {
    match (known, next) {
        (Outcome::Queued(_), Outcome::Queued(_) | Outcome::Acquired(_) | Outcome::Ended(_)) => true,
        (
            Outcome::Reserved(_),
            Outcome::Reserved(_) | Outcome::AcquiredMany(_) | Outcome::Ended(_),
        ) => true,
        (Outcome::Acquired(_) | Outcome::AcquiredMany(_), Outcome::Ended(Cause::Cancelled)) => {
            cancelled
        }
        _ => lasting(known) == lasting(next),
    }
}

/// An answer without what is counted anew each time.
fn lasting(outcome: &Outcome) -> Outcome {
    let mut outcome = outcome.clone();
    match &mut outcome {
        Outcome::Acquired(grant) | Outcome::Renewed(grant) => grant.remaining = Millis::ZERO,
        Outcome::AcquiredMany(grant) => grant.remaining = Millis::ZERO,
        _ => {}
    }
    outcome
}
