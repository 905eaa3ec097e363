//! AddMember, Promote, RemoveMember, MoveLeader.

use fencepost_node::io::{Change, ChangeError, MemberId};
use fencepost_node::membership::Member;
use fencepost_proto::v1;
use std::time::Duration;

use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::limits;

/// How long a new leader may take.
const HANDOVER_PATIENCE: Duration = Duration::from_secs(5);

/// Changes the members, whoever leads. The node waits for it, so that is done beside the tasks.
pub(super) async fn change(house: &House, change: Change) -> Result<v1::Header, Failure> {
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

/// Hands leadership over, and waits for it. Only the leader can.
pub(super) async fn move_leader(house: &House, to: MemberId) -> Result<v1::Header, Failure> {
    let status = house.handle.status();
    if !status.role.leads {
        return Err(ChangeError::NotLeader { leader: status.role.leader }.into());
    }
    let voters = status.members.voters();
    let to = match to {
        0 => {
            let connected =
                |id: &MemberId| status.links.get(id).is_some_and(|link| link.is_connected);
            let successor = voters.iter().copied().find(|id| *id != status.id && connected(id));
            successor
                .ok_or(Wrong::Invalid("to", "must name a member: no other one is connected"))?
        }
        to if voters.contains(&to) => to,
        to => return Err(ChangeError::UnknownMember(to).into()),
    };
    let mut changes = house.head.changes();
    if to != status.id {
        house.handle.transfer_to(to);
    }
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
