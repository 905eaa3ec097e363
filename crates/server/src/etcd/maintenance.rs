//! Alarm, Status, Defragment, Hash, HashKV, Snapshot, MoveLeader, Downgrade.

use fencepost_core::Revision;
use fencepost_core::scan::Scanned;
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::maintenance_server::Maintenance;
use tonic::{Request, Response, Status};

use super::{Answer, EtcdDoor, header, refuse};
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
        let asked = self.0.ask(true, |state| (state.used_bytes(), state.quota().no_space)).await;
        let (_, (used, no_space)) = asked.map_err(|failure| refuse::status(&failure))?;
        let size = signed(used);
        let is_voter = status.members.voters().contains(&status.id);
        let leader = self.0.head.leader();
        let no_leader = leader.is_none().then(|| "etcdserver: no leader".to_owned());
        let no_space = no_space.then(|| "etcdserver: mvcc: database space exceeded".to_owned());
        let errors = no_leader.into_iter().chain(no_space);
        Ok(Response::new(pb::StatusResponse {
            header: Some(self.header_now()),
            version: VERSION.to_owned(),
            db_size: size,
            leader: leader.unwrap_or_default(),
            raft_index: status.commit,
            raft_term: status.role.term,
            raft_applied_index: status.applied,
            errors: errors.collect(),
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
        let hashed = self.0.hash(Revision::NONE).await.map(|hashed| pb::HashResponse {
            header: Some(self.header_at(hashed.revision())),
            hash: shortened(&hashed),
        });
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

/// As much of the hash of all keys as etcd's messages carry.
fn shortened(hashed: &Scanned) -> u32 {
    let hash = hashed.hash();
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]])
}

impl EtcdDoor {
    /// The hash of all keys, at present or at a revision that the history still knows.
    async fn hash_at(&self, wanted: Revision) -> Result<pb::HashKvResponse, Failure> {
        let hashed = self.0.hash(wanted).await?;
        let now = hashed.revision();
        let (_, oldest) = self.0.ask(true, |state| state.compact_revision()).await?;
        Ok(pb::HashKvResponse {
            header: Some(self.header_at(now)),
            hash: shortened(&hashed),
            compact_revision: signed(oldest.0),
            hash_revision: signed(if wanted == Revision::NONE { now.0 } else { wanted.0 }),
        })
    }
}
