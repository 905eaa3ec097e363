//! What a client is told in one line.

use fencepost_core::query::LockView;
use fencepost_core::{ClientId, LockName, LogTime, Token};
use fencepost_proto::v1;
use serde_json::{Value, json};

use super::request::Label;
use crate::error::Failure;
use crate::grpc::members_of;
use crate::house::House;
use crate::json;
use crate::owners::Told;
use crate::show;

/// The line that answers a request.
pub(super) fn line(label: &Label, told: Result<Value, Failure>) -> String {
    let (success, payload) = match told {
        Ok(payload) => (true, payload),
        Err(failure) => (false, json::problem(&failure)),
    };
    let answer = json!({
        "type": label.kind.as_deref().unwrap_or("error"),
        "request_id": label.id,
        "success": success,
        "payload": payload,
    });
    format!("{answer}\n")
}

/// What came of a request for a lock.
pub(super) fn lock(pair: &(LockName, ClientId), told: Told) -> Value {
    let must_stop = matches!(told, Told::MustStop(_));
    let (result, grant) = match told {
        Told::Acquired(grant) => ("acquired", Some(grant)),
        Told::Renewed(grant) | Told::MustStop(grant) => ("renewed", Some(grant)),
        Told::Released(token) => {
            let mut told = json!({ "result": "released" });
            if let Some(token) = token {
                told["fencing_token"] = json!(token.0);
            }
            return named(pair, told);
        }
        _ => ("not_found", None),
    };
    let mut told = json!({ "result": result });
    if let Some(grant) = grant {
        told["fencing_token"] = json!(grant.token.0);
        told["remaining_ms"] = json!(grant.remaining.0);
        told["expires_unix_ms"] = json!(show::expires_unix_ms(grant.remaining));
        if must_stop {
            told["must_stop_in_ms"] = json!(grant.remaining.0);
        }
    }
    named(pair, told)
}

fn named(pair: &(LockName, ClientId), mut told: Value) -> Value {
    told["key"] = json!(show::text(&pair.0));
    told["owner"] = json!(pair.1.as_str());
    told
}

/// Who holds a lock, and how many wait for it. If a token was named, whether it is held with that.
pub(super) fn view(view: &LockView, now: LogTime, token: Option<Token>) -> Value {
    let holder = view.holders.first();
    let mut told = json!({
        "key": show::text(&view.name),
        "held": holder.is_some(),
        "owner": holder.map(|one| one.client.as_str()),
        "fencing_token": holder.map(|one| one.token.0),
        "remaining_ms": holder.map(|one| one.remaining.0),
        "expires_unix_ms": holder.map(|one| show::expires_unix_ms(one.remaining)),
        "held_ms": holder.map(|one| one.held_for.0),
        "holders": view.holding,
        "waiters": view.waiting,
    });
    if let Some(until) = holder.and_then(|one| one.forced_at) {
        told["must_stop_in_ms"] = json!(until.since(now).0);
    }
    if let Some(token) = token {
        told["is_current"] = json!(view.is_held_with(token));
    }
    told
}

/// Who leads.
pub(super) fn leader(house: &House) -> Value {
    let header = house.head.now();
    let name = members_of(house).into_iter().find(|one| one.id == header.leader_id);
    json!({
        "leader_id": leader_id(&header),
        "leader_name": name.map(|one| one.name),
        "leader_address": header.leader_address,
        "term": header.raft_term,
    })
}

fn leader_id(header: &v1::Header) -> Option<String> {
    Some(header.leader_id).filter(|&id| id != 0).map(json::member_id)
}

/// Whether what another one believes is so.
pub(super) fn heartbeat(house: &House, leader: Option<u64>, term: Option<u64>) -> Value {
    let header = house.head.now();
    let is_so = leader.is_none_or(|leader| leader == header.leader_id)
        && term.is_none_or(|term| term == header.raft_term);
    json!({ "leader_id": leader_id(&header), "term": header.raft_term, "agrees": is_so })
}

/// This member, and everyone else.
pub(super) fn cluster(house: &House) -> Value {
    let header = house.head.now();
    let members = members_of(house);
    let one = |member: &v1::Member| {
        json!({
            "id": json::member_id(member.id),
            "name": member.name,
            "role": member.role,
            "peer_address": member.peer_address,
            "client_address": member.client_address,
        })
    };
    json!({
        "cluster_id": json::member_id(header.cluster_id),
        "leader_id": leader_id(&header),
        "term": header.raft_term,
        "revision": header.revision,
        "version": env!("CARGO_PKG_VERSION"),
        "node": members.iter().find(|member| member.id == header.member_id).map(one),
        "members": members.iter().map(one).collect::<Vec<_>>(),
    })
}
