//! Status and Members.

use std::time::Duration;

use fencepost_node::membership::Standing;
use fencepost_proto::v1;

use crate::error::Failure;
use crate::house::House;
use crate::show;

pub(crate) async fn status(house: &House) -> Result<v1::StatusResponse, Failure> {
    let ask = house.ask(true, |state| {
        let used = (state.feature_level(), state.used_bytes(), *state.quota());
        (state.now(), state.recovering_for(), state.sizes(), used)
    });
    let (header, (now, recovering, sizes, used)) = ask.await?;
    let (feature_level, used_bytes, quota) = used;
    let (holders, waiters) = house.metrics.crowd();
    let status = house.handle.status();
    let disk = status.disk.unwrap_or_default();
    Ok(v1::StatusResponse {
        header: Some(header),
        members: members_of(house),
        applied_index: status.applied,
        snapshot_index: status.snapshot.index,
        log_time_ms: show::signed(now.0),
        leases: sizes.leases as u64,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock_cuts: status.clock_cuts,
        locks: sizes.locks as u64,
        holders,
        waiters,
        feature_level,
        used_bytes,
        quota_bytes: quota.bytes,
        no_space: quota.no_space,
        grants_in_ms: show::signed(recovering.0),
        disk_free_bytes: disk.free,
        disk_reserve_bytes: disk.reserve,
        disk_low: disk.is_low,
    })
}

pub(crate) fn members(house: &House) -> v1::MembersResponse {
    v1::MembersResponse { header: Some(house.head.now()), members: members_of(house) }
}

pub(crate) fn members_of(house: &House) -> Vec<v1::Member> {
    let status = house.handle.status();
    let members = status.members.members.values().map(|member| {
        let role = match status.members.standing(member.id) {
            _ if status.role.leader == Some(member.id) => "leader",
            Some(Standing::Voter) => "voter",
            Some(Standing::Learner) | None => "learner",
        };
        let contact = status.contacts.get(&member.id);
        let silent = contact.map_or(Duration::ZERO, |contact| contact.silent_for);
        v1::Member {
            unreachable: contact.is_some_and(|contact| !contact.is_reachable),
            silent_ms: i64::try_from(silent.as_millis()).unwrap_or(i64::MAX),
            id: member.id,
            name: member.name.clone(),
            peer_address: member.peer.clone(),
            client_address: member.client.clone(),
            role: role.to_owned(),
        }
    });
    members.collect()
}
