//! What servers and clients cost that have nothing to do.

use std::fs;
use std::path::Path;
use std::time::Duration;

use fencepost_client::{BootTime, Client};

use crate::cluster::Cluster;
use crate::support::{Running, Server};

/// How long they are left alone: the length of a lease that ends by itself.
const SPAN: Duration = Duration::from_secs(5);
/// A process that has nothing to do may use this share of one core at most: one part of so many.
const SHARE: u32 = 20;
/// So often in a second its threads may wake up.
const WAKE_UPS: u64 = 500;

/// What a process has cost since it was started.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// On a core.
    cpu: Duration,
    /// How often a thread has waited for something.
    waits: u64,
}

impl Cost {
    fn of(process: &Running) -> Cost {
        let mut cost = Cost { cpu: Duration::ZERO, waits: 0 };
        let tasks = format!("/proc/{}/task", process.id());
        for task in fs::read_dir(tasks).expect("it runs") {
            let task = task.expect("it runs").path();
            cost.cpu += cpu(&task);
            cost.waits += waits(&task);
        }
        cost
    }

    fn since(self, before: Cost) -> Cost {
        Cost {
            cpu: self.cpu.saturating_sub(before.cpu),
            waits: self.waits.saturating_sub(before.waits),
        }
    }
}

/// How long a thread has been on a core. Nothing if it has just ended.
fn cpu(task: &Path) -> Duration {
    let stat = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn waits(task: &Path) -> u64 {
    let status = fs::read_to_string(task.join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

// Requirements: S1-110.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_node_and_an_idle_client_use_next_to_no_cpu() {
    let cluster = Cluster::form();
    let endpoints = cluster.endpoints();
    // One that waits for a lock, one that holds it, and one that watches.
    let begin = |args: &[&str]| cluster.at(0).begin(args);
    let holds = begin(&["lock", "a", "--", "sh", "-c", "echo held; exec sleep 600"]);
    holds.out.wait_for("held");
    let waits = begin(&["lock", "a", "--", "true"]);
    waits.err.wait_for("waiting for a");
    let watches = begin(&["watch", "k"]);
    let client = Client::builder().endpoints(endpoints.split(',')).name("clock");
    let client = client.connect().await.expect("the cluster answers");
    let lease = client.lease(SPAN).without_keep_alive().grant().await.expect("it is granted");
    let mut ends = client.watch("clock").no_put();
    ends.started().await.expect("it begins");
    client.kv().put_leased("clock", "1", &lease).await.expect("it lives");

    let servers = cluster.servers.iter().flatten().map(|Server { process, .. }| process);
    let all: Vec<&Running> = servers.chain([&holds, &waits, &watches]).collect();
    let before: Vec<Cost> = all.iter().map(|process| Cost::of(process)).collect();
    let began = BootTime::now();
    ends.next().await.expect("it goes on").expect("it goes on");
    let span = BootTime::now().since(began);
    for (process, before) in all.iter().zip(before) {
        let cost = Cost::of(process).since(before);
        assert!(cost.cpu < span / SHARE, "{cost:?} in {span:?}: {:?}", process.err.all());
        let most = WAKE_UPS * (span.as_secs() + 1);
        assert!(cost.waits < most, "{cost:?} in {span:?}: {:?}", process.err.all());
    }
}
