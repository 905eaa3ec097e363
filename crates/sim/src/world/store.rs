//! The store that the locks guard: it takes a write only if no later holder has written.

use std::collections::BTreeMap;

use fencepost_core::{LockName, Token};

use super::World;
use super::happening::{Happening, ToClient};
use crate::bug::WorldBug;
use crate::client::ClientNumber;
use crate::plan::MS;
use crate::seen::Seen;

/// The highest token that has written under each lock.
#[derive(Default)]
pub(crate) struct FencedStore(BTreeMap<LockName, Token>);

impl FencedStore {
    fn take(&mut self, lock: &LockName, token: Token) -> bool {
        let highest = self.0.entry(lock.clone()).or_default();
        let accepted = token >= *highest;
        *highest = token.max(*highest);
        accepted
    }
}

impl World {
    /// A write reaches the store, perhaps long after its writer lost the lock.
    pub(super) fn write_arrives(&mut self, client: ClientNumber, lock: LockName, token: Token) {
        let accepted = self.store.take(&lock, token) || self.has(WorldBug::StoreIgnoresTokens);
        let numbers = [u64::from(client.0), token.0, u64::from(accepted)];
        let what = format_args!("c{} writes {lock} with {}: {accepted}", client.0, token.0);
        self.trace.note(self.now, 60, &numbers, what);
        let name = std::str::from_utf8(&lock).expect("the workload names locks in ASCII");
        let seen = Seen::Wrote { client, lock: name, token, accepted };
        self.watch.tell(self.now, &seen);
        let takes = self.dice.clients.roll(20 * MS);
        let written = ToClient::Written(lock, token, accepted);
        self.plan_in(takes, Happening::Client(client, written));
    }
}
