//! Is it still held? Asked when a lease's places have changed in a way that nobody told of.

use std::sync::Arc;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use super::Session;
use super::io::{HoldId, Loss};
use super::requests::{Numbering, Task, TicketId};

impl Session {
    /// The lease's places have changed, and the session does not know why.
    pub(super) fn doubt(&mut self, id: HoldId, changes: u64) {
        let Some(hold) = self.holds.get_mut(&id) else { return };
        if hold.doubt.is_some() {
            return;
        }
        hold.doubt = Some((changes, hold.names.len()));
        let (no, names) = (hold.lease, Arc::clone(&hold.names));
        let keep_for = Some(self.lifetime(no));
        let lease_id = self.leases.get(no).map_or(0, |lease| lease.id);
        for (at, name) in names.iter().cloned().enumerate() {
            // Of a lock that very many share, only this one's part.
            let get = pb::GetLockRequest { name, waiters_max: 0, stale: false, lease_id };
            let body = Request::GetLock(get).into();
            self.request(Task::Verify(id, at), Numbering::None, body, keep_for);
        }
    }

    /// It could not be found out in all the time that the lease could live. The requests of one doubt
    /// are given up together, so no late answer counts for the next one, which the next renewal
    /// raises.
    pub(super) fn verify_was_given_up(&mut self, id: HoldId) {
        if let Some(hold) = self.holds.get_mut(&id) {
            hold.doubt = None;
        }
    }

    /// One of the locks was looked at.
    pub(super) fn verify_was_answered(
        &mut self,
        id: HoldId,
        at: usize,
        ticket: TicketId,
        lock: Option<&pb::Lock>,
    ) {
        self.finish_ticket(ticket);
        let Some(hold) = self.holds.get_mut(&id).filter(|hold| !hold.is_lost) else { return };
        let Some((changes, left)) = hold.doubt else { return };
        let Some(lease) = self.leases.get(hold.lease) else { return };
        let is_right = |lock: &&pb::Lock| hold.names.get(at) == Some(&lock.name);
        let holders = lock.filter(is_right).map_or(&[][..], |lock| &lock.holders);
        let own =
            holders.iter().find(|one| one.lease_id == lease.id && one.fencing_token == hold.token);
        match own {
            None => self.lose(id, Loss::Taken { cause: "not held any more".to_owned() }),
            Some(one) if one.until_ms > 0 => {
                self.lose(id, Loss::Asked { reason: "an operator asks for the lock".to_owned() });
            }
            Some(_) if left > 1 => hold.doubt = Some((changes, left - 1)),
            Some(_) => {
                hold.doubt = None;
                let no = hold.lease;
                if let Some(lease) = self.leases.get_mut(no) {
                    lease.changes = Some(changes);
                    lease.settled_number = self.renewals.next_number();
                }
                // The renewal that raised the doubt has extended nothing. The next one will.
                self.send_renewals(&[no]);
            }
        }
    }
}
