//! MemberAdd, MemberRemove, MemberUpdate, MemberList, MemberPromote.

use fencepost_node::io::Change;
use fencepost_node::membership::{Member, Standing};
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::cluster_server::Cluster;
use tonic::{Request, Response, Status};

use super::{Answer, EtcdDoor, header};
use crate::error::Failure;
use crate::grpc::members;

#[tonic::async_trait]
impl Cluster for EtcdDoor {
    async fn member_add(
        &self,
        request: Request<pb::MemberAddRequest>,
    ) -> Answer<pb::MemberAddResponse> {
        self.admit(request)?;
        // A member's number belongs to its disk, so nobody else can add it.
        Err(Status::failed_precondition(
            "fencepost: a member adds itself: start it with `fencepost serve --join`",
        ))
    }

    async fn member_remove(
        &self,
        request: Request<pb::MemberRemoveRequest>,
    ) -> Answer<pb::MemberRemoveResponse> {
        let id = self.admit(request)?.id;
        let (header, members) = self.changed("etcd_member_remove", Change::Remove(id)).await?;
        Ok(Response::new(pb::MemberRemoveResponse { header, members }))
    }

    async fn member_update(
        &self,
        request: Request<pb::MemberUpdateRequest>,
    ) -> Answer<pb::MemberUpdateResponse> {
        let request = self.admit(request)?;
        let status = self.0.handle.status();
        let known = status.members.members.get(&request.id);
        let known = known.ok_or_else(|| Status::not_found("etcdserver: member not found"))?;
        let peer = request.peer_urls.first().map(|url| address(url));
        let peer = peer.ok_or_else(|| Status::invalid_argument("etcdserver: peer URL missing"))?;
        let moved = Member { peer, ..known.clone() };
        let (header, members) = self.changed("etcd_member_update", Change::Add(moved)).await?;
        Ok(Response::new(pb::MemberUpdateResponse { header, members }))
    }

    async fn member_list(
        &self,
        request: Request<pb::MemberListRequest>,
    ) -> Answer<pb::MemberListResponse> {
        let request = self.admit(request)?;
        // A member that follows may not have applied yet what was answered elsewhere.
        let fresh = match request.linearizable {
            true => self.0.ask(false, |_| ()).await.map(|_| ()),
            false => Ok(()),
        };
        let members = fresh.map(|()| self.members());
        let header = pb::ResponseHeader { revision: 0, ..self.header_now() };
        let listed =
            members.map(|members| pb::MemberListResponse { header: Some(header), members });
        self.answer("etcd_member_list", listed)
    }

    async fn member_promote(
        &self,
        request: Request<pb::MemberPromoteRequest>,
    ) -> Answer<pb::MemberPromoteResponse> {
        let id = self.admit(request)?.id;
        let standing = self.0.handle.status().members.standing(id);
        if standing == Some(Standing::Voter) {
            let why = "etcdserver: can only promote a learner member";
            return Err(Status::failed_precondition(why));
        }
        let (header, members) = self.changed("etcd_member_promote", Change::Promote(id)).await?;
        Ok(Response::new(pb::MemberPromoteResponse { header, members }))
    }
}

/// Where clients reach a member: nowhere, if it does not tell.
fn client_urls(address: &str) -> Vec<String> {
    let is_told = !address.is_empty();
    is_told.then(|| format!("http://{address}")).into_iter().collect()
}

/// An address without its scheme.
fn address(url: &str) -> String {
    url.split_once("://").map_or(url, |(_, address)| address).to_owned()
}

impl EtcdDoor {
    async fn changed(
        &self,
        kind: &'static str,
        change: Change,
    ) -> Result<(Option<pb::ResponseHeader>, Vec<pb::Member>), Status> {
        let changed: Result<_, Failure> = members::change(&self.0, change).await;
        let head = self.answer(kind, changed)?.into_inner();
        Ok((Some(header(head)), self.members()))
    }

    fn members(&self) -> Vec<pb::Member> {
        let status = self.0.handle.status();
        let shown = |member: &Member| pb::Member {
            id: member.id,
            name: member.name.clone(),
            peer_urls: vec![format!("http://{}", member.peer)],
            client_urls: client_urls(&member.client),
            is_learner: status.members.standing(member.id) == Some(Standing::Learner),
        };
        status.members.members.values().map(shown).collect()
    }
}
