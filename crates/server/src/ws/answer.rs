//! What a client is told over WebSocket.

use fencepost_core::event::KeyValue;
use fencepost_core::query::LockView;
use fencepost_core::{LogTime, Token};
use fencepost_node::io::ChangeError;
use fencepost_proto::v1;
use serde_json::{Map, Value, json};

use super::request::Label;
use crate::error::Failure;
use crate::grpc::members_of;
use crate::house::House;
use crate::json;
use crate::owners::Told;
use crate::show;

/// An answer to the request with this label.
fn labelled(label: &Label, success: bool, mut told: Map<String, Value>) -> String {
    told.insert("success".to_owned(), json!(success));
    if let Some(command) = label.command {
        told.insert("commandType".to_owned(), json!(command));
    }
    if let Some(id) = &label.id {
        told.insert("requestId".to_owned(), id.clone());
    }
    Value::Object(told).to_string()
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// It was not done.
pub(super) fn failed(label: &Label, failure: &Failure) -> String {
    let mut told = fields([("error", json::problem(failure))]);
    if let Some(key) = &label.key {
        told.insert("key".to_owned(), json!(key));
    }
    labelled(label, false, told)
}

/// What came of a request for a lock.
pub(super) fn lock(label: &Label, told: Told) -> String {
    let must_stop = matches!(told, Told::MustStop(_));
    let token_of = |token: Token| json!({ "key": label.key, "value": token.0 });
    let (result, grant) = match told {
        Told::Acquired(grant) => ("acquired", Some(grant)),
        Told::Renewed(grant) | Told::MustStop(grant) => ("renewed", Some(grant)),
        Told::Released(token) => {
            let mut told = fields([("result", json!("released")), ("key", json!(label.key))]);
            if let Some(token) = token {
                told.insert("fencingToken".to_owned(), token_of(token));
            }
            return labelled(label, true, told);
        }
        _ => ("not_found", None),
    };
    let mut told = fields([("result", json!(result))]);
    match grant {
        Some(grant) => {
            told.insert("fencingToken".to_owned(), token_of(grant.token));
            told.insert("remainingMs".to_owned(), json!(grant.remaining.0));
            told.insert("expiresAt".to_owned(), json!(show::expires_unix_ms(grant.remaining)));
            if must_stop {
                told.insert("mustStopInMs".to_owned(), json!(grant.remaining.0));
            }
        }
        None => drop(told.insert("key".to_owned(), json!(label.key))),
    }
    labelled(label, true, told)
}

/// Who holds a lock, and how many wait for it. If a token was named, whether it is held with that.
pub(super) fn shown(label: &Label, view: &LockView, now: LogTime, token: Option<Token>) -> String {
    let mut told = fields([
        ("key", json!(label.key)),
        ("held", json!(!view.holders.is_empty())),
        ("waiters", json!(view.waiting)),
    ]);
    if let Some(holder) = view.holders.first() {
        told.insert("clientId".to_owned(), json!(holder.client.as_str()));
        let held = json!({ "key": label.key, "value": holder.token.0 });
        told.insert("fencingToken".to_owned(), held);
        told.insert("remainingMs".to_owned(), json!(holder.remaining.0));
        told.insert("expiresAt".to_owned(), json!(show::expires_unix_ms(holder.remaining)));
        if let Some(until) = holder.forced_at {
            told.insert("mustStopInMs".to_owned(), json!(until.since(now).0));
        }
    }
    if let Some(token) = token {
        told.insert("isCurrent".to_owned(), json!(view.is_held_with(token)));
    }
    labelled(label, true, told)
}

/// A key was written.
pub(super) fn appended(label: &Label, header: &v1::Header) -> String {
    let told = fields([("key", json!(label.key)), ("revision", json!(header.revision))]);
    labelled(label, true, told)
}

/// A key was read.
pub(super) fn read(label: &Label, header: &v1::Header, kv: Option<&KeyValue>) -> String {
    let mut told = fields([
        ("key", json!(label.key)),
        ("revision", json!(header.revision)),
        ("found", json!(kv.is_some())),
    ]);
    if let Some(kv) = kv {
        told.insert("data".to_owned(), json!(show::text(&kv.value)));
        told.insert("modRevision".to_owned(), json!(kv.mod_revision.0));
    }
    labelled(label, true, told)
}

/// The members have changed.
pub(super) fn changed(label: &Label, header: &v1::Header) -> String {
    labelled(label, true, json::leader(header))
}

/// Everyone in the cluster, as its leader knows it. Another member tells who leads.
pub(super) fn peers(label: &Label, house: &House) -> String {
    let header = house.head.now();
    let mut told = json::leader(&header);
    if header.leader_id != house.node.0 {
        let failure = Failure::from(ChangeError::NotLeader { leader: None });
        told.insert("error".to_owned(), json::problem(&failure));
        return labelled(label, false, told);
    }
    let (mut set, mut addresses) = (Map::new(), Map::new());
    for member in members_of(house) {
        let id = json::member_key(member.id);
        addresses.insert(id.clone(), json!(member.peer_address));
        let one = json!({
            "name": member.name, "role": member.role, "clientAddr": member.client_address,
        });
        set.insert(id, one);
    }
    told.insert("peerSet".to_owned(), Value::Object(set));
    told.insert("peerAddress".to_owned(), Value::Object(addresses));
    labelled(label, true, told)
}

/// Who leads, for those who want to talk to nobody else. A success if that is this member.
pub(super) fn who_leads(house: &House) -> String {
    let header = house.head.now();
    labelled(&Label::default(), header.leader_id == house.node.0, json::leader(&header))
}
