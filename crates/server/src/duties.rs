//! What a server does without being asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost_core::command::{Action, NodeLost};
use fencepost_core::{Boot, NodeId};
use fencepost_proto::v1::cluster_service_server::SERVICE_NAME as CLUSTER_SERVICE;
use fencepost_proto::v1::lock_service_server::SERVICE_NAME as LOCK_SERVICE;
use tokio::time::MissedTickBehavior;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::house::House;
use crate::limits;
use crate::watch::Said;

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

/// Tells the cluster which calls are gone: those of this member's earlier lives, and, if it leads,
/// those of members that were removed.
pub(crate) async fn tell_of_lost_calls(house: Arc<House>) {
    let mut changes = house.head.changes();
    let own = house.call;
    let mut own_is_told = own.boot.0 <= 1;
    let mut told = BTreeSet::new();
    loop {
        let status = house.handle.status();
        if status.role.leader.is_some() && !own_is_told {
            own_is_told = tell(&house, own.node, Boot(own.boot.0 - 1)).await;
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

async fn tell(house: &House, node: NodeId, boot: Boot) -> bool {
    house.act(Action::NodeLost(NodeLost { node, boot })).await.is_ok()
}
