//! What a client is told over WebSocket.

use fencepost_core::event::KeyValue;
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
    let (result, grant) = match told {
        Told::Acquired(grant) => ("acquired", Some(grant)),
        Told::Renewed(grant) => ("renewed", Some(grant)),
        Told::NotFound => ("not_found", None),
        _ => ("released", None),
    };
    let mut told = fields([("result", json!(result))]);
    match grant {
        Some(grant) => {
            let token = json!({ "key": label.key, "value": grant.token.0 });
            told.insert("fencingToken".to_owned(), token);
            told.insert("remainingMs".to_owned(), json!(grant.remaining.0));
        }
        None => drop(told.insert("key".to_owned(), json!(label.key))),
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

/// Everyone in the cluster.
pub(super) fn peers(label: &Label, house: &House) -> String {
    let mut told = json::leader(&house.head.now());
    let (mut set, mut addresses) = (Map::new(), Map::new());
    for member in members_of(house) {
        let id = json::member_id(member.id);
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
