//! The keys with which members sign fencing tokens.

use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::cluster_service_client::ClusterServiceClient;

use crate::client::Client;
use crate::core::wire_ms;
use crate::error::Error;

/// The signing keys of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SigningKeys {
    /// All that are known, also those that were retired or revoked.
    pub keys: Vec<pb::SigningKey>,
    /// The members that were asked for a new key and have not made it yet.
    pub pending: Vec<u64>,
}

impl Client {
    /// The keys with which members sign.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn signing_keys(&self) -> Result<SigningKeys, Error> {
        let answer = self.shell().unary(true, |channel| async move {
            let request = pb::ListSigningKeysRequest {};
            ClusterServiceClient::new(channel).list_signing_keys(request).await
        });
        let pb::ListSigningKeysResponse { keys, pending, .. } = answer.await?;
        Ok(SigningKeys { keys, pending })
    }

    /// Asks a member, or every one, for a new key. It is published at once, and signs after so long:
    /// by then whoever verifies has heard of it.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if there is no such member; [`Error::Indeterminate`] if there was no
    /// answer.
    pub async fn rotate_signing_key(
        &self,
        member: Option<u64>,
        after: Duration,
    ) -> Result<SigningKeys, Error> {
        let member_id = member.unwrap_or_default();
        let request = pb::RotateSigningKeyRequest { member_id, after_ms: wire_ms(after) };
        let answer = self.shell().unary(false, move |channel| async move {
            ClusterServiceClient::new(channel).rotate_signing_key(request).await
        });
        let pb::RotateSigningKeyResponse { keys, pending, .. } = answer.await?;
        Ok(SigningKeys { keys, pending })
    }

    /// Lets a key be believed no longer, whatever it has signed. Its member makes a new one.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if there is no such key.
    pub async fn revoke_signing_key(&self, kid: impl Into<String>) -> Result<SigningKeys, Error> {
        let request = pb::RevokeSigningKeyRequest { kid: kid.into() };
        // Repeating it does no harm.
        let answer = self.shell().unary(true, move |channel| {
            let request = request.clone();
            async move { ClusterServiceClient::new(channel).revoke_signing_key(request).await }
        });
        let pb::RevokeSigningKeyResponse { keys, pending, .. } = answer.await?;
        Ok(SigningKeys { keys, pending })
    }
}
