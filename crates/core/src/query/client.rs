//! What is known about a client.

use alloc::vec::Vec;
use core::ops::Bound;

use crate::ids::{ClientId, LeaseId, LogTime};
use crate::lease::Client;
use crate::scan::StepBudget;
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
    /// How many leases it has.
    pub leases_total: u64,
    /// The first of them.
    pub leases: Vec<LeaseId>,
}

/// Leases of one client that are looked at. Whether it renewed another one later is not seen.
const LEASES_SEEN_MAX: usize = 4_096;

impl State {
    /// A client, if it is known.
    pub fn client(&self, id: &ClientId) -> Option<ClientInfo> {
        self.clients.get(id).map(|client| self.client_info(id, client))
    }

    /// The clients that are known, in order of names, from `after` on, at most `limit`, and only as
    /// many as the budget allows, but at least one. Whether it has left out some.
    pub fn clients_within(
        &self,
        after: Option<&ClientId>,
        limit: usize,
        budget: &mut StepBudget,
    ) -> (Vec<ClientInfo>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut infos = Vec::new();
        for (id, client) in self.clients.range::<ClientId, _>((from, Bound::Unbounded)) {
            if infos.len() == limit || budget.is_spent() {
                return (infos, true);
            }
            let info = self.client_info(id, client);
            budget.spend_on_answer(1 + info.leases.len(), 0);
            infos.push(info);
        }
        (infos, false)
    }

    fn client_info(&self, id: &ClientId, client: &Client) -> ClientInfo {
        let leases: Vec<LeaseId> = client.leases.iter().copied().take(LEASES_SEEN_MAX).collect();
        let renewals = leases.iter().filter_map(|lease| self.leases.get(lease));
        let renewed = renewals.map(|lease| lease.renewed_at).max().unwrap_or_default();
        ClientInfo {
            id: id.clone(),
            address: client.address.clone(),
            last_seen: client.last_seen.max(renewed),
            leases_total: client.leases.len() as u64,
            leases,
        }
    }
}
