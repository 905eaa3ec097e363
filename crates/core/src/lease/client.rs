//! The registry of clients: who they are, where they were heard from, and when.

use alloc::collections::btree_map::Entry;

use crate::ids::{ClientId, LeaseId, LogTime};
use crate::lease::Client;
use crate::outcome::Reason;
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    /// Notes that a client was heard from.
    pub(crate) fn see_client(
        &mut self,
        id: &ClientId,
        address: Option<&ClientId>,
    ) -> Result<&mut Client, Reason> {
        if id.is_empty() {
            return Err(Reason::ClientEmpty);
        }
        let (now, max) = (self.state.now, self.state.limits.clients_max);
        let kept = self.state.limits.client_kept;
        let known = self.state.clients.len();
        let address = address.filter(|address| !address.is_empty());
        if !self.state.clients.contains_key(id) {
            self.state.check_host(address)?;
        }
        let client = match self.state.clients.entry(id.clone()) {
            Entry::Occupied(client) => client.into_mut(),
            Entry::Vacant(_) if known >= max as usize => return Err(Reason::ClientsFull(max)),
            Entry::Vacant(place) => place.insert(Client::default()),
        };
        if client.leases.is_empty() {
            let timer = Timer::Client(id.clone());
            self.state.timers.disarm(client.last_seen.after(kept), timer.clone());
            self.state.timers.arm(now.after(kept), timer);
        }
        client.last_seen = now;
        if let Some(address) = address.filter(|address| **address != client.address) {
            let before = core::mem::replace(&mut client.address, address.clone());
            self.state.leave_host(&before);
            self.state.join_host(address);
        }
        Ok(self.state.clients.get_mut(id).expect("the client was just seen"))
    }

    /// A client with leases is not forgotten.
    pub(crate) fn add_lease_to_client(&mut self, id: &ClientId, lease: LeaseId) {
        let Some(client) = self.state.clients.get_mut(id) else {
            return;
        };
        if client.leases.is_empty() {
            let until = client.last_seen.after(self.state.limits.client_kept);
            self.state.timers.disarm(until, Timer::Client(id.clone()));
        }
        client.leases.insert(lease);
    }

    /// Without leases, a client is forgotten a while after it was last heard from.
    pub(crate) fn take_lease_from_client(
        &mut self,
        id: &ClientId,
        lease: LeaseId,
        renewed_at: LogTime,
    ) {
        let Some(client) = self.state.clients.get_mut(id) else {
            return;
        };
        client.leases.remove(&lease);
        client.last_seen = client.last_seen.max(renewed_at);
        if client.leases.is_empty() {
            let until = client.last_seen.after(self.state.limits.client_kept);
            self.state.timers.arm(until, Timer::Client(id.clone()));
        }
    }

    pub(crate) fn forget_client(&mut self, id: &ClientId) {
        let Some(client) = self.state.clients.remove(id) else { return };
        self.state.answer_bytes -= client.window.bytes();
        self.state.leave_host(&client.address);
    }
}
