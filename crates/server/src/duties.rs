//! What a server does without being asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::command::{Action, NodeLost};
use fencepost_core::{Boot, NodeId};
use fencepost_proto::v1::cluster_service_server::SERVICE_NAME as CLUSTER_SERVICE;
use fencepost_proto::v1::lock_service_server::SERVICE_NAME as LOCK_SERVICE;
use tokio::time::MissedTickBehavior;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::house::House;
use crate::limits;
use crate::shares::first_boot;
use crate::watch::Said;

/// How often the members are looked at before one of them is given up.
const LOOKS_PER_PATIENCE: u32 = 10;

/// Tells the health service whether a leader can be reached: without one nothing can be served.
pub(crate) async fn report_health(house: Arc<House>, reporter: HealthReporter) {
    let mut changes = house.head.changes();
    loop {
        let status = match house.head.leader() {
            Some(_) => ServingStatus::Serving,
            None => ServingStatus::NotServing,
        };
        for service in ["", LOCK_SERVICE, CLUSTER_SERVICE] {
            reporter.set_service_status(service, status).await;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Reminds the fan-out to tell how far the watches are.
pub(crate) async fn tell_progress(house: Arc<House>) {
    let mut ticks = tokio::time::interval(limits::PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        house.fan_out.say(Said::Progress);
    }
}

/// Tells those who wait for a lock how they stand.
pub(crate) async fn tell_places(house: Arc<House>) {
    let mut ticks = tokio::time::interval(limits::PLACES_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        ticks.tick().await;
        last = house.tell_places(last).await;
    }
}

/// Tells the cluster which calls are gone: those of this member's earlier lives, and, if it leads,
/// those of members that were removed.
pub(crate) async fn tell_of_lost_calls(house: Arc<House>) {
    let mut changes = house.head.changes();
    let mut own_is_told = house.boot.0 <= 1;
    let mut told = BTreeSet::new();
    loop {
        let status = house.handle.status();
        if status.role.leader.is_some() && !own_is_told {
            own_is_told = tell(&house, house.node, Boot(first_boot(house.boot).0 - 1)).await;
        }
        if status.role.leads {
            for &member in status.members.removed.difference(&told.clone()) {
                // A number is never used again, so all its lives are over.
                if tell(&house, NodeId(member), Boot(u64::MAX)).await {
                    told.insert(member);
                }
            }
        }
        let is_done = own_is_told && status.members.removed.is_subset(&told);
        let retry = async {
            match is_done || !status.role.leads && own_is_told {
                true => std::future::pending().await,
                false => tokio::time::sleep(limits::RETRY_PAUSES.1).await,
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = retry => {}
        }
    }
}

/// Tells the cluster that the calls of members are gone that nobody has reached for so long. Their
/// places would otherwise stand in the way until their leases end, and nobody may be left to be told
/// of a grant.
pub(crate) async fn give_up_lost_members(house: Arc<House>, patience: Duration) {
    let mut ticks = tokio::time::interval(patience / LOOKS_PER_PATIENCE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut gone: BTreeMap<u64, u32> = BTreeMap::new();
    loop {
        ticks.tick().await;
        let status = house.handle.status();
        let is_connected = |id: u64| status.links.get(&id).is_some_and(|link| link.is_connected);
        let others = status.members.members.keys().copied().filter(|&id| id != status.id);
        let away: BTreeSet<u64> =
            others.filter(|&id| status.role.leads && !is_connected(id)).collect();
        gone.retain(|id, _| away.contains(id));
        for id in away {
            let looks = gone.entry(id).or_default();
            *looks += 1;
            if *looks > LOOKS_PER_PATIENCE {
                give_up(&house, NodeId(id)).await;
            }
        }
    }
}

async fn give_up(house: &House, node: NodeId) {
    let ask = house.ask(true, move |state| {
        // One that is given up already ends by itself.
        state.bound_boot(node).filter(|&boot| state.lost_boot(node).is_none_or(|lost| lost < boot))
    });
    if let Ok((_, Some(boot))) = ask.await
        && tell(house, node, boot).await
    {
        tracing::warn!(node = node.0, "the calls of a member that is gone for too long end");
    }
}

async fn tell(house: &House, node: NodeId, boot: Boot) -> bool {
    house.act(Action::NodeLost(NodeLost { node, boot })).await.is_ok()
}
