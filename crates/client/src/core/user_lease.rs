//! Leases that users make for purposes of their own.

use super::Session;
use super::call::What;
use super::io::{AdoptedLease, LeaseMade, LeaseNo, LeaseSpec, OpId, Output};
use super::lease::Use;
use super::requests::TicketId;
use super::time::Moment;
use crate::error::Error;

use fencepost_proto::v1 as pb;

use super::end_acquire::{is_lease_gone, rejected};

impl Session {
    pub(super) fn grant_user_lease(&mut self, op: OpId, spec: LeaseSpec) {
        let no = self.new_lease(spec.ttl, Use::User { keep_alive: spec.keep_alive });
        self.wait_for(op, What::Grant(no));
        self.grant_lease(no, spec.id, spec.revoke_on_disconnect);
    }

    /// The service has made a user's lease.
    pub(super) fn user_lease_is_made(&mut self, no: LeaseNo) {
        let Some(lease) = self.leases.get(no) else { return };
        let (id, epoch, ttl, until) = (lease.id, lease.epoch, lease.ttl, lease.alive_until);
        for op in self.take_waiting(What::Grant(no)) {
            self.push(Output::LeaseMade(op, LeaseMade { no, id, epoch, ttl, until }));
        }
    }

    /// Takes over a lease that exists. It may be believed in once it was renewed.
    pub(super) fn adopt_lease(&mut self, op: OpId, adopted: AdoptedLease) {
        let no = self.new_lease(adopted.ttl, Use::User { keep_alive: adopted.keep_alive });
        self.leases.adopt(no, &adopted, self.renewals.next_number());
        let made = LeaseMade {
            no,
            id: adopted.id,
            epoch: adopted.epoch,
            ttl: adopted.ttl,
            until: self.now,
        };
        if adopted.keep_alive {
            self.schedule_renewal(no, self.now);
        }
        self.push(Output::LeaseMade(op, made));
    }

    pub(super) fn renew_user_lease(&mut self, op: OpId, no: LeaseNo) {
        if self.leases.get(no).is_none() {
            self.push(Output::Failed(op, gone()));
            return;
        }
        self.wait_for(op, What::Renew(no));
        self.send_renewals(&[no]);
    }

    /// On a new connection: renewals that somebody waits for are sent again.
    pub(super) fn renew_for_users(&mut self) {
        let waiting = self.asked.keys_where(|asked| matches!(asked.what, What::Renew(_)));
        let lease = |op| match self.asked.get(op).map(|asked| asked.what) {
            Some(What::Renew(no)) => Some(no),
            _ => None,
        };
        let leases: Vec<LeaseNo> = waiting.iter().filter_map(lease).collect();
        if !leases.is_empty() {
            self.send_renewals(&leases);
        }
    }

    pub(super) fn keep_alive(&mut self, no: LeaseNo, keep_alive: bool) {
        let Some(lease) = self.leases.get_mut(no) else { return };
        lease.usage = Use::User { keep_alive };
        let at = lease.confirmed.after(lease.interval).max(self.now);
        self.schedule_renewal(no, if keep_alive { at } else { Moment::NEVER });
    }

    pub(super) fn revoke_user_lease(&mut self, op: OpId, no: LeaseNo) {
        if self.leases.get(no).is_none() {
            self.push(Output::Failed(op, gone()));
            return;
        }
        self.wait_for(op, What::Revoke(no));
        self.revoke_lease(no, Some(op));
    }

    pub(super) fn forget_user_lease(&mut self, no: LeaseNo) {
        let is_users =
            self.leases.get(no).is_some_and(|lease| matches!(lease.usage, Use::User { .. }));
        if is_users {
            self.drop_lease(no);
        }
    }

    pub(super) fn revoke_was_answered(
        &mut self,
        ticket: TicketId,
        no: LeaseNo,
        op: Option<OpId>,
        answer: Result<u64, pb::Failure>,
    ) {
        self.finish_ticket(ticket);
        self.drop_lease(no);
        let Some(op) = op.filter(|&op| self.stop_waiting(op)) else { return };
        self.push(match answer {
            Ok(keys) => Output::LeaseRevoked(op, keys),
            Err(failure) if is_lease_gone(&failure) => Output::Failed(op, gone()),
            Err(failure) => Output::Failed(op, rejected(failure)),
        });
    }

    /// The service refuses to make a lease.
    pub(super) fn grant_was_refused(
        &mut self,
        ticket: TicketId,
        no: LeaseNo,
        failure: pb::Failure,
    ) {
        self.finish_ticket(ticket);
        let usage = self.leases.get(no).map(|lease| lease.usage);
        self.fail_waiting(What::Grant(no), &rejected(failure.clone()));
        match usage {
            Some(Use::Attempt(op)) => self.end_attempt(op, rejected(failure), false),
            _ => self.drop_lease(no),
        }
    }

    pub(super) fn take_waiting_for_renewal(&mut self, no: LeaseNo) -> Vec<OpId> {
        self.take_waiting(What::Renew(no))
    }

    /// A user's lease has ended: whoever waits for something of it is told.
    pub(super) fn fail_waiting_for_lease(&mut self, no: LeaseNo) {
        self.fail_waiting(What::Renew(no), &gone());
    }

    fn fail_waiting(&mut self, what: What, error: &Error) {
        for op in self.take_waiting(what) {
            self.push(Output::Failed(op, error.clone()));
        }
    }

    fn take_waiting(&mut self, what: What) -> Vec<OpId> {
        let waiting = self.asked.keys_where(|asked| asked.what == what);
        for &op in &waiting {
            self.stop_waiting(op);
        }
        waiting
    }
}

fn gone() -> Error {
    Error::LeaseLost { message: "it has ended".to_owned() }
}
