//! Range, Put, DeleteRange, Txn, Compact.

use fencepost_core::command::{Action, Compact};
use fencepost_core::range::{RangeAnswer, RangeQuery};
use fencepost_core::{Outcome, Reason, Revision, State};
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::kv_server::Kv;
use tonic::Request;

use super::{Answer, EtcdDoor, header, parse, show, unexpected};
use crate::error::Failure;
use crate::show::signed;

#[tonic::async_trait]
impl Kv for EtcdDoor {
    async fn range(&self, request: Request<pb::RangeRequest>) -> Answer<pb::RangeResponse> {
        let request = self.admit(request)?;
        self.answer("etcd_range", self.find(&request).await)
    }

    async fn put(&self, request: Request<pb::PutRequest>) -> Answer<pb::PutResponse> {
        let request = self.admit(request)?;
        self.answer("etcd_put", self.write(&request).await)
    }

    async fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> Answer<pb::DeleteRangeResponse> {
        let request = self.admit(request)?;
        self.answer("etcd_delete_range", self.remove(&request).await)
    }

    async fn txn(&self, request: Request<pb::TxnRequest>) -> Answer<pb::TxnResponse> {
        let request = self.admit(request)?;
        self.answer("etcd_txn", self.transact(&request).await)
    }

    async fn compact(
        &self,
        request: Request<pb::CompactionRequest>,
    ) -> Answer<pb::CompactionResponse> {
        let request = self.admit(request)?;
        self.answer("etcd_compact", self.forget(&request).await)
    }
}

impl EtcdDoor {
    /// What a range holds, now or at an earlier revision.
    async fn find(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, Failure> {
        let (query, at) = parse::range(request)?;
        let ask = self.0.ask(request.serializable, move |state| look(state, &query, at));
        let (head, found) = ask.await?;
        Ok(show::range(&found?, Some(header(head))))
    }

    async fn write(&self, request: &pb::PutRequest) -> Result<pb::PutResponse, Failure> {
        let (head, outcome) = self.0.act(Action::Put(parse::put(request)?)).await?;
        let Outcome::Put(prev) = outcome else { return Err(unexpected()) };
        let prev_kv = prev.as_deref().map(show::key_value);
        Ok(pb::PutResponse { header: Some(header(head)), prev_kv })
    }

    async fn remove(
        &self,
        request: &pb::DeleteRangeRequest,
    ) -> Result<pb::DeleteRangeResponse, Failure> {
        let action = Action::DeleteRange(parse::delete_range(request)?);
        let (head, outcome) = self.0.act(action).await?;
        let Outcome::Deleted(deleted, prev) = outcome else { return Err(unexpected()) };
        let prev_kvs = prev.iter().map(show::key_value).collect();
        let header = Some(header(head));
        Ok(pb::DeleteRangeResponse { header, deleted: signed(deleted), prev_kvs })
    }

    async fn transact(&self, request: &pb::TxnRequest) -> Result<pb::TxnResponse, Failure> {
        let txn = Action::Txn(Box::new(parse::txn(request)?));
        let (head, outcome) = self.0.act(txn).await?;
        let Outcome::Txn(answer) = outcome else { return Err(unexpected()) };
        Ok(show::txn(&answer, header(head)))
    }

    async fn forget(
        &self,
        request: &pb::CompactionRequest,
    ) -> Result<pb::CompactionResponse, Failure> {
        let revision = Revision(u64::try_from(request.revision).unwrap_or(0));
        let (head, _) = self.0.act(Action::Compact(Compact { revision })).await?;
        Ok(pb::CompactionResponse { header: Some(header(head)) })
    }
}

/// What a range holds at a revision; none means now.
fn look(state: &State, query: &RangeQuery, at: Revision) -> Result<RangeAnswer, Reason> {
    match at {
        Revision::NONE => Ok(state.range(query)),
        at => state.range_at(query, at),
    }
}
