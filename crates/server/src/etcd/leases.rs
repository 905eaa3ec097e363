//! LeaseGrant, LeaseRevoke, LeaseTimeToLive, LeaseLeases.

use bytes::Bytes;
use fencepost_core::command::{Action, LeaseGrant, LeaseRef, LeaseRevoke};
use fencepost_core::limits::TTL_MAX;
use fencepost_core::{ClientId, LeaseId, Millis, Outcome};
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::lease_server::Lease;
use tonic::{Request, Response, Streaming};

use super::{Answer, EtcdDoor, header, keep_alive, parse, unexpected, wants_leader};
use crate::answer_room::AnswerRoom;
use crate::error::Failure;
use crate::grpc::{Answers, Peer};
use crate::limits;
use crate::show::signed;

#[tonic::async_trait]
impl Lease for EtcdDoor {
    type LeaseKeepAliveStream = Answers<pb::LeaseKeepAliveResponse>;

    async fn lease_grant(
        &self,
        request: Request<pb::LeaseGrantRequest>,
    ) -> Answer<pb::LeaseGrantResponse> {
        let client = client(peer(&request));
        let request = self.admit(request)?;
        self.answer("etcd_lease_grant", self.grant(&request, client).await)
    }

    async fn lease_revoke(
        &self,
        request: Request<pb::LeaseRevokeRequest>,
    ) -> Answer<pb::LeaseRevokeResponse> {
        let lease = LeaseRef::from(LeaseId(self.admit(request)?.id));
        let revoked = self.0.act(Action::LeaseRevoke(LeaseRevoke { lease })).await;
        let revoked =
            revoked.map(|(head, _)| pb::LeaseRevokeResponse { header: Some(header(head)) });
        self.answer("etcd_lease_revoke", revoked)
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Answer<Self::LeaseKeepAliveStream> {
        self.check_leader(&request)?;
        let wants_leader = wants_leader(&request);
        Ok(Response::new(keep_alive::serve(self, request.into_inner(), wants_leader)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<pb::LeaseTimeToLiveRequest>,
    ) -> Answer<pb::LeaseTimeToLiveResponse> {
        let request = self.admit(request)?;
        self.answer_in_room("etcd_lease_time_to_live", self.time_to_live(&request).await)
    }

    async fn lease_leases(
        &self,
        request: Request<pb::LeaseLeasesRequest>,
    ) -> Answer<pb::LeaseLeasesResponse> {
        self.admit(request)?;
        self.answer("etcd_lease_leases", self.all_leases().await)
    }
}

pub(super) fn peer<T>(request: &Request<T>) -> Option<Peer> {
    request.extensions().get().copied()
}

/// Whoever has no name of its own is called after its address.
pub(super) fn client(peer: Option<Peer>) -> ClientId {
    peer.map(|peer| ClientId::from(&*format!("etcd@{}", peer.0))).unwrap_or_default()
}

/// Whole seconds, as etcd has them.
pub(super) fn secs(length: Millis) -> i64 {
    signed(length.0 / 1_000)
}

impl EtcdDoor {
    async fn grant(
        &self,
        request: &pb::LeaseGrantRequest,
        client: ClientId,
    ) -> Result<pb::LeaseGrantResponse, Failure> {
        let (asked, ttl) = (LeaseId(request.id), parse::ttl(request.ttl, TTL_MAX)?);
        let made = match self.make_lease(asked, ttl, client.clone()).await {
            // The cluster allows less than any cluster may. It grants what it allows.
            Err(failure) if failure.code == "ttl_too_long" => {
                let (_, longest) = self.0.ask(false, |state| state.limits().ttl_max).await?;
                self.make_lease(asked, ttl.min(longest), client).await
            }
            made => made,
        };
        let (head, id, ttl) = made?;
        let (header, ttl) = (Some(header(head)), secs(ttl));
        Ok(pb::LeaseGrantResponse { header, id: id.0, ttl, error: String::new() })
    }

    /// Makes a lease, with this id or, if it is zero, any.
    pub(super) async fn make_lease(
        &self,
        id: LeaseId,
        ttl: Millis,
        client: ClientId,
    ) -> Result<(fencepost_proto::v1::Header, LeaseId, Millis), Failure> {
        let grant = LeaseGrant { id, ttl, client, ..LeaseGrant::default() };
        let (head, outcome) = self.0.act(Action::LeaseGrant(grant)).await?;
        let Outcome::LeaseGranted(granted) = outcome else { return Err(unexpected()) };
        Ok((head, granted.id, granted.ttl))
    }

    async fn time_to_live(
        &self,
        request: &pb::LeaseTimeToLiveRequest,
    ) -> Result<(pb::LeaseTimeToLiveResponse, AnswerRoom), Failure> {
        let id = LeaseId(request.id);
        let (head, found) = self.0.ask(false, move |state| state.lease(id)).await?;
        let gone = pb::LeaseTimeToLiveResponse {
            header: Some(header(head)),
            id: request.id,
            ttl: -1,
            ..pb::LeaseTimeToLiveResponse::default()
        };
        let Some(lease) = found else { return Ok((gone, AnswerRoom::default())) };
        let keys = lease.keys.iter().filter(|_| request.keys);
        let room = self.0.room_for(keys.clone().map(|key| key.len()).sum(), None).await?;
        let answer = pb::LeaseTimeToLiveResponse {
            ttl: secs(lease.remaining),
            granted_ttl: secs(lease.granted_ttl),
            keys: keys.map(|key| Bytes::copy_from_slice(key)).collect(),
            ..gone
        };
        Ok((answer, room))
    }

    /// All leases, found page by page so that the node is never held up for long.
    async fn all_leases(&self) -> Result<pb::LeaseLeasesResponse, Failure> {
        let (mut after, mut leases) = (LeaseId(0), Vec::new());
        loop {
            // Only the first look must be fresh: a lease that is made meanwhile may be missing.
            let is_stale = after != LeaseId(0);
            let look =
                move |state: &fencepost_core::State| state.lease_ids(after, limits::PAGE_MAX);
            let (head, page) = self.0.ask(is_stale, look).await?;
            leases.extend(page.iter().map(|id| pb::LeaseStatus { id: id.0 }));
            match page.last() {
                Some(&last) if page.len() == limits::PAGE_MAX => after = last,
                _ => return Ok(pb::LeaseLeasesResponse { header: Some(header(head)), leases }),
            }
        }
    }
}
