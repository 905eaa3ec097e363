//! Looking at the clients that the service remembers, and forgetting locks.

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::lock_service_client::LockServiceClient;

use crate::client::Client;
use crate::error::Error;
use crate::kv::wrong;

impl Client {
    /// One client: where and when it was last heard from, and its leases.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if no such client is remembered.
    pub async fn get_client(
        &self,
        client_id: impl Into<String>,
    ) -> Result<pb::ClientRecord, Error> {
        let request = pb::GetClientRequest { client_id: client_id.into() };
        let answer = self.shell().unary(true, move |channel| {
            let request = request.clone();
            async move { LockServiceClient::new(channel).get_client(request).await }
        });
        answer.await?.client.ok_or_else(wrong)
    }

    /// The clients whose names come after `after`, at most `limit` of them, and whether there are more.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn list_clients(
        &self,
        after: impl Into<String>,
        limit: u32,
    ) -> Result<(Vec<pb::ClientRecord>, bool), Error> {
        let request = pb::ListClientsRequest { after: after.into(), limit };
        let answer = self.shell().unary(true, move |channel| {
            let request = request.clone();
            async move { LockServiceClient::new(channel).list_clients(request).await }
        });
        let answer = answer.await?;
        Ok((answer.clients, answer.more))
    }

    /// Forgets a free lock without waiters.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if it is held or waited for.
    pub async fn delete_lock(&self, name: impl Into<String>) -> Result<(), Error> {
        let request = pb::DeleteLockRequest { name: name.into() };
        let answer = self.shell().unary(false, move |channel| {
            let request = request.clone();
            async move { LockServiceClient::new(channel).delete_lock(request).await }
        });
        answer.await.map(drop)
    }
}
