//! Commands of 64 bytes in a closed loop from one client thread on the leader.

use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_core::command::Put;
use fencepost_core::{Action, Key, Value};
use fencepost_node::config::NodeConfig;
use fencepost_node::io::Class;

use crate::bars::Bars;
use crate::client::{Client, encoded};
use crate::{cluster, disk, node, processor};

const COMMAND_BYTES: usize = 64;
const IN_FLIGHT: [usize; 4] = [1, 64, 256, 1_024];
const WARM_UP: Duration = Duration::from_millis(700);
const LENGTH: Duration = Duration::from_secs(4);
const LENGTH_OF_DISK: Duration = Duration::from_secs(2);

/// What one row of the report says.
struct Row {
    nodes: usize,
    in_flight: usize,
    rate: f64,
    p50: u64,
    p99: u64,
    /// For each command: syncs of the leader's log, and microseconds of all processors.
    syncs: f64,
    cpu: f64,
    /// What the log alone writes in batches of the same size, a second.
    raw: f64,
}

pub(crate) fn report(root: &Path, bars: &mut Bars) {
    println!("commands of {COMMAND_BYTES} bytes in a closed loop, real sockets, real syncs");
    println!(
        "  {:>5}  {:>9}  {:>9}  {:>7}  {:>7}  {:>9}  {:>8}  {:>10}  {:>6}",
        "nodes",
        "in flight",
        "commits/s",
        "p50 us",
        "p99 us",
        "syncs/cmd",
        "cpu us/c",
        "raw log/s",
        "ratio"
    );
    let mut rows = Vec::new();
    // The disk alone is measured before and after, and the better figure counts: whatever else the
    // machine does meanwhile must not make the bars lower.
    let mut bare = u64::MAX;
    for nodes in [1, 3] {
        for in_flight in IN_FLIGHT {
            let raw = || disk::log(root, in_flight, COMMAND_BYTES, LENGTH_OF_DISK);
            let bare_p50 = || disk::bare(root, 128, LENGTH_OF_DISK).value_at_quantile(0.5);
            bare = bare.min(if in_flight == 1 { bare_p50() } else { u64::MAX });
            let before = raw();
            let mut row = row(root, nodes, in_flight);
            row.raw = before.max(raw());
            bare = bare.min(if in_flight == 1 { bare_p50() } else { u64::MAX });
            row.print();
            rows.push(row);
        }
    }
    println!("  a bare write of 128 bytes and fdatasync: p50 {bare} us");
    check(&rows, bare, bars);
}

impl Row {
    fn print(&self) {
        let Row { nodes, in_flight, rate, p50, p99, syncs, cpu, raw } = self;
        println!(
            "  {nodes:>5}  {in_flight:>9}  {rate:>9.0}  {p50:>7}  {p99:>7}  {syncs:>9.4}  \
             {cpu:>8.2}  {raw:>10.0}  {:>6.2}",
            rate / raw
        );
    }
}

fn check(rows: &[Row], bare_p50: u64, bars: &mut Bars) {
    let find = |nodes, in_flight| {
        let found = rows.iter().find(|row| (row.nodes, row.in_flight) == (nodes, in_flight));
        found.expect("every pair was measured")
    };
    let busy = find(3, 256);
    let share = busy.rate / busy.raw;
    bars.check(
        busy.rate >= 100_000.0 || share >= 0.6,
        &format!(
            "3 nodes, 256 in flight: {:.0} commits/s (bar: 100,000, or 0.6 of the raw log; it is \
             {share:.2})",
            busy.rate
        ),
    );
    let syncs = busy.syncs;
    bars.check(syncs <= 0.05, &format!("{syncs:.3} syncs a command there (bar: 0.05)"));
    let alone = find(1, 1);
    bars.check(
        alone.p50 <= 2 * bare_p50,
        &format!("1 node, 1 in flight: p50 {} us (bar: twice {bare_p50} us)", alone.p50),
    );
}

fn row(root: &Path, nodes: usize, in_flight: usize) -> Row {
    let (cluster, leader) = cluster(root, "throughput", nodes, &NodeConfig::new(0));
    let handle = node(&cluster, leader).handle();
    let client = Client::new(handle, Class::Ordinary);
    let mut count = 0;
    let mut more = || {
        count += 1;
        Some(put(count))
    };
    client.closed_loop(in_flight, Some(Instant::now() + WARM_UP), &mut more);
    let (syncs, cpu) = (handle.status().syncs, processor::process_seconds());
    let measured = client.closed_loop(in_flight, Some(Instant::now() + LENGTH), &mut more);
    let cpu = (processor::process_seconds() - cpu) * 1e6 / measured.done as f64;
    let syncs = (handle.status().syncs - syncs) as f64 / measured.done as f64;
    drop(client);
    cluster.stop();
    Row {
        nodes,
        in_flight,
        rate: measured.rate(),
        p50: measured.micros.value_at_quantile(0.5),
        p99: measured.micros.value_at_quantile(0.99),
        syncs,
        cpu,
        raw: 0.0,
    }
}

/// A put of just the right length, on one of many keys.
fn put(count: u64) -> Vec<u8> {
    const KEYS: u64 = 4_096;
    let key = Key::from(format!("bench/{:010}", count % KEYS).as_str());
    let put = |value: &str| {
        let value = Value::from(value);
        encoded(Action::Put(Put { key: key.clone(), value, ..Put::default() }))
    };
    let lacking = COMMAND_BYTES - put("").len();
    put(&"x".repeat(lacking))
}
