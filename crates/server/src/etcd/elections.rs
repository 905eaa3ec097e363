//! Campaign, Proclaim, Leader, Observe, Resign: the recipe of an election, followed by the server.
//!
//! An election is a lock whose holder announces itself with the value of its key.

use bytes::Bytes;
use fencepost_core::command::{
    Action, Compare, CompareTarget, DeleteRange, Op, Put, Relation, Txn,
};
use fencepost_core::event::KeyValue;
use fencepost_core::history::Watch;
use fencepost_core::range::{KeyRange, Order, RangeQuery, SortBy};
use fencepost_core::{Key, LeaseId, LockName, Outcome, Revision, State, Value};
use fencepost_proto::etcd::v3electionpb as pb;
use fencepost_proto::etcd::v3electionpb::election_server::Election;
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::leases::peer;
use super::watching::{News, Reader};
use super::{Answer, EtcdDoor, header, refuse, show, unexpected};
use crate::error::Failure;
use crate::grpc::Answers;
use crate::parse::contender_key;
use crate::show::signed;

/// Leaders that may wait for the client to read them.
const LEADERS_MAX: usize = 16;

#[tonic::async_trait]
impl Election for EtcdDoor {
    type ObserveStream = Answers<pb::LeaderResponse>;

    async fn campaign(
        &self,
        request: Request<pb::CampaignRequest>,
    ) -> Answer<pb::CampaignResponse> {
        let peer = peer(&request);
        let request = self.admit(request)?;
        let led = async {
            let lease = self.lease_or_own(request.lease, peer).await?;
            self.lead(&request.name, lease, &request.value).await
        };
        self.answer_recipe("etcd_campaign", led.await)
    }

    async fn proclaim(
        &self,
        request: Request<pb::ProclaimRequest>,
    ) -> Answer<pb::ProclaimResponse> {
        let pb::ProclaimRequest { leader, value } = self.admit(request)?;
        let leader = leader.ok_or_else(no_leader_key)?;
        let put = Put {
            key: Key::from(&*leader.key),
            value: Value::from(&*value),
            lease: LeaseId(leader.lease),
            ..Put::default()
        };
        let done = self.if_leader(&leader, Op::Put(put)).await;
        let header = self.answer_recipe("etcd_proclaim", done)?.into_inner();
        let header = header.ok_or_else(|| Status::unknown("election: not leader"))?;
        Ok(Response::new(pb::ProclaimResponse { header: Some(header) }))
    }

    async fn leader(&self, request: Request<pb::LeaderRequest>) -> Answer<pb::LeaderResponse> {
        let name = self.admit(request)?.name;
        let found = self.0.ask(false, move |state| first(state, &name)).await;
        let (head, kv) = self.answer_recipe("etcd_leader", found)?.into_inner();
        let kv = kv.ok_or_else(|| Status::unknown("election: no leader"))?;
        Ok(Response::new(pb::LeaderResponse {
            header: Some(header(head)),
            kv: Some(show::key_value(&kv)),
        }))
    }

    async fn observe(&self, request: Request<pb::LeaderRequest>) -> Answer<Self::ObserveStream> {
        let name = self.admit(request)?.name;
        let (leaders, seen) = mpsc::channel(LEADERS_MAX);
        tokio::spawn(observe(self.clone(), name, leaders));
        Ok(Response::new(Box::pin(ReceiverStream::new(seen))))
    }

    async fn resign(&self, request: Request<pb::ResignRequest>) -> Answer<pb::ResignResponse> {
        let leader = self.admit(request)?.leader.ok_or_else(no_leader_key)?;
        let range = KeyRange::One(Key::from(&*leader.key));
        let done = self.if_leader(&leader, Op::DeleteRange(DeleteRange { range, prev: false }));
        let header = self.answer_recipe("etcd_resign", done.await)?.into_inner();
        // Whoever does not lead has nothing to give up.
        let header = Some(header.unwrap_or_else(|| self.header_now()));
        Ok(Response::new(pb::ResignResponse { header }))
    }
}

