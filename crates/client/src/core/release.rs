//! Giving a lock back.

use std::sync::Arc;

use fencepost_proto::v1 as pb;

use super::Session;
use super::body::{Body, Under};
use super::call::What;
use super::end_acquire::{is_lease_gone, is_not_held, rejected};
use super::hold::Hold;
use super::io::{HoldId, LeaseNo, OpId, Output, Released};
use super::lease::{Lease, Use};
use super::requests::{Numbering, Task, TicketId};
use super::time::Moment;

impl Session {
    /// A guard is done. The last one of a hold gives the lock back.
    pub(super) fn release(&mut self, id: HoldId, op: Option<OpId>) {
        let Some(hold) = self.holds.get_mut(&id) else {
            self.released(op, Released::AfterLoss);
            return;
        };
        hold.guards = hold.guards.saturating_sub(1);
        if hold.guards > 0 {
            self.released(op, Released::StillShared);
            return;
        }
        let Some(hold) = self.take_hold(id) else { return };
        self.push(Output::Freed(id));
        if hold.is_lost {
            // The work has wound down: nobody needs to wait for the lease to run out.
            self.revoke_lease(hold.lease, None);
            self.released(op, Released::AfterLoss);
            return;
        }
        let no = hold.lease;
        self.leases.schedule(no, Moment::NEVER);
        if let Some(lease) = self.leases.get_mut(no) {
            lease.usage = Use::Ending;
        }
        let body = self.release_body(&hold);
        let locks = u64::try_from(hold.names.len()).unwrap_or(u64::MAX);
        let keep_for = Some(self.lifetime(no));
        let task = Task::Release { lease: no, locks, op };
        self.request(task, Numbering::Lease(no), body, keep_for);
        if let Some(op) = op {
            self.wait_for(op, What::Release);
        }
        // In this order: the next one's acquire must not overtake the release.
        self.flush();
        self.let_next_through(hold.op);
    }

    pub(super) fn release_body(&self, hold: &Hold) -> Body {
        let lease = self.leases.get(hold.lease);
        let under = lease.map_or(Under { id: 0, epoch: 0 }, Lease::under);
        Body::Release(Arc::clone(&hold.names), under, hold.token)
    }

    pub(super) fn release_was_answered(
        &mut self,
        ticket: TicketId,
        no: LeaseNo,
        locks: u64,
        op: Option<OpId>,
        answer: Result<bool, pb::Failure>,
    ) {
        self.finish_ticket(ticket);
        let outcome = match answer {
            Ok(true) => {
                if let Some(lease) = self.leases.get_mut(no) {
                    lease.changes = lease.changes.map(|changes| changes.saturating_add(locks));
                }
                self.keep_idle(no);
                Ok(Released::InTime)
            }
            Err(failure) if is_lease_gone(&failure) => {
                self.drop_lease(no);
                Ok(Released::AfterLoss)
            }
            Err(failure) if !is_not_held(&failure) => {
                self.revoke_lease(no, None);
                Err(rejected(failure))
            }
            Ok(false) | Err(_) => {
                self.revoke_lease(no, None);
                Ok(Released::AfterLoss)
            }
        };
        let Some(op) = op.filter(|&op| self.stop_waiting(op)) else { return };
        self.push(match outcome {
            Ok(released) => Output::Released(op, released),
            Err(error) => Output::Failed(op, error),
        });
    }

    /// Answers a release for which nothing has to be asked.
    fn released(&mut self, op: Option<OpId>, released: Released) {
        if let Some(op) = op {
            self.push(Output::Released(op, released));
        }
    }
}
