//! Ends an acquire, whether it still waits or was just granted.
//!
//! A client that gave up does not know how far its acquire got. Cancelling by number ends it in
//! every case, also if the cancellation overtakes the acquire.

use alloc::vec::Vec;

use crate::command::{Cancel, CancelTarget};
use crate::event::Cause;
use crate::ids::{Key, LeaseId, Seq, Token};
use crate::mutant::Mutant;
use crate::once::{CANCELLED, check_seq};
use crate::outcome::{Outcome, Reason};
use crate::record::{Contender, Record, contender_key};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn cancel(&mut self, cancel: &Cancel) -> Result<Outcome, Reason> {
        self.live_lease(cancel.lease)?;
        match &cancel.target {
            CancelTarget::Seq(seq) => {
                self.contending_lease(cancel.lease)?;
                self.cancel_seq(cancel.lease.id, *seq)
            }
            CancelTarget::Contender(name, token) => {
                let key = contender_key(name, cancel.lease.id);
                Ok(self.cancel_contender(&key, |record, _| record.token() == *token))
            }
            CancelTarget::Call(name, call) => {
                let key = contender_key(name, cancel.lease.id);
                Ok(self.cancel_contender(&key, |_, contender| contender.call() == Some(*call)))
            }
        }
    }

    fn cancel_contender(
        &mut self,
        key: &Key,
        is_meant: impl Fn(&Record, &Contender) -> bool,
    ) -> Outcome {
        match self.state.contender_record(key) {
            Some((record, contender)) if is_meant(record, contender) => {
                self.remove_with_group(key, Cause::Cancelled);
                Outcome::Ended(Cause::Cancelled)
            }
            _ => Outcome::NotFound,
        }
    }

    fn cancel_seq(&mut self, lease: LeaseId, seq: Seq) -> Result<Outcome, Reason> {
        let window_len_max = self.state.limits.window_len_max;
        let window = &mut self.live_lease(lease.into())?.window;
        check_seq(seq, window.floor, window_len_max)?;
        let Some(answer) = window.get(seq) else {
            return Ok(self.cancel_ahead(lease, seq));
        };
        let (keys, token): (Vec<Key>, Option<Token>) = match &answer.outcome {
            Outcome::Queued(place) | Outcome::Reserved(place) => ([place.key.clone()].into(), None),
            Outcome::Acquired(grant) => ([grant.key.clone()].into(), Some(grant.token)),
            Outcome::AcquiredMany(grant) => (grant.keys.clone(), Some(grant.token)),
            _ => return Ok(Outcome::NotFound),
        };
        Ok(self.cancel_keys(lease, seq, &keys, token))
    }

    /// The acquire has not arrived. When it does, it finds its answer.
    fn cancel_ahead(&mut self, lease: LeaseId, seq: Seq) -> Outcome {
        if !self.state.mutant(Mutant::CancelForgotten)
            && let Some(lease) = self.state.leases.get_mut(&lease)
        {
            let before = lease.window.bytes();
            lease.window.keep(seq, 0, CANCELLED);
            self.state.answer_bytes = self.state.answer_bytes + lease.window.bytes() - before;
        }
        CANCELLED
    }

    fn cancel_keys(
        &mut self,
        lease: LeaseId,
        seq: Seq,
        keys: &[Key],
        token: Option<Token>,
    ) -> Outcome {
        let mut ended = false;
        for key in keys {
            let Some((record, _)) = self.state.contender_record(key) else {
                continue;
            };
            if token.is_none_or(|token| token == record.token()) {
                self.remove_with_group(key, Cause::Cancelled);
                ended = true;
            }
        }
        if !ended {
            return Outcome::NotFound;
        }
        if let Some(lease) = self.state.leases.get_mut(&lease) {
            let before = lease.window.bytes();
            lease.window.amend(seq, &CANCELLED);
            self.state.answer_bytes = self.state.answer_bytes + lease.window.bytes() - before;
        }
        CANCELLED
    }
}
