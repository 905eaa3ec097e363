//! What happened to a contender, told to the client that it belongs to.

use std::sync::Arc;

use fencepost_core::Event;
use fencepost_core::event::{EventKind, Holding};
use fencepost_node::io::MemberId;

use super::World;
use super::happening::{Happening, ToClient};
use super::network::{End, Route};
use crate::client::ClientNumber;

impl World {
    /// Tells the clients of one member what it has seen. News can be lost.
    pub(super) fn spread_news(&mut self, id: MemberId, events: Vec<Arc<Event>>) {
        for event in events {
            let Some(client) = self.concerns(id, &event) else { continue };
            let listens = |seat: &super::clients::Seat| seat.talks_to == id;
            if !self.seats.get(client.0 as usize).is_some_and(listens) {
                continue;
            }
            let link = (End::Member(id), End::Client(client.0));
            let Route { first, copy } = self.network.route(self.now, link);
            for at in [first, copy].into_iter().flatten() {
                let news = ToClient::News(Arc::clone(&event));
                self.agenda.plan(at, Happening::Client(client, news));
            }
        }
    }

    /// Whose contender an event is about.
    fn concerns(&mut self, id: MemberId, event: &Event) -> Option<ClientNumber> {
        match &event.kind {
            EventKind::Granted(holding)
            | EventKind::Lost(holding)
            | EventKind::ForceAsked { holding, .. } => client_of(holding),
            EventKind::Deleted { prev, ended: Some(_) } => self.owners.get(&prev.lease).copied(),
            EventKind::Put { kv, .. } if !kv.lease.is_none() => {
                // When its key goes, its lease may be gone too: who owned it must be known by then.
                if !self.owners.contains_key(&kv.lease) {
                    let state = self.members.get(&id)?.node()?.machine().state();
                    let owner = number_of(state.lease(kv.lease)?.client.as_str())?;
                    self.owners.insert(kv.lease, owner);
                }
                None
            }
            _ => None,
        }
    }
}

fn client_of(holding: &Holding) -> Option<ClientNumber> {
    number_of(holding.client.as_str())
}

/// Client `n` calls itself `c<n>`.
fn number_of(name: &str) -> Option<ClientNumber> {
    name.strip_prefix('c')?.parse().ok().map(ClientNumber)
}
