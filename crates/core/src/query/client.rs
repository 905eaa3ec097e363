//! What is known about a client.

use alloc::vec::Vec;

use crate::ids::{ClientId, LeaseId, LogTime};
use crate::state::State;

/// A client as users see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientInfo {
    /// Its name.
    pub id: ClientId,
    /// Where it was last heard from.
    pub address: ClientId,
    /// When it was last heard from.
    pub last_seen: LogTime,
    /// Its leases.
    pub leases: Vec<LeaseId>,
}

impl State {
    /// A client, if it is known.
    pub fn client(&self, id: &ClientId) -> Option<ClientInfo> {
        let client = self.clients.get(id)?;
        let renewals = client.leases.iter().filter_map(|lease| self.leases.get(lease));
        let renewed = renewals.map(|lease| lease.renewed_at).max().unwrap_or_default();
        Some(ClientInfo {
            id: id.clone(),
            address: client.address.clone(),
            last_seen: client.last_seen.max(renewed),
            leases: client.leases.iter().copied().collect(),
        })
    }
}
