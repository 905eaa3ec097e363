//! Repeats of a request act once.
//!
//! A caller numbers its requests and says which answers it has received. The state keeps the
//! other answers. A repeat gets the kept answer; a copy that arrives after its answer was
//! acknowledged is refused, so a delayed copy can never acquire or release a second time.

use alloc::collections::VecDeque;

use crate::command::{Action, Caller, CancelTarget, Once};
use crate::event::Cause;
use crate::ids::{LeaseId, LockName, Seq};
use crate::mutant::Mutant;
use crate::outcome::{Outcome, Reason};
use crate::quota::answer_bytes;
use crate::step::Step;

/// The answers kept for one caller, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Numbers below this were acknowledged.
    pub(crate) floor: Seq,
    /// In ascending order of numbers.
    pub(crate) answers: VecDeque<Answer>,
    /// What the answers count for. Derived from them.
    bytes: u64,
}

/// One kept answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) seq: Seq,
    /// What the request was, to tell a repeat from a number used twice. Zero if only its
    /// cancellation is known.
    pub(crate) print: u32,
    pub(crate) outcome: Outcome,
}

impl Window {
    /// A window that was read.
    pub(crate) fn new(floor: Seq, answers: VecDeque<Answer>) -> Window {
        let bytes = answers.iter().map(|answer| answer_bytes(&answer.outcome)).sum();
        Window { floor, answers, bytes }
    }

    /// What the answers count for.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn find(&self, seq: Seq) -> Result<usize, usize> {
        // Most numbers are the caller's latest.
        if self.answers.back().is_none_or(|last| last.seq < seq) {
            return Err(self.answers.len());
        }
        self.answers.binary_search_by_key(&seq, |answer| answer.seq)
    }

    pub(crate) fn get(&self, seq: Seq) -> Option<&Answer> {
        self.find(seq).ok().map(|at| &self.answers[at])
    }

    /// Forgets what the caller has received. Acknowledgements only move forward.
    fn acknowledge(&mut self, upto: Seq) {
        if upto <= self.floor {
            return;
        }
        self.floor = upto;
        while let Some(answer) = self.answers.pop_front_if(|answer| answer.seq < upto) {
            self.bytes -= answer_bytes(&answer.outcome);
        }
    }

    /// Keeps an answer. The number was admitted before.
    pub(crate) fn keep(&mut self, seq: Seq, print: u32, outcome: Outcome) {
        let answer = Answer { seq, print, outcome };
        self.bytes += answer_bytes(&answer.outcome);
        match self.find(seq) {
            Ok(at) => {
                self.bytes -= answer_bytes(&self.answers[at].outcome);
                self.answers[at] = answer;
            }
            Err(at) => self.answers.insert(at, answer),
        }
    }

    /// Replaces the outcome of a kept answer, if it is still kept.
    pub(crate) fn amend(&mut self, seq: Seq, outcome: &Outcome) {
        if let Ok(at) = self.find(seq) {
            self.replace(at, outcome);
        }
    }

    /// Replaces the outcomes of all answers for which `is_meant` holds.
    pub(crate) fn amend_all(&mut self, outcome: &Outcome, is_meant: impl Fn(&Outcome) -> bool) {
        for at in 0..self.answers.len() {
            if is_meant(&self.answers[at].outcome) {
                self.replace(at, outcome);
            }
        }
    }

    fn replace(&mut self, at: usize, outcome: &Outcome) {
        let answer = &mut self.answers[at];
        self.bytes -= answer_bytes(&answer.outcome);
        self.bytes += answer_bytes(outcome);
        answer.outcome = outcome.clone();
    }
}

/// What the window says about a request.
pub(crate) enum Recall {
    /// Never seen: do it.
    Fresh,
    /// Seen: this is the answer.
    Known(Outcome),
}

