//! Range, Put, DeleteRange, Txn, Compact.

use bytes::Bytes;
use fencepost_core::command::{Action, Compact, Op, Txn};
use fencepost_core::outcome::OpAnswer;
use fencepost_core::scan::Scan;
use fencepost_core::{Outcome, Revision};
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::kv_server::Kv;
use tonic::Request;

use super::{Answer, EtcdDoor, header, parse, show, unexpected};
use crate::answer_room::{AnswerRoom, bytes_of};
use crate::error::Failure;
use crate::limits;
use crate::scans::FoundKeys;
use crate::show::signed;
use crate::unary::framed;

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
        self.answer_in_room("etcd_delete_range", self.remove(&request).await)
    }

    async fn txn(&self, request: Request<pb::TxnRequest>) -> Answer<pb::TxnResponse> {
        let request = self.admit(request)?;
        self.answer_in_room("etcd_txn", self.transact(&request).await)
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
        let (found, header) = self.scan(request).await?;
        found.build(move |answer| show::range(answer, Some(header))).await
    }

    /// The same, as one message of gRPC.
    async fn find_bytes(&self, request: &pb::RangeRequest) -> Result<Bytes, Failure> {
        let (found, header) = self.scan(request).await?;
        found.build_bytes(move |answer| framed(&show::range(answer, Some(header)))).await
    }

    async fn scan(
        &self,
        request: &pb::RangeRequest,
    ) -> Result<(FoundKeys, pb::ResponseHeader), Failure> {
        let (query, at) = parse::range(request)?;
        let scan = Scan::range(query, at, limits::ANSWER_BYTES_MAX as u64);
        let found = self.0.scan(request.serializable, scan).await?;
        let header = self.header_at(found.revision());
        Ok((found, header))
    }

    /// Range, for callers that send bytes.
    pub(super) async fn range_bytes(&self, request: Request<pb::RangeRequest>) -> Answer<Bytes> {
        let request = self.admit(request)?;
        self.answer("etcd_range", self.find_bytes(&request).await)
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
    ) -> Result<(pb::DeleteRangeResponse, AnswerRoom), Failure> {
        let delete = parse::delete_range(request)?;
        if !delete.prev {
            let (head, deletion) = self.0.delete(delete).await?;
            let (header, deleted) = (Some(header(head)), signed(deletion.deleted()));
            let answer = pb::DeleteRangeResponse { header, deleted, prev_kvs: Vec::new() };
            return Ok((answer, AnswerRoom::default()));
        }
        // An answer with the removed keys must be whole. As a transaction it is, or is refused
        // before anything is removed.
        let txn = Txn { success: vec![Op::DeleteRange(delete)], ..Txn::default() };
        let before = self.0.room_before(&txn).await?;
        let (head, outcome) = self.0.act(Action::Txn(Box::new(txn))).await?;
        let Outcome::Txn(mut answer) = outcome else { return Err(unexpected()) };
        let room = self.0.room_for(bytes_of(&answer), before).await?;
        let Some(OpAnswer::Deleted(deleted, prev)) = answer.answers.pop() else {
            return Err(unexpected());
        };
        let prev_kvs = prev.iter().map(show::key_value).collect();
        let header = Some(header(head));
        Ok((pb::DeleteRangeResponse { header, deleted: signed(deleted), prev_kvs }, room))
    }

    async fn transact(
        &self,
        request: &pb::TxnRequest,
    ) -> Result<(pb::TxnResponse, AnswerRoom), Failure> {
        let txn = parse::txn(request)?;
        let before = self.0.room_before(&txn).await?;
        let (head, outcome) = self.0.act(Action::Txn(Box::new(txn))).await?;
        let Outcome::Txn(answer) = outcome else { return Err(unexpected()) };
        let room = self.0.room_for(bytes_of(&answer), before).await?;
        Ok((show::txn(&answer, header(head)), room))
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
