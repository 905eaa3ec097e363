//! What the answer to a command says about leases and waits.

use fencepost_core::command::Wait;
use fencepost_core::outcome::{Outcome, RenewResult};
use fencepost_core::{Action, LockName, LogTime, Reply};

use super::{Book, Page};
use crate::seen::Time;

impl Book {
    /// Writes down an answer, after the events of its command. A repeat changes nothing, except
    /// that renewals are never taken for repeats.
    pub(in crate::check) fn note_reply(
        &mut self,
        page: &Page<'_>,
        reply: &Reply,
        is_repeat: bool,
        sent_at: Option<Time>,
    ) {
        match (page.action, &reply.outcome) {
            (Some(Action::LeaseRenew(_)), Outcome::LeasesRenewed(answers)) => {
                let alive =
                    answers.iter().filter(|one| matches!(one.result, RenewResult::Alive { .. }));
                for one in alive {
                    self.extend_lease(page, one.id, None, sent_at);
                }
            }
            (Some(Action::RenewAs(renew)), Outcome::Renewed(grant)) => {
                self.extend_lease(page, grant.lease, Some(renew.ttl), sent_at);
            }
            (Some(Action::RenewHeld(renew)), Outcome::Renewed(grant)) => {
                self.extend_lease(page, grant.lease, Some(renew.ttl), sent_at);
            }
            _ if is_repeat => {}
            (Some(Action::LeaseGrant(asked)), Outcome::LeaseGranted(granted)) => {
                self.open_lease(page, asked, granted, sent_at);
            }
            (Some(Action::LeaseRevoke(revoke)), Outcome::LeaseRevoked(_)) => {
                self.revoke_lease(revoke.lease.id);
            }
            (Some(Action::Acquire(_)), Outcome::Renewed(grant)) => {
                self.extend_lease(page, grant.lease, None, sent_at);
            }
            (Some(Action::AcquireAs(asked)), Outcome::Renewed(grant)) => {
                self.extend_lease(page, grant.lease, Some(asked.ttl), sent_at);
            }
            (Some(Action::Acquire(asked)), Outcome::Queued(place)) => {
                self.wait_longer(page, &asked.name, &place.key, asked.wait);
            }
            (Some(Action::AcquireAs(asked)), Outcome::Queued(place)) => {
                self.wait_longer(page, &asked.name, &place.key, asked.wait);
            }
            _ => {}
        }
    }

    /// A place is kept for the most patient of those who wait on it.
    fn wait_longer(
        &mut self,
        page: &Page<'_>,
        name: &LockName,
        key: &fencepost_core::Key,
        wait: Wait,
    ) {
        let Some(place) = self.place_mut(name, key).filter(|place| !place.holds) else { return };
        let until = match wait {
            Wait::AtMost(length) => page.now.after(length),
            Wait::Try | Wait::WhileLeased => LogTime::NEVER,
        };
        if until > place.wait_until {
            place.wait_until = until;
            place.asked_at = page.at;
            place.wait = match wait {
                Wait::AtMost(length) => Some(length),
                Wait::Try | Wait::WhileLeased => None,
            };
        }
    }
}