impl Step<'_> {
    /// Looks a request up, after acknowledging what it says was received.
    pub(crate) fn recall(&mut self, once: &Once, action: &Action) -> Result<Recall, Reason> {
        if let Caller::Client(id) = &once.by
            && !self.state.has_room_for_caller(id)
        {
            return match action {
                // They name the lease's epoch or the holder's token, so that a repeat finds nothing
                // to do: nothing has to be remembered.
                Action::LeaseRevoke(_) | Action::ForceRelease(_) => Ok(Recall::Fresh),
                // A client that is not known has no lease, and so nothing to release.
                _ => Err(Reason::NoSpace(self.state.quota.bytes)),
            };
        }
        let window_len_max = self.state.limits.window_len_max;
        let window = self.window_of(once, action)?;
        let floor = window.floor.max(once.ack_upto);
        check_seq(once.seq, floor, window_len_max)?;
        let before = window.bytes;
        window.acknowledge(floor);
        let (freed, kept) = (before - window.bytes, window.answers.len());
        let answer = window.get(once.seq).cloned();
        self.state.answer_bytes -= freed;
        let Some(answer) = answer else {
            self.state.check_answer_room(kept)?;
            return Ok(Recall::Fresh);
        };
        let same = match answer.print {
            // Only the cancellation has been seen, and only an acquire can be cancelled.
            0 => matches!(action, Action::Acquire(_) | Action::AcquireMany(_)),
            print => print == fingerprint(action),
        };
        if !same {
            return Err(Reason::SeqReused(once.seq));
        }
        let known = answer.outcome;
        if self.state.mutant(Mutant::RepeatActsAgain) {
            return Ok(Recall::Fresh);
        }
        Ok(Recall::Known(self.refresh(once, action, known)))
    }

    /// The kept answer to a request that would be refused today, because limits have changed
    /// since it was done.
    pub(crate) fn kept_answer(&self, once: &Once, action: &Action) -> Option<Outcome> {
        let window = match &once.by {
            Caller::Lease(id) => &self.state.leases.get(id)?.window,
            Caller::Client(id) => &self.state.clients.get(id)?.window,
        };
        let answer = window.get(once.seq)?;
        (answer.print == fingerprint(action)).then(|| answer.outcome.clone())
    }

    /// Keeps the answer to a request that was done.
    pub(crate) fn remember(&mut self, once: &Once, print: u32, outcome: &Outcome) {
        let window = match &once.by {
            Caller::Lease(id) => self.state.leases.get_mut(id).map(|lease| &mut lease.window),
            Caller::Client(id) => self.state.clients.get_mut(id).map(|client| &mut client.window),
        };
        // A request that ended its own lease has no window left, and needs none: every copy of
        // it is refused because the lease is gone.
        if let Some(window) = window {
            let before = window.bytes;
            window.keep(once.seq, print, outcome.clone());
            self.state.answer_bytes = self.state.answer_bytes + window.bytes - before;
        }
    }

    /// The caller's window, which must be the one that this kind of request is counted by.
    fn window_of(&mut self, once: &Once, action: &Action) -> Result<&mut Window, Reason> {
        match &once.by {
            Caller::Lease(id) => {
                let lease = match action {
                    Action::Acquire(acquire) => acquire.lease,
                    Action::AcquireMany(acquire) => acquire.lease,
                    Action::Cancel(cancel) => cancel.lease,
                    Action::Release(release) => release.lease,
                    Action::ReleaseMany(release) => release.lease,
                    _ => return Err(Reason::CallerWrong),
                };
                if lease.id != *id {
                    return Err(Reason::CallerWrong);
                }
                Ok(&mut self.live_lease(lease)?.window)
            }
            Caller::Client(id) => {
                let right = match action {
                    Action::LeaseGrant(grant) => grant.client == *id,
                    Action::AcquireAs(acquire) => acquire.client == *id,
                    Action::ReleaseAs(release) => release.client == *id,
                    Action::ReleaseHeld(release) => release.client == *id,
                    Action::LeaseRevoke(_) | Action::ForceRelease(_) => true,
                    _ => false,
                };
                if !right {
                    return Err(Reason::CallerWrong);
                }
                Ok(&mut self.see_client(id, None)?.window)
            }
        }
    }

    /// Whoever repeats an acquire is where its answer goes from now on, also if it was granted
    /// already. A kept answer that says "waiting" is brought up to date; all others are final.
    fn refresh(&mut self, once: &Once, action: &Action, known: Outcome) -> Outcome {
        match action {
            Action::Acquire(acquire) => {
                self.reattach(&acquire.name, acquire.lease.id, acquire.terms.call, acquire.wait);
                self.refresh_place(&acquire.name, acquire.lease.id, known)
            }
            Action::AcquireAs(acquire) => {
                let Some(lease) = self.owner_lease(&acquire.client, &acquire.name) else {
                    // Looking for it may just have ended it, and with it the wait.
                    return self.kept_answer(once, action).unwrap_or(known);
                };
                self.reattach(&acquire.name, lease, acquire.terms.call, acquire.wait);
                self.refresh_place(&acquire.name, lease, known)
            }
            Action::AcquireMany(acquire) => {
                for (name, _) in &acquire.locks {
                    self.reattach(name, acquire.lease.id, acquire.terms.call, acquire.wait);
                }
                let first = acquire.locks.first().map(|(name, _)| name);
                match (&known, first) {
                    (Outcome::Reserved(_), Some(name)) => {
                        self.present_place(name, acquire.lease.id).unwrap_or(known)
                    }
                    _ => known,
                }
            }
            _ => known,
        }
    }

    fn refresh_place(&self, name: &LockName, lease: LeaseId, known: Outcome) -> Outcome {
        match known {
            Outcome::Queued(_) => self.present_answer(name, lease).unwrap_or(known),
            known => known,
        }
    }
}

