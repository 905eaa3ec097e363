//! The client: where everything begins.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::builder::Builder;
use crate::election::Election;
use crate::kv::Kv;
use crate::lease::LeaseBuilder;
use crate::lock::LockBuilder;
use crate::shell::{Order, Shell};
use crate::watch::Watch;

/// A client of the service: one session, shared by all clones.
///
/// Everything that a process does goes over one stream, so one client per process is right for
/// almost everybody. It runs on a thread of its own; the futures that its methods return can be
/// awaited on any runtime.
#[derive(Clone)]
pub struct Client {
    shell: Arc<Shell>,
}

impl Client {
    /// Begins to make a client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(shell: Arc<Shell>) -> Client {
        Client { shell }
    }

    pub(crate) fn shell(&self) -> &Arc<Shell> {
        &self.shell
    }

    /// The name under which the service knows this client.
    pub fn name(&self) -> &str {
        self.shell.client_id()
    }

    /// Begins to acquire a lock. Nothing happens before
    /// [`acquire`](LockBuilder::acquire).
    pub fn lock(&self, name: impl Into<String>) -> LockBuilder {
        LockBuilder::new(Arc::clone(&self.shell), [name.into()].into())
    }

    /// Begins to acquire several locks at once: all of them or none, without any danger that two
    /// clients wait for each other. At most 128.
    pub fn locks<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> LockBuilder {
        let names = names.into_iter().map(Into::into).collect();
        LockBuilder::new(Arc::clone(&self.shell), names)
    }

    /// An election of that name.
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election::new(self.clone(), name.into())
    }

    /// Watches one key.
    pub fn watch(&self, key: impl Into<String>) -> Watch {
        Watch::new(Arc::clone(&self.shell), key.into(), false)
    }

    /// Watches all keys that begin with `prefix`.
    pub fn watch_prefix(&self, prefix: impl Into<String>) -> Watch {
        Watch::new(Arc::clone(&self.shell), prefix.into(), true)
    }

    /// Begins to make a lease for purposes of the user's own. Locks need none: they make theirs.
    pub fn lease(&self, ttl: std::time::Duration) -> LeaseBuilder {
        LeaseBuilder::new(Arc::clone(&self.shell), ttl)
    }

    /// Plain keys.
    pub fn kv(&self) -> Kv {
        Kv::new(Arc::clone(&self.shell))
    }

    /// Ends the session once everything that was given back is confirmed, for at most a second.
    /// Guards that are still there are lost.
    ///
    /// Dropping the last clone does the same without waiting, after the last guard is gone.
    pub async fn close(self) {
        let (sender, receiver) = oneshot::channel();
        self.shell.order(Order::Finish(sender));
        // An error means that it has ended already.
        let _ = receiver.await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("name", &self.name()).finish_non_exhaustive()
    }
}
