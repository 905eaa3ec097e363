//! Keeps a key of this member published, and obeys when another one is asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost_core::NodeId;
use fencepost_core::command::{Action, PublishKey};

use super::known::{Known, kid};
use super::plan::{self, Need};
use crate::house::House;
use crate::limits;

/// Looks after the keys of this member, and if it leads, after those of members that were removed.
pub(crate) async fn keep_keys(house: Arc<House>) {
    let mut known = house.signing.watch();
    let mut changes = house.head.changes();
    let mut trouble = None;
    loop {
        let seen = Arc::clone(&known.borrow_and_update());
        let told = tend(&house, &seen).await;
        let is_done = told.is_ok();
        // What fails again and again is told once.
        if told != trouble.clone().map_or(Ok(()), Err) {
            if let Err(why) = &told {
                tracing::warn!(why, "no key to sign tokens with, or not the one that is wanted");
            }
            trouble = told.err();
        }
        let retry = async {
            match is_done {
                true => std::future::pending().await,
                false => tokio::time::sleep(limits::RETRY_PAUSES.1).await,
            }
        };
        tokio::select! {
            changed = known.changed() => if changed.is_err() { return },
            changed = changes.changed() => if changed.is_err() { return },
            () = retry => {}
        }
    }
}

/// Does what has to be done, as the keys were last seen. What comes of it is seen as a change.
async fn tend(house: &Arc<House>, known: &Known) -> Result<(), String> {
    if house.head.leader().is_none() {
        // It is looked at again when there is one.
        return Ok(());
    }
    retire_removed(house, known).await?;
    let mut need = plan::need(house.node, &house.signing.keys(), known);
    if need == Need::Make {
        make(house).await?;
        need = plan::need(house.node, &house.signing.keys(), known);
    }
    if let Need::Publish(key, after) = need {
        let publish = PublishKey { node: house.node, key, after };
        let told = house.act(Action::PublishKey(publish)).await;
        told.map_err(|failure| failure.message)?;
        tracing::info!(
            kid = kid(&key),
            after_ms = after.0,
            "a key to sign tokens with is published"
        );
    }
    if need == Need::Nothing {
        for key in plan::spent(house.node, &house.signing.keys(), known) {
            forget(house, key).await?;
            tracing::info!(kid = kid(&key), "a key that signs no more was removed");
        }
    }
    Ok(())
}

/// A member that was removed signs nothing more. Its number is never used again.
async fn retire_removed(house: &Arc<House>, known: &Known) -> Result<(), String> {
    let status = house.handle.status();
    if !status.role.leads {
        return Ok(());
    }
    let owners: BTreeSet<NodeId> =
        known.keys.values().filter(|key| !key.stage.is_spent()).map(|key| key.node).collect();
    for node in owners.into_iter().filter(|node| status.members.removed.contains(&node.0)) {
        let told = house.act(Action::RetireKeys(node)).await;
        told.map_err(|failure| failure.message)?;
    }
    Ok(())
}

/// Files are written beside the tasks, because a disk may take its time.
async fn make(house: &Arc<House>) -> Result<(), String> {
    let home = Arc::clone(house);
    let made = tokio::task::spawn_blocking(move || home.signing.make()).await;
    made.map_err(|why| why.to_string())?.map_err(|why| why.to_string())
}

async fn forget(house: &Arc<House>, key: fencepost_core::PublicKey) -> Result<(), String> {
    let home = Arc::clone(house);
    let forgotten = tokio::task::spawn_blocking(move || home.signing.forget(key)).await;
    forgotten.map_err(|why| why.to_string())?.map_err(|why| why.to_string())
}
