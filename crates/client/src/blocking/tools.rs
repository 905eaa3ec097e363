//! Leases, keys and the cluster, for threads.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;

use super::{Client, block_on};
use crate::cluster::NewMember;
use crate::error::Error;
use crate::limits::LimitsChange;
use crate::proto;
use crate::signing::SigningKeys;

/// A lease that is being described. See [`crate::LeaseBuilder`].
#[derive(Debug)]
#[must_use = "no lease is made until `grant` is called"]
pub struct LeaseBuilder {
    inner: crate::LeaseBuilder,
}

impl LeaseBuilder {
    pub(super) fn new(inner: crate::LeaseBuilder) -> LeaseBuilder {
        LeaseBuilder { inner }
    }

    /// As [`crate::LeaseBuilder::id`].
    pub fn id(self, id: i64) -> LeaseBuilder {
        LeaseBuilder { inner: self.inner.id(id) }
    }

    /// As [`crate::LeaseBuilder::without_keep_alive`].
    pub fn without_keep_alive(self) -> LeaseBuilder {
        LeaseBuilder { inner: self.inner.without_keep_alive() }
    }

    /// As [`crate::LeaseBuilder::grant`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn grant(self) -> Result<Lease, Error> {
        Ok(Lease { inner: block_on(self.inner.grant())? })
    }
}

/// A lease. See [`crate::Lease`].
#[derive(Debug)]
#[must_use = "dropping a lease stops its renewal"]
pub struct Lease {
    inner: crate::Lease,
}

impl Lease {
    /// As [`crate::Lease::renew`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn renew(&self) -> Result<Duration, Error> {
        block_on(self.inner.renew())
    }

    /// As [`crate::Lease::revoke`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn revoke(self) -> Result<u64, Error> {
        block_on(self.inner.revoke())
    }
}

impl Deref for Lease {
    type Target = crate::Lease;

    fn deref(&self) -> &crate::Lease {
        &self.inner
    }
}

/// Plain keys. See [`crate::Kv`].
#[derive(Clone, Debug)]
pub struct Kv {
    inner: crate::Kv,
}

impl Kv {
    pub(super) fn new(inner: crate::Kv) -> Kv {
        Kv { inner }
    }

    /// As [`crate::Kv::put`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn put(&self, key: impl Into<String>, value: impl Into<Bytes>) -> Result<i64, Error> {
        block_on(self.inner.put(key, value))
    }

    /// As [`crate::Kv::put_leased`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn put_leased(
        &self,
        key: impl Into<String>,
        value: impl Into<Bytes>,
        lease: &Lease,
    ) -> Result<i64, Error> {
        block_on(self.inner.put_leased(key, value, &lease.inner))
    }

    /// As [`crate::Kv::get`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn get(&self, key: impl Into<String>) -> Result<Option<proto::KeyVal>, Error> {
        block_on(self.inner.get(key))
    }

    /// As [`crate::Kv::range`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn range(
        &self,
        prefix: impl Into<String>,
        limit: u32,
    ) -> Result<proto::RangeResponse, Error> {
        block_on(self.inner.range(prefix, limit))
    }

    /// As [`crate::Kv::page`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn page(
        &self,
        prefix: impl Into<String>,
        after: impl Into<Bytes>,
        limit: u32,
    ) -> Result<proto::RangeResponse, Error> {
        block_on(self.inner.page(prefix, after, limit))
    }

    /// As [`crate::Kv::delete`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn delete(&self, key: impl Into<String>) -> Result<bool, Error> {
        block_on(self.inner.delete(key))
    }

    /// As [`crate::Kv::delete_prefix`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn delete_prefix(&self, prefix: impl Into<String>) -> Result<u64, Error> {
        block_on(self.inner.delete_prefix(prefix))
    }
}

impl Client {
    /// As [`crate::Client::adopt_lease`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn adopt_lease(&self, id: i64) -> Result<Lease, Error> {
        Ok(Lease { inner: block_on(self.inner().adopt_lease(id))? })
    }

    /// As [`crate::Client::revoke_lease`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn revoke_lease(&self, id: i64) -> Result<u64, Error> {
        block_on(self.inner().revoke_lease(id))
    }

    /// As [`crate::Client::get_lease`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn get_lease(&self, id: i64) -> Result<proto::Lease, Error> {
        block_on(self.inner().get_lease(id))
    }

    /// As [`crate::Client::list_leases`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn list_leases(&self, after: i64, limit: u32) -> Result<(Vec<proto::Lease>, bool), Error> {
        block_on(self.inner().list_leases(after, limit))
    }

    /// As [`crate::Client::status`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn status(&self) -> Result<proto::StatusResponse, Error> {
        block_on(self.inner().status())
    }

    /// As [`crate::Client::members`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn members(&self) -> Result<Vec<proto::Member>, Error> {
        block_on(self.inner().members())
    }

    /// As [`crate::Client::signing_keys`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn signing_keys(&self) -> Result<SigningKeys, Error> {
        block_on(self.inner().signing_keys())
    }

    /// As [`crate::Client::limits`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn limits(&self) -> Result<proto::LimitsResponse, Error> {
        block_on(self.inner().limits())
    }

    /// As [`crate::Client::change_limits`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn change_limits(&self, change: LimitsChange) -> Result<proto::LimitsResponse, Error> {
        block_on(self.inner().change_limits(change))
    }

    /// As [`crate::Client::rotate_signing_key`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn rotate_signing_key(
        &self,
        member: Option<u64>,
        after: Duration,
    ) -> Result<SigningKeys, Error> {
        block_on(self.inner().rotate_signing_key(member, after))
    }

    /// As [`crate::Client::revoke_signing_key`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn revoke_signing_key(&self, kid: impl Into<String>) -> Result<SigningKeys, Error> {
        block_on(self.inner().revoke_signing_key(kid))
    }

    /// As [`crate::Client::add_member`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn add_member(&self, member: NewMember) -> Result<(), Error> {
        block_on(self.inner().add_member(member))
    }

    /// As [`crate::Client::promote_member`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn promote_member(&self, id: u64) -> Result<(), Error> {
        block_on(self.inner().promote_member(id))
    }

    /// As [`crate::Client::remove_member`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn remove_member(&self, id: u64) -> Result<(), Error> {
        block_on(self.inner().remove_member(id))
    }

    /// As [`crate::Client::move_leader`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn move_leader(&self, to: Option<u64>) -> Result<(), Error> {
        block_on(self.inner().move_leader(to))
    }

    /// As [`crate::Client::snapshot`], piece by piece.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(Snapshot { inner: block_on(self.inner().snapshot())? })
    }
}

/// A backup on its way, piece by piece. See [`crate::Snapshot`].
#[derive(Debug)]
#[must_use = "a backup arrives only while it is asked for"]
pub struct Snapshot {
    inner: crate::Snapshot,
}

impl Iterator for Snapshot {
    type Item = Result<Bytes, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.inner.next())
    }
}
