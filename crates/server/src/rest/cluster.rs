//! Status and members.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use fencepost_proto::v1;
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::{Refusal, head, question};
use super::numbers::Id;
use super::problem::Problems;
use super::query::Query;
use crate::grpc::status as shown;
use crate::house::House;

/// One member.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Member {
    id: Id,
    name: String,
    /// Where other members reach it.
    peer: String,
    /// Where clients reach it; empty if that is not known.
    client: String,
    /// `leader`, `voter` or `learner`.
    role: String,
    /// Whether the answering member reaches it.
    reachable: bool,
    /// For how long the answering member has heard nothing of it, in milliseconds. Zero for itself.
    silent_ms: i64,
}

impl From<v1::Member> for Member {
    fn from(member: v1::Member) -> Member {
        Member {
            id: Id(member.id),
            name: member.name,
            peer: member.peer_address,
            client: member.client_address,
            role: member.role,
            reachable: !member.unreachable,
            silent_ms: member.silent_ms,
        }
    }
}

/// By name, as the command line has them.
fn sorted(members: Vec<v1::Member>) -> Vec<Member> {
    let mut members: Vec<Member> = members.into_iter().map(Member::from).collect();
    members.sort_by(|one, other| (&one.name, one.id.0).cmp(&(&other.name, other.id.0)));
    members
}

/// The cluster, as the answering member sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Status {
    cluster_id: Id,
    revision: i64,
    term: u64,
    /// The name of the member that leads. Null if there is none.
    leader: Option<String>,
    members: Vec<Member>,
    /// Of the answering member.
    version: String,
    /// How many leases live.
    leases: u64,
    /// How many locks are held or waited for.
    locks: u64,
    /// How many hold a lock.
    holders: u64,
    /// How many wait for one.
    waiters: u64,
}

/// The cluster, as the answering member sees it
#[utoipa::path(get, path = "/v1/status", operation_id = "status", tag = "cluster",
    responses((status = 200, description = "How things stand", body = Status), Problems))]
pub(super) async fn status(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "status", async {
        Query::of(&uri)?.end()?;
        let told = shown::status(&house).await?;
        let header = head(told.header);
        let members = sorted(told.members);
        let leader = members.iter().find(|member| member.id.0 == header.leader_id);
        let status = Status {
            cluster_id: Id(header.cluster_id),
            revision: header.revision,
            term: header.raft_term,
            leader: leader.map(|member| member.name.clone()),
            members,
            version: told.version,
            leases: told.leases,
            locks: told.locks,
            holders: told.holders,
            waiters: told.waiters,
        };
        Ok::<_, Refusal>((header, status))
    })
    .await
}

/// Everyone who belongs to the cluster.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Members {
    members: Vec<Member>,
}

/// Who belongs to the cluster
#[utoipa::path(get, path = "/v1/members", operation_id = "members", tag = "cluster",
    responses((status = 200, description = "The members, by name", body = Members), Problems))]
pub(super) async fn members(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "members", async {
        Query::of(&uri)?.end()?;
        let told = shown::members(&house);
        Ok::<_, Refusal>((head(told.header), Members { members: sorted(told.members) }))
    })
    .await
}
