//! What the cluster allows, and what it uses of it.

use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::cluster_service_client::ClusterServiceClient;

use crate::client::Client;
use crate::core::wire_ms;
use crate::error::Error;

/// What to change. What is not set stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitsChange {
    /// What the state may take.
    pub quota: Option<QuotaSetting>,
    /// The longest lease.
    pub ttl_max: Option<Duration>,
    /// Leases that one client may have.
    pub leases_per_client_max: Option<u32>,
    /// Clients that may come from one address.
    pub clients_per_address_max: Option<u32>,
    /// Clear the alarm that a key was refused for want of space.
    pub clear_no_space: bool,
}

/// What the state may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaSetting {
    /// Leaders fit it to the memory of the smallest voter.
    Auto,
    /// So many bytes.
    Bytes(u64),
}

impl Client {
    /// What the cluster allows, and what it uses of it.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn limits(&self) -> Result<pb::LimitsResponse, Error> {
        let answer = self.shell().unary(true, |channel| async move {
            ClusterServiceClient::new(channel).limits(pb::LimitsRequest {}).await
        });
        answer.await
    }

    /// Changes some limits and keeps the others. Answers with all of them.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if the limits contradict each other, or if a member does not support them
    /// yet; [`Error::Indeterminate`] if there was no answer.
    pub async fn change_limits(&self, change: LimitsChange) -> Result<pb::LimitsResponse, Error> {
        let request = pb::ChangeLimitsRequest {
            ttl_max_ms: change.ttl_max.map(wire_ms),
            quota_bytes: match change.quota {
                Some(QuotaSetting::Bytes(bytes)) => Some(bytes),
                Some(QuotaSetting::Auto) | None => None,
            },
            quota_auto: change.quota == Some(QuotaSetting::Auto),
            leases_per_client_max: change.leases_per_client_max,
            clients_per_address_max: change.clients_per_address_max,
            clear_no_space: change.clear_no_space,
        };
        let answer = self.shell().unary(false, move |channel| async move {
            ClusterServiceClient::new(channel).change_limits(request).await
        });
        answer.await
    }
}
