//! Makes a lease.

use crate::command::LeaseGrant;
use crate::ids::{ClientId, Epoch, LeaseId, Millis};
use crate::lease::{Ending, KeySet, Lease};
use crate::once::Window;
use crate::outcome::{Granted, Outcome, Reason};
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    pub(crate) fn lease_grant(&mut self, grant: LeaseGrant) -> Result<Outcome, Reason> {
        let id = self.make_lease(grant.id, grant.ttl, &grant.client, Some(&grant.address))?;
        let lease = self.state.leases.get_mut(&id).expect("the lease was just made");
        lease.revoke_grace = grant.revoke_on_disconnect;
        self.state.timers.arm(lease.deadline, Timer::Lease(id));
        Ok(Outcome::LeaseGranted(Granted { id, ttl: lease.ttl, epoch: lease.epoch }))
    }

    /// Makes a lease and enters it in the registry of clients. Its timer is not armed yet.
    pub(crate) fn make_lease(
        &mut self,
        asked: LeaseId,
        ttl: Millis,
        client: &ClientId,
        address: Option<&ClientId>,
    ) -> Result<LeaseId, Reason> {
        self.check_recovered()?;
        if self.state.lease_is_live(asked) {
            return Err(Reason::LeaseExists(asked));
        }
        let max = self.state.limits.leases_max;
        if self.state.leases.len() >= max as usize {
            return Err(Reason::LeasesFull(max));
        }
        self.state.check_lease_growth(client)?;
        if !client.is_empty() {
            self.see_client(client, address)?;
        }
        // One that is due may still be there under this id, with its keys.
        self.end_lease(asked, Ending::Expired);
        if !asked.is_none() && self.state.leases.contains_key(&asked) {
            return Err(Reason::LeaseExists(asked));
        }
        let id = if asked.is_none() { self.choose_lease_id() } else { asked };
        self.add_lease_to_client(client, id);
        self.state.last_epoch += 1;
        self.state.work.leases_granted += 1;
        let now = self.state.now;
        self.state.leases.insert(
            id,
            Lease {
                ttl,
                granted_ttl: ttl,
                deadline: now.after(ttl),
                epoch: Epoch(self.state.last_epoch),
                client: client.clone(),
                renewed_at: now,
                renewal: 0,
                changes: 0,
                spent: false,
                revoke_grace: None,
                revoke_at: None,
                sole_lock: None,
                window: Window::default(),
                keys: KeySet::default(),
            },
        );
        Ok(id)
    }

    /// After a restore, clients of the lost cluster may still hold what nobody remembers.
    pub(crate) fn check_recovered(&self) -> Result<(), Reason> {
        match self.state.recovering_until {
            until if until > self.state.now => Err(Reason::Recovering(until)),
            _ => Ok(()),
        }
    }

    /// The next free id, always positive: clients print it in hex.
    pub(crate) fn choose_lease_id(&mut self) -> LeaseId {
        loop {
            self.state.last_lease = self.state.last_lease.checked_add(1).unwrap_or(1);
            let id = LeaseId(self.state.last_lease);
            if !self.state.leases.contains_key(&id) {
                return id;
            }
        }
    }
}
