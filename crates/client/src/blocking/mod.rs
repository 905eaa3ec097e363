//! The same client for programs without a runtime: every call blocks its thread.
//!
//! ```no_run
//! use fencepost_client::{Client, blocking};
//!
//! # fn main() -> Result<(), fencepost_client::Error> {
//! let builder = Client::builder().endpoint("http://127.0.0.1:7420").name("job-runner");
//! let client = blocking::Client::connect(builder)?;
//! let guard = client.lock("reports/nightly").acquire()?;
//! // ... write with guard.token(), while guard.is_valid() ...
//! guard.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! Guards are renewed by the client's own thread, whatever the calling one does. On a runtime, use
//! the asynchronous client: these calls would block the thread that everybody else needs.

mod block_on;
mod election;
mod lock;
mod tools;
mod watch;

use std::time::Duration;

use crate::builder::Builder;
use crate::error::Error;
use crate::proto;

use block_on::block_on;
pub use election::{Election, Leadership, Observer};
pub use lock::{Guard, LockBuilder};
pub use tools::{Kv, Lease, LeaseBuilder, Snapshot};
pub use watch::Watch;

/// A client whose calls block. See [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
}

impl Client {
    /// Connects, and waits until the service has answered.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    pub fn connect(builder: Builder) -> Result<Client, Error> {
        Ok(Client { inner: block_on(builder.connect())? })
    }

    /// The asynchronous client behind this one.
    pub fn inner(&self) -> &crate::Client {
        &self.inner
    }

    /// As [`crate::Client::name`].
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// As [`crate::Client::lock`].
    pub fn lock(&self, name: impl Into<String>) -> LockBuilder {
        LockBuilder::new(self.inner.lock(name))
    }

    /// As [`crate::Client::locks`].
    pub fn locks<N: Into<String>>(&self, names: impl IntoIterator<Item = N>) -> LockBuilder {
        LockBuilder::new(self.inner.locks(names))
    }

    /// As [`crate::Client::election`].
    pub fn election(&self, name: impl Into<String>) -> Election {
        Election::new(self.inner.election(name))
    }

    /// As [`crate::Client::watch`].
    pub fn watch(&self, key: impl Into<String>) -> Watch {
        Watch::new(self.inner.watch(key))
    }

    /// As [`crate::Client::watch_prefix`].
    pub fn watch_prefix(&self, prefix: impl Into<String>) -> Watch {
        Watch::new(self.inner.watch_prefix(prefix))
    }

    /// As [`crate::Client::lease`].
    pub fn lease(&self, ttl: Duration) -> LeaseBuilder {
        LeaseBuilder::new(self.inner.lease(ttl))
    }

    /// As [`crate::Client::kv`].
    pub fn kv(&self) -> Kv {
        Kv::new(self.inner.kv())
    }

    /// As [`crate::Client::close`].
    pub fn close(self) {
        block_on(self.inner.close());
    }

    /// As [`crate::Client::get_lock`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn get_lock(&self, name: impl Into<String>) -> Result<proto::Lock, Error> {
        block_on(self.inner.get_lock(name))
    }

    /// As [`crate::Client::list_locks`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn list_locks(
        &self,
        prefix: impl Into<String>,
        after: impl Into<String>,
        limit: u32,
    ) -> Result<(Vec<proto::Lock>, bool), Error> {
        block_on(self.inner.list_locks(prefix, after, limit))
    }

    /// As [`crate::Client::explain`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn explain(
        &self,
        name: impl Into<String>,
        lease_id: Option<i64>,
    ) -> Result<Vec<String>, Error> {
        block_on(self.inner.explain(name, lease_id))
    }

    /// As [`crate::Client::force_release`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn force_release(
        &self,
        name: impl Into<String>,
        token: crate::Token,
        reason: impl Into<String>,
        now: bool,
    ) -> Result<crate::Forced, Error> {
        block_on(self.inner.force_release(name, token, reason, now))
    }
}
