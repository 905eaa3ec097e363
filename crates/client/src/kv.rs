//! Plain keys.

mod held;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

pub use self::held::HeldPut;
use crate::core::{Call, Input};
use crate::error::Error;
use crate::lease::Lease;
use crate::shell::{Reply, Shell};

/// Reads and writes plain keys. See [`Client::kv`](crate::Client::kv).
#[derive(Clone)]
pub struct Kv {
    shell: Arc<Shell>,
}

impl Kv {
    pub(crate) fn new(shell: Arc<Shell>) -> Kv {
        Kv { shell }
    }

    /// Writes a key. Returns the revision of the write.
    ///
    /// # Errors
    ///
    /// [`Error::Indeterminate`] if the answer did not come: it may have been written.
    pub async fn put(&self, key: impl Into<String>, value: impl Into<Bytes>) -> Result<i64, Error> {
        let (key, value) = (key.into(), value.into());
        self.put_as(pb::PutRequest { key, value, ..Default::default() }).await
    }

    /// Writes a key that goes away with `lease`. Returns the revision of the write.
    ///
    /// # Errors
    ///
    /// As [`put`](Kv::put), and [`Error::Rejected`] if the lease has ended.
    pub async fn put_leased(
        &self,
        key: impl Into<String>,
        value: impl Into<Bytes>,
        lease: &Lease,
    ) -> Result<i64, Error> {
        let (key, value) = (key.into(), value.into());
        let request = pb::PutRequest { key, value, lease_id: lease.id(), ..Default::default() };
        self.put_as(request).await
    }

    /// Writes a key, as the request says it. Returns the revision of the write.
    ///
    /// # Errors
    ///
    /// As [`put`](Kv::put), and [`Error::Rejected`] if the lease has ended.
    pub async fn put_as(&self, request: pb::PutRequest) -> Result<i64, Error> {
        let answer = call(&self.shell, Request::Put(request), false).await?;
        match answer.response {
            Some(Response::Put(_)) => Ok(answer.header.map_or(0, |header| header.revision)),
            _ => Err(wrong()),
        }
    }

    /// Reads one key.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn get(&self, key: impl Into<String>) -> Result<Option<pb::KeyVal>, Error> {
        let request = pb::RangeRequest { key: key.into(), ..Default::default() };
        Ok(self.range_as(request).await?.kvs.into_iter().next())
    }

    /// Reads the keys that begin with `prefix`, at most `limit` of them; zero for all.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn range(
        &self,
        prefix: impl Into<String>,
        limit: u32,
    ) -> Result<pb::RangeResponse, Error> {
        let key = prefix.into();
        self.range_as(pb::RangeRequest { key, prefix: true, limit, ..Default::default() }).await
    }

    /// Reads one page of the keys that begin with `prefix`: at most `limit`, or as many as a message
    /// carries if that is zero, behind the key `after` (of the last page's last key; empty for the
    /// first page). A page costs the service what it brings, wherever it lies.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn page(
        &self,
        prefix: impl Into<String>,
        after: impl Into<Bytes>,
        limit: u32,
    ) -> Result<pb::RangeResponse, Error> {
        let (key, after) = (prefix.into(), after.into());
        let prefix = true;
        self.range_as(pb::RangeRequest { key, prefix, after, limit, ..Default::default() }).await
    }

    /// Reads keys, as the request says it.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn range_as(&self, request: pb::RangeRequest) -> Result<pb::RangeResponse, Error> {
        let mut answer = call(&self.shell, Request::Range(request), true).await?;
        match answer.response.take() {
            Some(Response::Range(mut range)) => {
                range.header = range.header.or(answer.header);
                Ok(range)
            }
            _ => Err(wrong()),
        }
    }

    /// Removes one key. Returns whether it was there.
    ///
    /// # Errors
    ///
    /// [`Error::Indeterminate`] if the answer did not come: it may have been removed.
    pub async fn delete(&self, key: impl Into<String>) -> Result<bool, Error> {
        let request = pb::DeleteRangeRequest { key: key.into(), ..Default::default() };
        Ok(self.delete_as(request).await?.deleted > 0)
    }

    /// Removes the keys that begin with `prefix`. Returns how many there were.
    ///
    /// # Errors
    ///
    /// As [`delete`](Kv::delete).
    pub async fn delete_prefix(&self, prefix: impl Into<String>) -> Result<u64, Error> {
        let key = prefix.into();
        let request = pb::DeleteRangeRequest { key, prefix: true, ..Default::default() };
        Ok(self.delete_as(request).await?.deleted)
    }

    async fn delete_as(
        &self,
        request: pb::DeleteRangeRequest,
    ) -> Result<pb::DeleteRangeResponse, Error> {
        let answer = call(&self.shell, Request::DeleteRange(request), false).await?;
        match answer.response {
            Some(Response::Deleted(deleted)) => Ok(deleted),
            _ => Err(wrong()),
        }
    }
}

/// A request over the session that is answered once.
pub(crate) async fn call(
    shell: &Shell,
    request: Request,
    repeatable: bool,
) -> Result<pb::SessionResponse, Error> {
    let op = shell.next_op();
    let input = Input::Call(op, Box::new(Call { request, repeatable }));
    Ok(*shell.ask(op, input, Reply::Answered).await?)
}

pub(crate) fn wrong() -> Error {
    Error::protocol("an answer of the wrong kind")
}

impl fmt::Debug for Kv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kv").finish_non_exhaustive()
    }
}
