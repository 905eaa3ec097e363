//! The cluster itself: members, leadership, backups, signing keys.

use std::sync::Arc;

use fencepost_node::io::Change;
use fencepost_proto::v1;
use fencepost_proto::v1::cluster_service_server::ClusterService;
use tonic::Request;

use super::{Answer, Answers, answered, backup, limits, members, signing_keys, status};
use crate::house::House;

/// Members, leadership, backups.
#[derive(Clone)]
pub(crate) struct ClusterDoor(pub(crate) Arc<House>);

#[tonic::async_trait]
impl ClusterService for ClusterDoor {
    type SnapshotStream = Answers<v1::SnapshotChunk>;

    async fn status(&self, _request: Request<v1::StatusRequest>) -> Answer<v1::StatusResponse> {
        answered(&self.0, "status", status::status(&self.0).await)
    }

    async fn members(&self, _request: Request<v1::MembersRequest>) -> Answer<v1::MembersResponse> {
        answered(&self.0, "members", Ok(status::members(&self.0)))
    }

    async fn add_member(
        &self,
        request: Request<v1::AddMemberRequest>,
    ) -> Answer<v1::AddMemberResponse> {
        let change = members::added(request.into_inner());
        let result = members::change(&self.0, change).await;
        let result = result.map(|header| v1::AddMemberResponse { header: Some(header) });
        answered(&self.0, "add_member", result)
    }

    async fn promote(&self, request: Request<v1::PromoteRequest>) -> Answer<v1::PromoteResponse> {
        let change = Change::Promote(request.get_ref().id);
        let result = members::change(&self.0, change).await;
        let result = result.map(|header| v1::PromoteResponse { header: Some(header) });
        answered(&self.0, "promote", result)
    }

    async fn remove_member(
        &self,
        request: Request<v1::RemoveMemberRequest>,
    ) -> Answer<v1::RemoveMemberResponse> {
        let change = Change::Remove(request.get_ref().id);
        let result = members::change(&self.0, change).await;
        let result = result.map(|header| v1::RemoveMemberResponse { header: Some(header) });
        answered(&self.0, "remove_member", result)
    }

    async fn move_leader(
        &self,
        request: Request<v1::MoveLeaderRequest>,
    ) -> Answer<v1::MoveLeaderResponse> {
        let was_forwarded = request.metadata().contains_key(members::FORWARDED);
        let result = members::move_leader(&self.0, request.get_ref().to, was_forwarded).await;
        let result = result.map(|header| v1::MoveLeaderResponse { header: Some(header) });
        answered(&self.0, "move_leader", result)
    }

    async fn limits(&self, _request: Request<v1::LimitsRequest>) -> Answer<v1::LimitsResponse> {
        answered(&self.0, "limits", limits::show(&self.0).await)
    }

    async fn change_limits(
        &self,
        request: Request<v1::ChangeLimitsRequest>,
    ) -> Answer<v1::LimitsResponse> {
        answered(&self.0, "change_limits", limits::change(&self.0, request.get_ref()).await)
    }

    async fn list_signing_keys(
        &self,
        _request: Request<v1::ListSigningKeysRequest>,
    ) -> Answer<v1::ListSigningKeysResponse> {
        answered(&self.0, "list_signing_keys", signing_keys::list(&self.0).await)
    }

    async fn rotate_signing_key(
        &self,
        request: Request<v1::RotateSigningKeyRequest>,
    ) -> Answer<v1::RotateSigningKeyResponse> {
        let result = signing_keys::rotate(&self.0, request.get_ref()).await;
        answered(&self.0, "rotate_signing_key", result)
    }

    async fn revoke_signing_key(
        &self,
        request: Request<v1::RevokeSigningKeyRequest>,
    ) -> Answer<v1::RevokeSigningKeyResponse> {
        let result = signing_keys::revoke(&self.0, request.get_ref()).await;
        answered(&self.0, "revoke_signing_key", result)
    }

    async fn snapshot(
        &self,
        request: Request<v1::SnapshotRequest>,
    ) -> Answer<Self::SnapshotStream> {
        // A member that follows may not have applied yet what was answered elsewhere.
        let is_stale = request.get_ref().stale;
        let header = self.0.ask(is_stale, |_| ()).await.map(|(header, ())| header);
        let chunks = header.and_then(|header| backup::serve(&self.0, header));
        answered(&self.0, "snapshot", chunks)
    }
}
