//! AddMember, Promote, RemoveMember, MoveLeader.

use std::time::Duration;

use fencepost_node::io::{Change, ChangeError, MemberId};
use fencepost_node::membership::Member;
use fencepost_proto::v1;
use fencepost_proto::v1::cluster_service_client::ClusterServiceClient;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_types::StatusExt;

use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::limits;

/// How long a new leader may take.
const HANDOVER_PATIENCE: Duration = Duration::from_secs(5);
/// Marks a request that another member has passed on.
pub(super) const FORWARDED: &str = "fencepost-forwarded";

/// Changes the members, whoever leads. The node waits for it, so that is done beside the tasks.
pub(crate) async fn change(house: &House, change: Change) -> Result<v1::Header, Failure> {
    let handle = house.handle.clone();
    let change =
        move || handle.change_anywhere(&change, limits::CHANGE_PATIENCE).map_err(Failure::from);
    let result = tokio::task::spawn_blocking(change).await;
    result.unwrap_or_else(|_| Err(ChangeError::Indeterminate.into()))?;
    Ok(house.head.now())
}

pub(super) fn added(request: v1::AddMemberRequest) -> Change {
    Change::Add(Member {
        id: request.id,
        name: request.name,
        peer: request.peer_address,
        client: request.client_address,
    })
}

/// Hands leadership over, and waits for it, whoever leads.
///
/// `was_forwarded` says that another member asks: it is not passed on again, so that two members
/// that each believe in the other do not keep a request going round.
pub(crate) async fn move_leader(
    house: &House,
    to: MemberId,
    was_forwarded: bool,
) -> Result<v1::Header, Failure> {
    let status = house.handle.status();
    let voters = status.members.voters();
    let reachable =
        |id: &MemberId| status.contacts.get(id).is_some_and(|contact| contact.is_reachable);
    if to != 0 && !voters.contains(&to) {
        return Err(ChangeError::UnknownMember(to).into());
    }
    let mut changes = house.head.changes();
    let to = match to {
        _ if !status.role.leads => {
            let to = if was_forwarded { None } else { forward(house, to).await? };
            to.ok_or(ChangeError::NotLeader { leader: status.role.leader })?
        }
        0 => {
            let successor = voters.iter().copied().find(|id| *id != status.id && reachable(id));
            let to = successor
                .ok_or(Wrong::Invalid("to", "must name a member: no other one is reachable"))?;
            house.handle.transfer_to(to);
            to
        }
        to if to == status.id => to,
        // To try would stop all writes until the engine gives up.
        to if !reachable(&to) => return Err(unreachable(house, to)),
        to => {
            house.handle.transfer_to(to);
            to
        }
    };
    let moved = async {
        while house.head.leader() != Some(to) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    let moved = tokio::time::timeout(HANDOVER_PATIENCE, moved).await;
    moved.map_err(|_| Failure::from(ChangeError::Indeterminate))?;
    Ok(house.head.now())
}

/// Asks the leader, at its client address, to hand over. Who leads then; nobody, if no leader that
/// can be reached is known.
async fn forward(house: &House, to: MemberId) -> Result<Option<MemberId>, Failure> {
    let address = house.head.now().leader_address;
    let endpoint = Channel::from_shared(format!("http://{address}"));
    let Some(endpoint) = endpoint.ok().filter(|_| !address.is_empty()) else { return Ok(None) };
    let Ok(channel) = endpoint.connect_timeout(HANDOVER_PATIENCE).connect().await else {
        return Ok(None);
    };
    let mut request = Request::new(v1::MoveLeaderRequest { to });
    request.set_timeout(2 * HANDOVER_PATIENCE);
    request.metadata_mut().insert(FORWARDED, MetadataValue::from_static("1"));
    match ClusterServiceClient::new(channel).move_leader(request).await {
        Ok(moved) => Ok(moved.into_inner().header.map(|header| header.leader_id)),
        Err(status) => Err(refusal(house, to, &status)),
    }
}

fn unreachable(house: &House, member: MemberId) -> Failure {
    let contact = house.handle.status().contacts.get(&member).copied().unwrap_or_default();
    Wrong::MemberUnreachable(member, contact.silent_for).into()
}

/// What the leader has refused, as if it had been refused here.
fn refusal(house: &House, to: MemberId, status: &Status) -> Failure {
    let code = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    match &*code {
        "not_leader" => ChangeError::NotLeader { leader: None }.into(),
        "field_invalid" => {
            Wrong::Invalid("to", "must name a member: no other one is reachable").into()
        }
        "member_unreachable" => unreachable(house, to),
        // It may have been done before the connection broke.
        _ => ChangeError::Indeterminate.into(),
    }
}
