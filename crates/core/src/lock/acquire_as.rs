//! Acquires by owner name, for protocols without leases.
//!
//! The lock stands on a lease that the state makes for (owner, lock) and that ends with the
//! lock. Weaker than a lease of one's own: whoever knows the owner's name can renew or release.

use crate::command::{AcquireAs, Mode};
use crate::ids::{ClientId, LeaseId, LockName, LogTime, Seq};
use crate::lease::Ending;
use crate::limits::KEY_SUFFIX_LEN_MAX;
use crate::lock::Then;
use crate::lock::acquire::Again;
use crate::outcome::{Outcome, Reason};
use crate::record::contender_key;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn acquire_as(&mut self, acquire: AcquireAs, seq: Seq) -> Result<Outcome, Reason> {
        self.check_recovered()?;
        self.end_dead_ahead(&acquire.name);
        if let Some(lease) = self.owner_lease(&acquire.client, &acquire.name) {
            let key = contender_key(&acquire.name, lease);
            let (ttl, wait, call) = (acquire.ttl, acquire.wait, acquire.terms.call);
            let again = Again { name: &acquire.name, ttl, wait, call };
            return self.enter_again(&again, &key, seq);
        }
        self.check_room(&acquire.name, Mode::Exclusive)?;
        if acquire.wait.is_try()
            && let Some(denial) = self.state.denial(&acquire.name, Mode::Exclusive, &acquire.client)
        {
            return Ok(Outcome::Denied(denial));
        }
        let (value, metadata) = (&acquire.terms.value, &acquire.terms.metadata);
        let key_len = acquire.name.len() + KEY_SUFFIX_LEN_MAX as usize;
        self.state.check_contenders_growth([key_len].into_iter(), value, metadata)?;
        let lease = self.make_sole_lease(&acquire)?;
        let value = acquire.terms.value.clone();
        let contender = self.contender(Mode::Exclusive, acquire.wait, acquire.terms, seq, false);
        let key = contender_key(&acquire.name, lease);
        let name = LockName::prefix_of(&key, acquire.name.len());
        self.stand(name, key.clone(), value, lease, contender, Then::Settle);
        self.settle();
        self.unbind_granted(&key);
        let answer = self.present_answer(&acquire.name, lease);
        Ok(answer.expect("the contender was just created"))
    }

    /// The lease that was made for this owner and lock, if it is alive. One that is due is ended,
    /// and so is one whose wait is over: to its owner it is as gone as to everyone else.
    pub(crate) fn owner_lease(&mut self, client: &ClientId, name: &LockName) -> Option<LeaseId> {
        let lease = *self.state.owners.get(&(client.clone(), name.clone()))?;
        let overdue = self.end_overdue_wait(&contender_key(name, lease));
        if self.state.lease_is_live(lease) && !overdue {
            return Some(lease);
        }
        self.end_lease(lease, Ending::Expired);
        None
    }

    /// A lease that does not run until its lock is granted.
    fn make_sole_lease(&mut self, acquire: &AcquireAs) -> Result<LeaseId, Reason> {
        let last_lease = self.state.last_lease;
        let mut id = self.choose_lease_id();
        // A foreign key may stand where this lease's would.
        while self.state.key_in_queue(&acquire.name, id).is_some() {
            id = self.choose_lease_id();
        }
        if let Err(refused) = self.make_lease(id, acquire.ttl, &acquire.client, None) {
            self.state.last_lease = last_lease;
            return Err(refused);
        }
        let lease = self.state.leases.get_mut(&id).expect("the lease was just made");
        lease.deadline = LogTime::NEVER;
        lease.sole_lock = Some(acquire.name.clone());
        self.state.owners.insert((acquire.client.clone(), acquire.name.clone()), id);
        Ok(id)
    }
}
