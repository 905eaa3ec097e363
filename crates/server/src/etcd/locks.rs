//! Lock and Unlock: the recipe of a mutex, followed by the server.

use bytes::Bytes;
use fencepost_core::command::{Acquire, Action, DeleteRange, LeaseRef};
use fencepost_core::range::KeyRange;
use fencepost_core::{Key, LeaseId, LockName, Millis, Value};
use fencepost_proto::etcd::v3lockpb as pb;
use fencepost_proto::etcd::v3lockpb::lock_server::Lock;
use tonic::{Request, Response};

use super::leases::{client, peer};
use super::{Answer, EtcdDoor, header, refuse};
use crate::error::{Failure, Wrong};
use crate::grpc::{Peer, lock};
use crate::parse::contender_key;

/// The lease of a caller that brings none. Nobody renews it.
const OWN_TTL: Millis = Millis(60_000);

#[tonic::async_trait]
impl Lock for EtcdDoor {
    async fn lock(&self, request: Request<pb::LockRequest>) -> Answer<pb::LockResponse> {
        let peer = peer(&request);
        let pb::LockRequest { name, lease } = self.admit(request)?;
        let held = async {
            let lease = self.lease_or_own(lease, peer).await?;
            let acquired = self.stand(&name, lease, Value::default()).await?;
            let key = Bytes::copy_from_slice(&contender_key(&LockName::from(&*name), lease));
            Ok(pb::LockResponse { header: acquired.map(header), key })
        };
        self.answer_recipe("etcd_lock", held.await)
    }

    async fn unlock(&self, request: Request<pb::UnlockRequest>) -> Answer<pb::UnlockResponse> {
        let key = self.admit(request)?.key;
        let range = KeyRange::One(Key::from(&*key));
        let remove = Action::DeleteRange(DeleteRange { range, prev: false });
        let removed = self.0.act_in_company(remove).await;
        let removed = removed.map(|(head, _)| pb::UnlockResponse { header: Some(header(head)) });
        self.answer_recipe("etcd_unlock", removed)
    }
}

impl EtcdDoor {
    pub(super) fn answer_recipe<T>(
        &self,
        kind: &'static str,
        result: Result<T, Failure>,
    ) -> Answer<T> {
        let code = result.as_ref().map_or_else(|failure| failure.code, |_| "ok");
        self.0.metrics.request(kind, code);
        result.map(Response::new).map_err(|failure| refuse::of_recipe(&failure))
    }

    pub(super) async fn lease_or_own(
        &self,
        lease: i64,
        peer: Option<Peer>,
    ) -> Result<LeaseId, Failure> {
        match lease {
            0 => Ok(self.make_lease(LeaseId(0), OWN_TTL, client(peer)).await?.1),
            lease => Ok(LeaseId(lease)),
        }
    }

    /// Waits in the queue until the lock is held. If the caller goes away meanwhile, so does its
    /// place.
    pub(super) async fn stand(
        &self,
        name: &[u8],
        lease: LeaseId,
        value: Value,
    ) -> Result<Option<fencepost_proto::v1::Header>, Failure> {
        let mut acquire = Acquire {
            name: LockName::from(name),
            lease: LeaseRef::from(lease),
            ..Acquire::default()
        };
        acquire.terms.value = value;
        let held = lock::begin(&self.0, acquire).await?;
        if !held.acquired {
            return Err(Wrong::WaitEnded(None).into());
        }
        Ok(held.header)
    }
}