/// Whether a number lies in the window that begins at `floor`.
pub(crate) fn check_seq(seq: Seq, floor: Seq, window_len_max: u32) -> Result<(), Reason> {
    let end = Seq(floor.0.max(1).saturating_add(u64::from(window_len_max)));
    if seq == Seq::NONE {
        return Err(Reason::SeqZero);
    }
    if seq < floor {
        return Err(Reason::SeqTooOld(seq, floor));
    }
    if seq >= end {
        return Err(Reason::SeqTooFar(seq, end));
    }
    Ok(())
}

/// A short mark of what a request is: enough to notice a number used for two requests.
pub(crate) fn fingerprint(action: &Action) -> u32 {
    let (verb, subject, number): (u8, &[u8], u64) = match action {
        Action::LeaseGrant(grant) => (1, b"", grant.id.0.unsigned_abs() ^ grant.ttl.0 << 32),
        Action::LeaseRevoke(revoke) => (2, b"", revoke.lease.id.0.unsigned_abs()),
        Action::Acquire(acquire) => (3, &acquire.name, 0),
        Action::AcquireMany(acquire) => {
            (4, acquire.locks.first().map_or(b"", |(name, _)| name), acquire.locks.len() as u64)
        }
        Action::Cancel(cancel) => match &cancel.target {
            CancelTarget::Seq(seq) => (5, b"", seq.0),
            CancelTarget::Contender(name, token) => (6, name, token.0),
            CancelTarget::Call(name, call) => (14, name, call.number),
        },
        Action::Release(release) => (7, &release.name, release.token.0),
        Action::ReleaseMany(release) => {
            (8, release.names.first().map_or(b"", |name| name), release.token.0)
        }
        Action::ForceRelease(force) => (9, &force.name, force.token.0),
        Action::AcquireAs(acquire) => (10, &acquire.name, 0),
        Action::ReleaseAs(release) => (12, &release.name, 0),
        Action::ReleaseHeld(release) => (15, &release.name, release.token.0),
        _ => (13, b"", 0),
    };
    let head = [verb].into_iter().chain(number.to_le_bytes());
    let bytes = head.chain(subject.iter().copied());
    let mix = |print: u32, byte: u8| (print ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    bytes.fold(0x811c_9dc5, mix).max(1)
}

/// The answer of an acquire whose cancellation came first.
pub(crate) const CANCELLED: Outcome = Outcome::Ended(Cause::Cancelled);
