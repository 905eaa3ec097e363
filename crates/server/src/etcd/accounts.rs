//! Auth: there are no accounts yet, and every request about one says so.

use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::auth_server::Auth;
use tonic::{Request, Response, Status};

use super::{Answer, EtcdDoor};

fn no_accounts() -> Status {
    Status::unimplemented("fencepost: there are no accounts yet: everybody may do everything")
}

#[tonic::async_trait]
impl Auth for EtcdDoor {
    async fn auth_status(
        &self,
        request: Request<pb::AuthStatusRequest>,
    ) -> Answer<pb::AuthStatusResponse> {
        self.admit(request)?;
        let header = Some(self.header_now());
        Ok(Response::new(pb::AuthStatusResponse { header, enabled: false, auth_revision: 1 }))
    }

    /// It is not enabled, so there is nothing to disable.
    async fn auth_disable(
        &self,
        request: Request<pb::AuthDisableRequest>,
    ) -> Answer<pb::AuthDisableResponse> {
        self.admit(request)?;
        Ok(Response::new(pb::AuthDisableResponse { header: Some(self.header_now()) }))
    }

    async fn authenticate(
        &self,
        _request: Request<pb::AuthenticateRequest>,
    ) -> Answer<pb::AuthenticateResponse> {
        Err(Status::failed_precondition("etcdserver: authentication is not enabled"))
    }

    async fn auth_enable(
        &self,
        _request: Request<pb::AuthEnableRequest>,
    ) -> Answer<pb::AuthEnableResponse> {
        Err(no_accounts())
    }

    async fn user_add(
        &self,
        _request: Request<pb::AuthUserAddRequest>,
    ) -> Answer<pb::AuthUserAddResponse> {
        Err(no_accounts())
    }

    async fn user_get(
        &self,
        _request: Request<pb::AuthUserGetRequest>,
    ) -> Answer<pb::AuthUserGetResponse> {
        Err(no_accounts())
    }

    async fn user_list(
        &self,
        _request: Request<pb::AuthUserListRequest>,
    ) -> Answer<pb::AuthUserListResponse> {
        Err(no_accounts())
    }

    async fn user_delete(
        &self,
        _request: Request<pb::AuthUserDeleteRequest>,
    ) -> Answer<pb::AuthUserDeleteResponse> {
        Err(no_accounts())
    }

    async fn user_change_password(
        &self,
        _request: Request<pb::AuthUserChangePasswordRequest>,
    ) -> Answer<pb::AuthUserChangePasswordResponse> {
        Err(no_accounts())
    }

    async fn user_grant_role(
        &self,
        _request: Request<pb::AuthUserGrantRoleRequest>,
    ) -> Answer<pb::AuthUserGrantRoleResponse> {
        Err(no_accounts())
    }

    async fn user_revoke_role(
        &self,
        _request: Request<pb::AuthUserRevokeRoleRequest>,
    ) -> Answer<pb::AuthUserRevokeRoleResponse> {
        Err(no_accounts())
    }

    async fn role_add(
        &self,
        _request: Request<pb::AuthRoleAddRequest>,
    ) -> Answer<pb::AuthRoleAddResponse> {
        Err(no_accounts())
    }

    async fn role_get(
        &self,
        _request: Request<pb::AuthRoleGetRequest>,
    ) -> Answer<pb::AuthRoleGetResponse> {
        Err(no_accounts())
    }

    async fn role_list(
        &self,
        _request: Request<pb::AuthRoleListRequest>,
    ) -> Answer<pb::AuthRoleListResponse> {
        Err(no_accounts())
    }

    async fn role_delete(
        &self,
        _request: Request<pb::AuthRoleDeleteRequest>,
    ) -> Answer<pb::AuthRoleDeleteResponse> {
        Err(no_accounts())
    }

    async fn role_grant_permission(
        &self,
        _request: Request<pb::AuthRoleGrantPermissionRequest>,
    ) -> Answer<pb::AuthRoleGrantPermissionResponse> {
        Err(no_accounts())
    }

    async fn role_revoke_permission(
        &self,
        _request: Request<pb::AuthRoleRevokePermissionRequest>,
    ) -> Answer<pb::AuthRoleRevokePermissionResponse> {
        Err(no_accounts())
    }
}
