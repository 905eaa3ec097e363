//! One command, or one timer, at work on the state.
//!
//! All changes of keys in one step share one revision. Locks are settled when the step is
//! through, so nothing is granted in the middle of a transaction, and never to a lease that the
//! same step is about to end.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command::{Action, Command};
use crate::event::{Event, EventKind, Holding};
use crate::ids::{Epoch, LeaseId, LockName, Revision, Seq};
use crate::lease::Ending;
use crate::limits::{
    FEATURE_LEVEL, HISTORY_BYTES_MIN, HISTORY_SHRUNK_MAX, HOLDER_SEARCH_MAX, Limits, NEW_CLUSTER,
    POSITION_COUNTED_LEVEL_2, TTL_MAX, TTL_MAX_DEFAULT,
};
use crate::may;
use crate::mutant::Mutant;
use crate::once::{Recall, fingerprint};
use crate::outcome::{Outcome, Reason};
use crate::record::queue_form;
use crate::shape;
use crate::state::State;
use crate::timer::Timer;

/// One command or timer at work.
pub(crate) struct Step<'a> {
    pub(crate) state: &'a mut State,
    /// Where events go. This step's own begin at `first_event`; until it is known who holds the
    /// locks now, nobody else has them.
    out: &'a mut Vec<Arc<Event>>,
    first_event: usize,
    /// Whether a caller is owed the answer. If none is, what only an answer would carry is not
    /// read: a replay must not cost what the caller asked to see.
    pub(crate) answers: bool,
    /// Whether this step has raised the revision.
    raised: bool,
    /// The locks whose queues changed and are not empty.
    pub(crate) touched: Vec<LockName>,
    /// Whether a queue has become empty.
    pub(crate) emptied: bool,
    /// Whether a key has left a queue that is not empty, or not any more, so that somebody may
    /// hold its lock now.
    pub(crate) passed_on: bool,
    /// Who was last given a lock for itself, and which lock. None, if a key has left a queue since.
    pub(crate) heir: Option<(LockName, Holding)>,
    /// Leases that were made for one lock which is gone. The id may be in use again already.
    pub(crate) spent_leases: Vec<(LeaseId, Epoch)>,
    /// Leases that run out because a lock was held for too long, and have lost a holder.
    pub(crate) forgivable: Vec<LeaseId>,
}

