//! The gRPC door, package `fencepost.v1`: one file per verb that has more to do than to ask and
//! answer.

mod backup;
pub(crate) mod clients;
mod cluster;
mod keep_alive;
pub(crate) mod keys;
pub(crate) mod leases;
mod limits;
pub(crate) mod lock;
pub(crate) mod locks;
pub(crate) mod members;
mod session;
mod signing_keys;
pub(crate) mod status;
mod text;
mod watch;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use fencepost_core::ClientId;
use fencepost_proto::v1;
use fencepost_proto::v1::lock_service_server::LockService;
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

pub(crate) use cluster::ClusterDoor;
pub(crate) use status::members_of;

use crate::arrival::Arrival;
use crate::error::Failure;
use crate::house::House;

/// A stream of answers.
pub(crate) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What a call is answered with.
type Answer<T> = Result<Response<T>, Status>;

/// Where a request comes from. The server puts it beside every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

fn address<T>(request: &Request<T>) -> ClientId {
    let peer = request.extensions().get::<Peer>();
    peer.map(|peer| ClientId::from(&*peer.0.to_string())).unwrap_or_default()
}

/// Locks, leases and watches.
#[derive(Clone)]
pub(crate) struct LockDoor(pub(crate) Arc<House>);

/// Counts a call, and gives a failure the form that gRPC has for it.
pub(crate) fn answered<T>(
    house: &House,
    kind: &'static str,
    result: Result<T, Failure>,
) -> Answer<T> {
    house.metrics.request(kind, result.as_ref().map_or_else(|failure| failure.code, |_| "ok"));
    Ok(Response::new(result?))
}

#[tonic::async_trait]
impl LockService for LockDoor {
    type LeaseKeepAliveStream = Answers<v1::LeaseKeepAliveResponse>;
    type WatchStream = Answers<v1::WatchResponse>;
    type SessionStream = Answers<v1::SessionResponse>;

    async fn lock(&self, request: Request<v1::LockRequest>) -> Answer<v1::LockResponse> {
        answered(&self.0, "lock", lock::lock(&self.0, request.get_ref()).await)
    }

    async fn try_lock(&self, request: Request<v1::TryLockRequest>) -> Answer<v1::TryLockResponse> {
        answered(&self.0, "try_lock", lock::try_lock(&self.0, request.get_ref()).await)
    }

    async fn unlock(&self, request: Request<v1::UnlockRequest>) -> Answer<v1::UnlockResponse> {
        answered(&self.0, "unlock", locks::unlock(&self.0, request.get_ref()).await)
    }

    async fn lease_grant(
        &self,
        request: Request<v1::LeaseGrantRequest>,
    ) -> Answer<v1::LeaseGrantResponse> {
        let address = address(&request);
        let result = leases::grant(&self.0, request.get_ref(), address).await;
        answered(&self.0, "lease_grant", result)
    }

    async fn lease_revoke(
        &self,
        request: Request<v1::LeaseRevokeRequest>,
    ) -> Answer<v1::LeaseRevokeResponse> {
        answered(&self.0, "lease_revoke", leases::revoke(&self.0, request.get_ref()).await)
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<v1::LeaseKeepAliveRequest>>,
    ) -> Answer<Self::LeaseKeepAliveStream> {
        let address = address(&request);
        Ok(Response::new(keep_alive::serve(&self.0, address, request.into_inner())))
    }

    async fn watch(
        &self,
        request: Request<Streaming<v1::WatchRequest>>,
    ) -> Answer<Self::WatchStream> {
        let address = address(&request);
        Ok(Response::new(watch::serve(&self.0, address, request.into_inner())))
    }

    async fn session(
        &self,
        request: Request<Streaming<v1::SessionRequest>>,
    ) -> Answer<Self::SessionStream> {
        let address = address(&request);
        Ok(Response::new(session::serve(&self.0, address, request.into_inner())))
    }

    async fn get_lock(&self, request: Request<v1::GetLockRequest>) -> Answer<v1::GetLockResponse> {
        answered(&self.0, "get_lock", locks::get(&self.0, request.get_ref()).await)
    }

    async fn list_locks(
        &self,
        request: Request<v1::ListLocksRequest>,
    ) -> Answer<v1::ListLocksResponse> {
        answered(&self.0, "list_locks", locks::list(&self.0, request.get_ref()).await)
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Answer<v1::ExplainResponse> {
        answered(&self.0, "explain", locks::explain(&self.0, request.get_ref()).await)
    }

    async fn force_release(
        &self,
        request: Request<v1::ForceReleaseRequest>,
    ) -> Answer<v1::ForceReleaseResponse> {
        let address = address(&request);
        let result = locks::force_release(&self.0, request.get_ref(), &address).await;
        answered(&self.0, "force_release", result)
    }

    async fn delete_lock(
        &self,
        request: Request<v1::DeleteLockRequest>,
    ) -> Answer<v1::DeleteLockResponse> {
        answered(&self.0, "delete_lock", locks::delete(&self.0, request.get_ref()).await)
    }

    async fn get_client(
        &self,
        request: Request<v1::GetClientRequest>,
    ) -> Answer<v1::GetClientResponse> {
        answered(&self.0, "get_client", clients::get(&self.0, request.get_ref()).await)
    }

    async fn list_clients(
        &self,
        request: Request<v1::ListClientsRequest>,
    ) -> Answer<v1::ListClientsResponse> {
        answered(&self.0, "list_clients", clients::list(&self.0, request.get_ref()).await)
    }

    async fn get_lease(
        &self,
        request: Request<v1::GetLeaseRequest>,
    ) -> Answer<v1::GetLeaseResponse> {
        answered(&self.0, "get_lease", leases::get(&self.0, request.get_ref()).await)
    }

    async fn list_leases(
        &self,
        request: Request<v1::ListLeasesRequest>,
    ) -> Answer<v1::ListLeasesResponse> {
        answered(&self.0, "list_leases", leases::list(&self.0, request.get_ref()).await)
    }

    async fn put(&self, request: Request<v1::PutRequest>) -> Answer<v1::PutResponse> {
        answered(&self.0, "put", keys::put(&self.0, request.get_ref()).await)
    }

    async fn range(&self, request: Request<v1::RangeRequest>) -> Answer<v1::RangeResponse> {
        answered(&self.0, "range", keys::range(&self.0, request.get_ref()).await)
    }

    async fn delete_range(
        &self,
        request: Request<v1::DeleteRangeRequest>,
    ) -> Answer<v1::DeleteRangeResponse> {
        answered(&self.0, "delete_range", keys::delete_range(&self.0, request.get_ref()).await)
    }

    async fn text_command(
        &self,
        request: Request<v1::TextCommandRequest>,
    ) -> Answer<v1::TextCommandResponse> {
        let arrival = request.extensions().get::<Arrival>();
        let result = text::command(&self.0, request.get_ref(), arrival).await;
        answered(&self.0, "text_command", result)
    }
}
