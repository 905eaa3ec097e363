//! ListSigningKeys, RotateSigningKey, RevokeSigningKey.
//!
//! Any member serves them: a rotation is a wish in the state, which the member that is meant fulfils
//! when it sees it.

use std::collections::BTreeSet;

use fencepost_core::command::{Action, RevokeKey, RotateKey};
use fencepost_core::signing::{KeyStage, SigningKey};
use fencepost_core::{LogTime, NodeId, PublicKey, Reason};
use fencepost_node::io::ChangeError;
use fencepost_proto::v1;

use crate::error::Failure;
use crate::house::House;
use crate::parse;
use crate::show;
use crate::signing::{Known, kid};

pub(super) async fn list(house: &House) -> Result<v1::ListSigningKeysResponse, Failure> {
    let (header, known) = house.ask(false, Known::of).await?;
    let (keys, pending) = shown(&known);
    Ok(v1::ListSigningKeysResponse { header: Some(header), keys, pending })
}

pub(super) async fn rotate(
    house: &House,
    request: &v1::RotateSigningKeyRequest,
) -> Result<v1::RotateSigningKeyResponse, Failure> {
    let after = parse::millis("after_ms", request.after_ms)?;
    let nodes = meant(house, request.member_id).await?;
    for &node in &nodes {
        house.act(Action::RotateKey(RotateKey { node, after })).await?;
    }
    // This member may have heard of its own wishes only from the leader.
    house.ask(false, |_| ()).await?;
    house.signing.rotated(&nodes).await;
    let (header, known) = house.ask(false, Known::of).await?;
    let (keys, pending) = shown(&known);
    Ok(v1::RotateSigningKeyResponse { header: Some(header), keys, pending })
}

/// The members that are meant: one, or all that sign.
async fn meant(house: &House, member: u64) -> Result<BTreeSet<NodeId>, Failure> {
    let members = house.handle.status().members;
    if member != 0 {
        let is_known = members.members.contains_key(&member);
        let named = || BTreeSet::from([NodeId(member)]);
        return is_known.then(named).ok_or_else(|| ChangeError::UnknownMember(member).into());
    }
    let (_, known) = house.ask(false, Known::of).await?;
    let active = known.keys.values().filter(|key| key.stage == KeyStage::Active);
    let nodes: BTreeSet<NodeId> =
        active.map(|key| key.node).filter(|node| members.members.contains_key(&node.0)).collect();
    if nodes.is_empty() { Err(Reason::SigningKeyUnknown.into()) } else { Ok(nodes) }
}

pub(super) async fn revoke(
    house: &House,
    request: &v1::RevokeSigningKeyRequest,
) -> Result<v1::RevokeSigningKeyResponse, Failure> {
    let (_, known) = house.ask(false, Known::of).await?;
    let key = known.named(&request.kid).ok_or(Reason::SigningKeyUnknown)?;
    // Whoever revokes a key that leaked must not be told to try again, if that can be helped.
    house.insist(Action::RevokeKey(RevokeKey { key })).await?;
    let (header, known) = house.ask(false, Known::of).await?;
    let (keys, pending) = shown(&known);
    Ok(v1::RevokeSigningKeyResponse { header: Some(header), keys, pending })
}

fn shown(known: &Known) -> (Vec<v1::SigningKey>, Vec<u64>) {
    let mut keys: Vec<_> =
        known.keys.iter().map(|(bytes, key)| one(bytes, key, known.now)).collect();
    keys.sort_by(|one, other| {
        (one.member_id, other.since_ms, &one.kid).cmp(&(other.member_id, one.since_ms, &other.kid))
    });
    (keys, known.rotations.keys().map(|node| node.0).collect())
}

fn one(bytes: &PublicKey, key: &SigningKey, now: LogTime) -> v1::SigningKey {
    let (state, due) = match key.stage {
        KeyStage::Next(due) => ("next", due.since(now)),
        KeyStage::Active => ("active", Default::default()),
        KeyStage::Retired => ("retired", Default::default()),
        KeyStage::Revoked => ("revoked", Default::default()),
    };
    v1::SigningKey {
        kid: kid(bytes),
        member_id: key.node.0,
        state: state.to_owned(),
        since_ms: show::millis(now.since(key.since)),
        due_ms: show::millis(due),
    }
}