impl<'a> Step<'a> {
    pub(crate) fn new(state: &'a mut State, out: &'a mut Vec<Arc<Event>>) -> Step<'a> {
        Step {
            state,
            first_event: out.len(),
            out,
            answers: true,
            forgivable: Vec::new(),
            raised: false,
            touched: Vec::new(),
            emptied: false,
            passed_on: false,
            heir: None,
            spent_leases: Vec::new(),
        }
    }

    /// Runs a command to its end. `answers` says whether a caller is owed the answer.
    pub(crate) fn run(mut self, command: Command, answers: bool) -> Outcome {
        self.answers = answers;
        let outcome = self.try_run(command).unwrap_or_else(|reason| self.note_refusal(reason));
        self.finish();
        outcome
    }

    fn try_run(&mut self, command: Command) -> Result<Outcome, Reason> {
        if let Err(reason) = shape::check(&command, &self.state.limits) {
            let kept = command.once.as_ref().map(|once| self.kept_answer(once, &command.action));
            return kept.flatten().ok_or(reason);
        }
        may::check(&command.actor, &command.action)?;
        let Some(once) = command.once else {
            return self.act(command.action, Seq::NONE);
        };
        if let Recall::Known(outcome) = self.recall(&once, &command.action)? {
            return Ok(outcome);
        }
        let print = fingerprint(&command.action);
        // From here on a refusal is an answer to keep as well: a copy of a refused request that
        // comes later must not find the state changed and act after all.
        let outcome = self.act(command.action, once.seq);
        let outcome = outcome.unwrap_or_else(|reason| self.note_refusal(reason));
        self.remember(&once, print, &outcome);
        Ok(outcome)
    }

    fn act(&mut self, action: Action, seq: Seq) -> Result<Outcome, Reason> {
        match action {
            Action::LeaseGrant(grant) => self.lease_grant(grant),
            Action::LeaseRenew(renew) => Ok(self.lease_renew(&renew)),
            Action::LeaseRevoke(revoke) => self.lease_revoke(&revoke),
            Action::Disconnect(disconnect) => self.disconnect(&disconnect),
            Action::Put(put) => self.put(put),
            Action::PutPlain(put) => self.put_plain(put),
            Action::DeleteRange(delete) => Ok(self.delete_range(&delete)),
            Action::Txn(txn) => self.txn(*txn),
            Action::Compact(compact) => self.compact(&compact),
            Action::Acquire(acquire) => self.acquire(acquire, seq),
            Action::AcquireMany(acquire) => self.acquire_many(acquire, seq),
            Action::Cancel(cancel) => self.cancel(&cancel),
            Action::Release(release) => self.release(&release),
            Action::ReleaseMany(release) => self.release_many(&release),
            Action::ForceRelease(force) => self.force_release(&force),
            Action::DeleteLock(delete) => self.delete_lock(&delete),
            Action::AcquireAs(acquire) => self.acquire_as(acquire, seq),
            Action::RenewAs(renew) => Ok(self.renew_as(&renew, None)),
            Action::RenewHeld(renew) => Ok(self.renew_held(renew)),
            Action::ReleaseAs(release) => Ok(self.release_as(&release, None)),
            Action::ReleaseHeld(release) => Ok(self.release_held(release)),
            Action::CallsAnswered(answered) => Ok(self.calls_answered(&answered)),
            Action::NodeLost(lost) => Ok(self.node_lost(lost)),
            Action::SetLimits(limits) => self.set_limits(*limits),
            Action::ChangeLimits(change) => self.change_limits(&change),
            Action::RaiseFeatureLevel(level) => self.raise_feature_level(level),
            Action::PublishKey(publish) => self.publish_key(&publish),
            Action::RotateKey(rotate) => self.rotate_key(&rotate),
            Action::RetireKeys(node) => Ok(self.retire_keys(node)),
            Action::RevokeKey(revoke) => self.revoke_key(&revoke),
            Action::Skipped(_) => Ok(Outcome::Done),
        }
    }

    /// Deadlines that are already fixed stay; how long a client is remembered follows at once. From
    /// feature level 2 on that cannot change: it would move the timer of every client.
    fn set_limits(&mut self, limits: Limits) -> Result<Outcome, Reason> {
        let kept = limits.client_kept;
        if self.state.feature_level >= 2 && kept != self.state.limits.client_kept {
            return Err(Reason::LimitsUnsound);
        }
        let before = core::mem::replace(&mut self.state.limits, limits);
        if before.client_kept == kept {
            return Ok(Outcome::Done);
        }
        for (id, client) in &self.state.clients {
            if client.leases.is_empty() {
                let timer = Timer::Client(id.clone());
                self.state.timers.disarm(client.last_seen.after(before.client_kept), timer.clone());
                self.state.timers.arm(client.last_seen.after(kept), timer);
            }
        }
        Ok(Outcome::Done)
    }

    /// A level beyond this build's must stop the node, not be refused by it alone. Decoding has
    /// seen to that; this is the last line.
    fn raise_feature_level(&mut self, level: u32) -> Result<Outcome, Reason> {
        assert!(level <= FEATURE_LEVEL, "feature level {level} is not known to this build");
        let before = self.state.feature_level;
        if level < before {
            return Err(Reason::FeatureLevelInvalid(level, before));
        }
        self.state.feature_level = level;
        if before < 2 && level >= 2 {
            self.begin_level_2();
        }
        Ok(Outcome::Done)
    }

    /// The limits of level 2. Clusters that are in use keep the longest TTL that they allow.
    fn begin_level_2(&mut self) {
        let is_new = self.state.now < NEW_CLUSTER;
        let has_long = self.state.leases.values().any(|lease| lease.ttl > TTL_MAX_DEFAULT);
        let limits = &mut self.state.limits;
        limits.position_counted_max = limits.position_counted_max.min(POSITION_COUNTED_LEVEL_2);
        if is_new && !has_long && limits.ttl_max == TTL_MAX {
            limits.ttl_max = TTL_MAX_DEFAULT;
        }
    }

    /// Does what a timer that has come due stands for.
    pub(crate) fn fire(mut self, timer: Timer) {
        match timer {
            Timer::Lease(id) => drop(self.end_lease(id, Ending::Expired)),
            Timer::Disconnected(id) => drop(self.end_lease(id, Ending::Revoked)),
            Timer::Wait(key) => self.wait_is_over(&key),
            Timer::Forced(key) => self.forced_is_due(&key),
            Timer::Budget(key) => self.budget_is_spent(&key),
            Timer::HoldMax(key) => self.hold_is_over(&key),
            Timer::Delay(name) => self.delay_is_over(name),
            Timer::Floor(name) => drop(self.state.floors.remove(&name)),
            Timer::Orphans(node, boot) => self.end_orphans(node, boot),
            Timer::Client(id) => self.forget_client(&id),
            Timer::KeyDue(key) => self.activate_key(key),
            Timer::Grants(name) => self.touched.push(name),
            Timer::Recovered => {}
        }
        self.finish();
    }

    /// The revision of this step's changes. The first one raises it.
    pub(crate) fn change(&mut self) -> Revision {
        if !self.raised {
            self.raised = true;
            self.raise_revision();
        }
        self.state.revision
    }

    fn raise_revision(&mut self) {
        let next = self.state.revision.next();
        assert!(next < Revision::LIMIT, "revisions are used up");
        self.state.revision = next;
        self.state.next_sub = 0;
    }

    /// Notes that a key of an ending lease was removed.
    pub(crate) fn end_of_leased_key(&mut self) {
        if self.state.mutant(Mutant::RevisionPerKey) {
            self.raise_revision();
        }
    }

    pub(crate) fn emit(&mut self, kind: EventKind) {
        let sub = self.state.next_sub;
        self.state.next_sub += 1;
        self.out.push(Arc::new(Event { revision: self.state.revision, sub, kind }));
    }

    /// Ends what ends with its lock, grants what can be granted, and lets the events out.
    fn finish(mut self) {
        while let Some((id, epoch)) = self.spent_leases.pop() {
            if self.state.leases.get(&id).is_some_and(|lease| lease.epoch == epoch) {
                self.end_lease(id, Ending::Revoked);
            }
        }
        self.settle();
        self.forgive_leases();
        if self.passed_on {
            self.name_holders();
        }
        for event in &self.out[self.first_event..] {
            self.state.history.push(event, &self.state.limits);
        }
        if self.state.feature_level >= 2 && self.out.len() > self.first_event {
            let max = self.state.used_bytes().max(HISTORY_BYTES_MIN.into());
            self.state.history.shrink(max, HISTORY_SHRUNK_MAX);
        }
    }

    /// Completes the ends of contenders with who holds their locks now.
    fn name_holders(&mut self) {
        let search_max = if self.state.feature_level < 2 { usize::MAX } else { HOLDER_SEARCH_MAX };
        // Most locks that pass on do so to one that has them for itself.
        let heir = self.heir.take();
        let mut known = heir.map(|(name, holder)| (name, Some(holder)));
        for event in &mut self.out[self.first_event..] {
            let event = Arc::get_mut(event).expect("an unfinished step shares no events");
            let EventKind::Deleted { prev, ended: Some(ended) } = &mut event.kind else { continue };
            let Some((name, _)) = queue_form(&prev.key) else { continue };
            let holder = match &known {
                Some((lock, holder)) if *lock == name => holder.clone(),
                _ => self.state.first_holder(&name, search_max),
            };
            ended.holder = holder.clone().map(Box::new);
            known = Some((name, holder));
        }
    }
}
