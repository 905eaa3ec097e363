//! I28, healing: within ten election timeouts after the faults have ended, somebody leads and an
//! acquire succeeds. A restored cluster that still waits for the leases of the lost one serves if
//! it says so.

use fencepost_core::outcome::{Outcome, Reason};

use super::{Check, broken};
use crate::client::CallResult;
use crate::seen::Time;

/// Ten times the longest election timeout.
const WITHIN: u64 = 10_000_000;

/// When the faults ended, and when the service was first seen to serve after that.
#[derive(Default)]
pub(super) struct Heals {
    pub(super) healed: Option<Time>,
    pub(super) served: Option<Time>,
}

impl Heals {
    pub(super) fn healed(&mut self, at: Time) {
        self.healed = Some(at);
        self.served = None;
    }

    /// A client was told what came of a call that it made at `called`.
    pub(super) fn returned(&mut self, at: Time, called: Time, result: &CallResult) {
        let CallResult::Done(reply) = result else { return };
        let serves = matches!(
            reply.outcome,
            Outcome::Acquired(_)
                | Outcome::AcquiredMany(_)
                | Outcome::Rejected(Reason::Recovering(_))
        );
        if serves && self.healed.is_some_and(|healed| called >= healed) {
            self.served.get_or_insert(at);
        }
    }

    /// Time goes on.
    pub(super) fn now(&self, at: Time) -> Check {
        match self.healed {
            Some(healed) if self.served.is_none() && at.0 > healed.0 + WITHIN => {
                Err(broken("I28", "no acquire has succeeded since the faults ended".to_owned()))
            }
            _ => Ok(()),
        }
    }
}