fn no_leader_key() -> Status {
    Status::invalid_argument("\"leader\" field must be provided")
}

/// Who stands first in an election.
fn first(state: &State, name: &[u8]) -> Option<KeyValue> {
    let query = RangeQuery {
        limit: 1,
        order: Order::Ascending,
        sort_by: SortBy::Create,
        ..RangeQuery::from(candidates(name))
    };
    state.range(&query).kvs.pop()
}

fn candidates(name: &[u8]) -> KeyRange {
    KeyRange::prefix(&[name, b"/"].concat())
}

impl EtcdDoor {
    async fn lead(
        &self,
        name: &[u8],
        lease: LeaseId,
        value: &[u8],
    ) -> Result<pb::CampaignResponse, Failure> {
        let head = self.stand(name, lease, Value::from(value)).await?;
        let key = contender_key(&LockName::from(name), lease);
        let own = key.clone();
        let look = move |state: &State| {
            let query = RangeQuery::from(KeyRange::One(own));
            state.range(&query).kvs.pop()
        };
        let (_, found) = self.0.ask(false, look).await?;
        let found = found.ok_or(fencepost_core::Reason::LeaseNotFound(lease))?;
        let leader = pb::LeaderKey {
            name: Bytes::copy_from_slice(name),
            key: Bytes::copy_from_slice(&key),
            rev: signed(found.create_revision.0),
            lease: lease.0,
        };
        // Whoever led already with another value says the new one.
        if *found.value != *value {
            let value = Value::from(value);
            self.if_leader(&leader, Op::Put(Put { key, value, lease, ..Put::default() })).await?;
        }
        Ok(pb::CampaignResponse { header: head.map(header), leader: Some(leader) })
    }

    /// Does something if this leader is still the one that it was. Nothing, if not.
    async fn if_leader(
        &self,
        leader: &pb::LeaderKey,
        op: Op,
    ) -> Result<Option<fencepost_proto::etcd::etcdserverpb::ResponseHeader>, Failure> {
        let created = Revision(u64::try_from(leader.rev).unwrap_or(0));
        let is_same = Compare {
            range: KeyRange::One(Key::from(&*leader.key)),
            relation: Relation::Equal,
            target: CompareTarget::Create(created),
        };
        let txn = Txn { compares: vec![is_same], success: vec![op], failure: Vec::new() };
        let (head, outcome) = self.0.act(Action::Txn(Box::new(txn))).await?;
        let Outcome::Txn(answer) = outcome else { return Err(unexpected()) };
        Ok(answer.succeeded.then(|| header(head)))
    }
}

/// Tells of every leader, and of what each proclaims, until the client goes away.
async fn observe(door: EtcdDoor, name: Bytes, leaders: Sender<Result<pb::LeaderResponse, Status>>) {
    let told = async {
        let mut reader = Reader::new(&door.0);
        let number = reader.begin(Watch::new(candidates(&name), Revision::NONE)).await?;
        let mut last = None;
        loop {
            let name = name.clone();
            let (head, kv) = door.0.ask(false, move |state| first(state, &name)).await?;
            let is_new = kv.is_some() && kv != last;
            if let Some(kv) = kv.as_ref().filter(|_| is_new) {
                let (header, kv) = (Some(header(head)), Some(show::key_value(kv)));
                if leaders.send(Ok(pb::LeaderResponse { header, kv })).await.is_err() {
                    return Ok(());
                }
            }
            last = kv.or(last);
            tokio::select! {
                news = reader.next() => match news {
                    // However much was missed, the next look at the leader tells.
                    Some(News::Behind(..)) => drop(reader.look(number, None).await?),
                    Some(_) => {}
                    None => return Err(Failure::from(crate::error::Wrong::ShuttingDown)),
                },
                () = leaders.closed() => return Ok(()),
            }
        }
    };
    if let Err(failure) = told.await {
        // The client may be gone.
        drop(leaders.send(Err(refuse::status(&failure))).await);
    }
}
