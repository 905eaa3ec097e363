//! A lock as simple as can be: who holds it, and the last token.

use std::cell::Cell;

use fencepost_core::command::Mode;
use porcupine_rs::{Model, Operation, check_operations};

thread_local! {
    /// Steps that the search may still take. The search itself cannot be told to stop, and a bound
    /// in real time would make the verdict depend on the machine.
    static STEPS_LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Far more than any sound history of a run needs.
const STEPS_MAX: u64 = 1_000_000;

/// What a lock is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lock {
    holders: Vec<(u64, Mode)>,
    last: u64,
}

/// What can happen to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// It was granted with this token.
    Granted(u64, Mode),
    /// This token's hold was over.
    Ended(u64),
    /// Somebody was told to hold it with this token.
    Held(u64),
    /// Somebody was told not to hold it with this token.
    NotHeld(u64),
    /// Somebody saw that these tokens hold it, and no other.
    Seen(Vec<u64>),
}

impl Lock {
    fn holds(&self, token: u64) -> bool {
        self.holders.iter().any(|(held, _)| *held == token)
    }

    fn has_room(&self, mode: Mode) -> bool {
        let alike = self.holders.iter().all(|(_, held)| *held == mode);
        alike && self.holders.len() < mode.room()
    }

    /// The lock after something happened to it, if that could happen.
    pub(super) fn after(&self, what: &Happened) -> Option<Lock> {
        let mut next = self.clone();
        match what {
            Happened::Granted(token, mode) => {
                if *token <= self.last || !self.has_room(*mode) {
                    return None;
                }
                next.holders.push((*token, *mode));
                next.last = *token;
            }
            Happened::Ended(token) => {
                if !self.holds(*token) {
                    return None;
                }
                next.holders.retain(|(held, _)| held != token);
            }
            Happened::Held(token) => return self.holds(*token).then_some(next),
            Happened::NotHeld(token) => return (!self.holds(*token)).then_some(next),
            Happened::Seen(tokens) => {
                return self.holders.iter().map(|(held, _)| held).eq(tokens).then_some(next);
            }
        }
        Some(next)
    }
}

/// The lock as the search wants it.
#[derive(Clone, Debug)]
pub(super) struct LockModel;

impl Model for LockModel {
    type State = Lock;
    type Op = Happened;
    type Metadata = ();

    fn init() -> Lock {
        Lock::default()
    }

    fn step(state: &Lock, op: &Happened) -> (bool, Lock) {
        let left = STEPS_LEFT.get();
        if left == 0 {
            return (false, state.clone());
        }
        STEPS_LEFT.set(left - 1);
        match state.after(op) {
            Some(next) => (true, next),
            None => (false, state.clone()),
        }
    }
}

/// What the search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is an order.
    Linear,
    /// There is none.
    NotLinear,
    /// The search was too long.
    Unknown,
}

/// Looks for an order.
pub(super) fn search(history: &[Operation<LockModel>]) -> Verdict {
    STEPS_LEFT.set(STEPS_MAX);
    if check_operations(history) {
        return Verdict::Linear;
    }
    if STEPS_LEFT.get() == 0 { Verdict::Unknown } else { Verdict::NotLinear }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(happened: &[Happened]) -> Option<Lock> {
        happened.iter().try_fold(Lock::default(), |lock, what| lock.after(what))
    }

    #[test]
    fn a_lock_is_held_by_those_who_can_share_it() {
        use Happened::{Ended, Granted, Held, NotHeld, Seen};
        let exclusive = |token| Granted(token, Mode::Exclusive);
        assert!(after(&[exclusive(2), Held(2), Ended(2), NotHeld(2), exclusive(3)]).is_some());
        assert!(after(&[exclusive(2), exclusive(3)]).is_none());
        assert!(after(&[exclusive(3), Ended(3), exclusive(2)]).is_none(), "tokens grow");
        assert!(after(&[Ended(2)]).is_none());
        assert!(after(&[Held(2)]).is_none());
        assert!(after(&[exclusive(2), NotHeld(2)]).is_none());
        let shared = |token| Granted(token, Mode::Shared);
        assert!(after(&[shared(2), shared(3), Seen(vec![2, 3])]).is_some());
        assert!(after(&[shared(2), shared(3), Seen(vec![3])]).is_none());
        assert!(after(&[shared(2), exclusive(3)]).is_none());
        let permit = |token| Granted(token, Mode::Permit(2));
        assert!(after(&[permit(2), permit(3)]).is_some());
        assert!(after(&[permit(2), permit(3), permit(4)]).is_none());
    }

    #[test]
    fn a_search_without_steps_has_no_verdict() {
        let operation = |what: Happened, from, to| Operation::<LockModel> {
            client_id: None,
            call_time: from,
            return_time: to,
            op: what,
            metadata: None,
        };
        let history = [operation(Happened::Held(2), 0, 1)];
        assert_eq!(search(&history), Verdict::NotLinear);
        let many: Vec<_> = (0..40)
            .map(|number| operation(Happened::Granted(number + 1, Mode::Shared), 0, 100))
            .flat_map(|grant| {
                let Happened::Granted(token, _) = grant.op else { unreachable!() };
                [grant, operation(Happened::Ended(token), 0, 100)]
            })
            .chain([operation(Happened::Held(99), 0, 100)])
            .collect();
        assert_eq!(search(&many), Verdict::Unknown);
    }
}
