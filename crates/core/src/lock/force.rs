//! Takes a lock from its holder, as an operator.
//!
//! The holder's token is fenced off at once. The lock itself passes on when the holder's lease,
//! as it stood at this moment, has run out: until then the holder may rightly believe that it
//! holds. A holder that releases before then has acknowledged.

use crate::command::{ForceRelease, Mode};
use crate::event::{Cause, EventKind};
use crate::ids::{Key, LockName, LogTime, Revision, Token};
use crate::lock::Queue;
use crate::mutant::Mutant;
use crate::outcome::{Outcome, Reason};
use crate::state::State;
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    pub(crate) fn force_release(&mut self, force: &ForceRelease) -> Result<Outcome, Reason> {
        let Some(key) = self.state.holder_with(&force.name, force.token) else {
            let Some(holder) = self.state.first_holder(&force.name, usize::MAX) else {
                return Ok(Outcome::NotFound);
            };
            return Err(Reason::TokenMismatch(force.token, holder.token));
        };
        let record = &self.state.keys[&key];
        let lease = record.lease;
        let contender = record.contender().expect("a holder is a contender").clone();
        self.fence_off(&force.name, force.token, contender.mode)?;
        let deadline = self.state.leases.get(&lease).map_or(LogTime(0), |lease| lease.deadline);
        let until = contender.forced().unwrap_or(LogTime::NEVER).min(deadline);
        if force.now || until <= self.state.now {
            if self.state.feature_level >= 2 {
                // The removal has no room for a reason, and an operator has given one.
                self.emit_forced(&key, self.state.now, force);
            }
            self.remove(&key, Cause::Forced);
            return Ok(Outcome::Released);
        }
        if contender.forced() != Some(until) {
            self.ask_holder(&key, until, force);
        }
        Ok(Outcome::ReleasePending(until))
    }

    fn ask_holder(&mut self, key: &Key, until: LogTime, force: &ForceRelease) {
        let record = self.state.keys.get_mut(key).expect("the holder was just found");
        let lease = record.lease;
        let contender = record.contender_mut().expect("a holder is a contender");
        contender.extra_mut().forced = Some(until);
        self.state.timers.arm(until, Timer::Forced(key.clone()));
        self.note_change(lease);
        self.emit_forced(key, until, force);
    }

    fn emit_forced(&mut self, key: &Key, until: LogTime, force: &ForceRelease) {
        let client = self.state.client_of(self.state.keys[key].lease);
        let holding = self.state.keys[key].holding(key, &client);
        self.emit(EventKind::ForceAsked { holding, until, reason: force.reason.clone() });
    }

    /// An exclusive token takes all smaller ones with it. A shared one or a permit is listed by
    /// itself, because its neighbours still hold. Never the present revision: waiters have their
    /// tokens already.
    fn fence_off(&mut self, name: &LockName, token: Token, mode: Mode) -> Result<(), Reason> {
        let max = self.state.limits.floor_tokens_max;
        let until = self.state.now.after(self.state.limits.floor_kept);
        let mut floor = self.state.floors.get(name).cloned().unwrap_or_default();
        if mode == Mode::Exclusive {
            floor.below = floor.below.max(Token(token.0 + 1));
            if self.state.mutant(Mutant::FloorTooHigh) {
                floor.below = Token(self.state.revision.0 + 1);
            }
        } else if let Err(at) = floor.tokens.binary_search(&token) {
            floor.tokens.insert(at, token);
        }
        floor.tokens.retain(|&listed| listed >= floor.below);
        if floor.tokens.len() > max as usize {
            return Err(Reason::FloorFull(max));
        }
        self.state.timers.disarm(floor.until, Timer::Floor(name.clone()));
        floor.until = until;
        self.state.timers.arm(until, Timer::Floor(name.clone()));
        self.state.floors.insert(name.clone(), floor);
        Ok(())
    }
}

impl State {
    /// The key that holds `name` with `token`.
    fn holder_with(&self, name: &LockName, token: Token) -> Option<Key> {
        let key = match self.locks.get(name)? {
            Queue::One(key) => key,
            Queue::Many(many) => many.created_at(Revision(token.0))?,
        };
        let record = &self.keys[key];
        (record.token() == token && record.holds()).then(|| key.clone())
    }
}
