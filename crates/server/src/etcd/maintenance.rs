//! Alarm, Status, Defragment, Hash, HashKV, Snapshot, MoveLeader, Downgrade.

use fencepost_core::{Reason, Revision, State};
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::maintenance_server::Maintenance;
use tonic::{Request, Response, Status};

use super::{Answer, EtcdDoor, header};
use crate::error::Failure;
use crate::grpc::{Answers, members};
use crate::show::signed;

/// The version of etcd whose API this door speaks.
const VERSION: &str = "3.5.0+fencepost";

#[tonic::async_trait]
impl Maintenance for EtcdDoor {
    type SnapshotStream = Answers<pb::SnapshotResponse>;

    async fn alarm(&self, request: Request<pb::AlarmRequest>) -> Answer<pb::AlarmResponse> {
        let request = self.admit(request)?;
        self.answer("etcd_alarm", self.alarms(&request).await)
    }

    async fn status(&self, request: Request<pb::StatusRequest>) -> Answer<pb::StatusResponse> {
        self.admit(request)?;
        let status = self.0.handle.status();
        let size = signed(status.log_bytes);
        let is_voter = status.members.voters().contains(&status.id);
        let leader = self.0.head.leader();
        let errors = leader.is_none().then(|| "etcdserver: no leader".to_owned());
        Ok(Response::new(pb::StatusResponse {
            header: Some(self.header_now()),
            version: VERSION.to_owned(),
            db_size: size,
            leader: leader.unwrap_or_default(),
            raft_index: status.commit,
            raft_term: status.role.term,
            raft_applied_index: status.applied,
            errors: errors.into_iter().collect(),
            db_size_in_use: size,
            is_learner: !is_voter,
        }))
    }

    /// There is nothing to put together: the log is a ring of files, the state is in memory.
    async fn defragment(
        &self,
        request: Request<pb::DefragmentRequest>,
    ) -> Answer<pb::DefragmentResponse> {
        self.admit(request)?;
        Ok(Response::new(pb::DefragmentResponse { header: Some(self.header_now()) }))
    }

    async fn hash(&self, request: Request<pb::HashRequest>) -> Answer<pb::HashResponse> {
        self.admit(request)?;
        let found = self.0.ask(true, mark).await;
        let hashed =
            found.map(|(head, hash)| pb::HashResponse { header: Some(header(head)), hash });
        self.answer("etcd_hash", hashed)
    }

    async fn hash_kv(&self, request: Request<pb::HashKvRequest>) -> Answer<pb::HashKvResponse> {
        let revision = Revision(u64::try_from(self.admit(request)?.revision).unwrap_or(0));
        self.answer("etcd_hash_kv", self.hash_at(revision).await)
    }

    async fn snapshot(
        &self,
        request: Request<pb::SnapshotRequest>,
    ) -> Answer<Self::SnapshotStream> {
        self.admit(request)?;
        self.answer("etcd_snapshot", self.snapshot_now().await)
    }

    async fn move_leader(
        &self,
        request: Request<pb::MoveLeaderRequest>,
    ) -> Answer<pb::MoveLeaderResponse> {
        let to = self.admit(request)?.target_id;
        let moved = members::move_leader(&self.0, to, false).await;
        let moved = moved.map(|head| pb::MoveLeaderResponse { header: Some(header(head)) });
        self.answer("etcd_move_leader", moved)
    }

    async fn downgrade(
        &self,
        request: Request<pb::DowngradeRequest>,
    ) -> Answer<pb::DowngradeResponse> {
        self.admit(request)?;
        Err(Status::unimplemented("fencepost: there is no version of etcd to go back to"))
    }
}

/// A mark of the whole state. Members that have applied the same have the same.
fn mark(state: &State) -> u32 {
    let hash = state.hash();
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

impl EtcdDoor {
    /// Only the present can be marked: what was is not kept as a whole.
    async fn hash_at(&self, wanted: Revision) -> Result<pb::HashKvResponse, Failure> {
        let look = move |state: &State| {
            let (now, oldest) = (state.revision(), state.history().compacted());
            match wanted {
                wanted if wanted > now => Err(Reason::RevisionFuture(now)),
                Revision::NONE => Ok((mark(state), now, oldest)),
                wanted if wanted == now => Ok((mark(state), now, oldest)),
                _ => Err(Reason::Compacted(now)),
            }
        };
        let (head, found) = self.0.ask(true, look).await?;
        let (hash, now, oldest) = found?;
        Ok(pb::HashKvResponse {
            header: Some(header(head)),
            hash,
            compact_revision: signed(oldest.0),
            hash_revision: signed(now.0),
        })
    }
}
