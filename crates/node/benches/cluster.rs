//! Whole clusters over real sockets and real syncs, beside what the disk can do in the same run.
//!
//! `cargo bench -p fencepost-node --bench cluster` prints three reports and exits with 1 if a bar
//! is missed: commands in a closed loop, idle leases, and a snapshot under renewals. Name one of
//! `throughput`, `leases`, `snapshot` to run it alone.

#![expect(clippy::print_stdout, reason = "the report goes to standard output")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::cast_precision_loss, reason = "figures in a report")]

#[path = "cluster/bars.rs"]
mod bars;
#[path = "cluster/client.rs"]
mod client;
#[path = "cluster/disk.rs"]
mod disk;
#[path = "cluster/leases.rs"]
mod leases;
#[path = "cluster/processor.rs"]
mod processor;
#[path = "cluster/snapshot.rs"]
mod snapshot;
#[path = "cluster/throughput.rs"]
mod throughput;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_node::shell::RunningNode;
use fencepost_node::shell::cluster::Cluster;

use bars::Bars;

type Part = fn(&Path, &mut Bars);

fn main() -> ExitCode {
    let parts: [(&str, Part); 3] = [
        ("throughput", throughput::report),
        ("leases", leases::report),
        ("snapshot", snapshot::report),
    ];
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let root = folder();
    let mut bars = Bars::default();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            part(&root, &mut bars);
        }
    }
    fs::remove_dir_all(root).ok();
    bars.verdict()
}

/// A folder beside the build, because temporary folders are often in memory.
fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-bench");
    fs::remove_dir_all(&root).ok();
    root
}

/// A new cluster with a leader, and the leader's place.
fn cluster(root: &Path, name: &str, nodes: usize, config: &NodeConfig) -> (Cluster, usize) {
    let dirs: Vec<PathBuf> = (1..=nodes).map(|node| root.join(format!("{name}-{node}"))).collect();
    for dir in &dirs {
        fs::remove_dir_all(dir).ok();
    }
    let cluster = Cluster::start(&dirs, config).expect("the folders are new");
    let leader = cluster.leader(Duration::from_secs(30)).expect("a leader is elected");
    (cluster, leader)
}

fn node(cluster: &Cluster, place: usize) -> &RunningNode {
    &cluster.nodes()[place]
}
