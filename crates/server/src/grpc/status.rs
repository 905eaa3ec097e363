//! Status and Members.

use fencepost_core::LeaseId;
use fencepost_node::membership::Standing;
use fencepost_proto::v1;

use crate::error::Failure;
use crate::house::House;
use crate::show;

/// Leases that one look counts. It happens on the node's loop.
const LEASES_PER_LOOK: usize = 1_000;

pub(super) async fn status(house: &House) -> Result<v1::StatusResponse, Failure> {
    let (header, now) = house.ask(true, |state| state.now()).await?;
    let leases = count_leases(house).await?;
    let status = house.handle.status();
    Ok(v1::StatusResponse {
        header: Some(header),
        members: members_of(house),
        applied_index: status.applied,
        snapshot_index: status.snapshot.index,
        log_time_ms: show::signed(now.0),
        leases: leases as u64,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock_cuts: status.clock_cuts,
    })
}

/// Counts the leases, a page at a time.
pub(crate) async fn count_leases(house: &House) -> Result<usize, Failure> {
    let (mut count, mut after) = (0, LeaseId::NONE);
    loop {
        let ask = house.ask(true, move |state| {
            let page = state.leases(after, LEASES_PER_LOOK);
            (page.len(), page.last().map(|lease| lease.id))
        });
        let (_, (len, last)) = ask.await?;
        count += len;
        match last.filter(|_| len == LEASES_PER_LOOK) {
            Some(last) => after = last,
            None => break,
        }
    }
    house.metrics.leases(count);
    Ok(count)
}

pub(super) fn members(house: &House) -> v1::MembersResponse {
    v1::MembersResponse { header: Some(house.head.now()), members: members_of(house) }
}

fn members_of(house: &House) -> Vec<v1::Member> {
    let status = house.handle.status();
    let members = status.members.members.values().map(|member| {
        let role = match status.members.standing(member.id) {
            _ if status.role.leader == Some(member.id) => "leader",
            Some(Standing::Voter) => "voter",
            Some(Standing::Learner) | None => "learner",
        };
        v1::Member {
            id: member.id,
            name: member.name.clone(),
            peer_address: member.peer.clone(),
            client_address: member.client.clone(),
            role: role.to_owned(),
        }
    });
    members.collect()
}
