//! A snapshot of a large state while leases are renewed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_core::command::{Acquire, LeaseRef};
use fencepost_core::{Action, LeaseId, LockName};
use fencepost_node::config::NodeConfig;
use fencepost_node::io::{Class, RequestId};
use fencepost_node::shell::{Delivery, Handle};
use hdrhistogram::Histogram;

use crate::bars::Bars;
use crate::client::{Client, encoded};
use crate::leases::{grant, renewal};
use crate::{cluster, node};

const LEASES: u64 = 1_000;
const LOCKS: u64 = 1_000_000;
const TTL: Duration = Duration::from_secs(600);
const QUIET: Duration = Duration::from_secs(10);
/// One renewal after the other: a hundred a second, for ten leases each.
const GAP: Duration = Duration::from_millis(10);
const LEASES_EACH: u64 = 10;

pub(crate) fn report(root: &Path, bars: &mut Bars) {
    println!("a snapshot of {LOCKS} held locks on 3 nodes, under 100 renewals a second");
    let (cluster, leader) = cluster(root, "snapshot", 3, &NodeConfig::new(0));
    let handle = node(&cluster, leader).handle();
    let start = Instant::now();
    grant(handle, LEASES, 1, TTL);
    acquire_all(handle);
    println!("  the locks were taken in {:.1} s", start.elapsed().as_secs_f64());
    settle(handle);
    let before = handle.status();
    let client = Client::new(handle, Class::Renewal);
    let start = Instant::now();
    let without = renew_until(&client, || start.elapsed() >= QUIET);
    let start = Instant::now();
    let saving = {
        let handle = handle.clone();
        std::thread::spawn(move || handle.save())
    };
    let during = renew_until(&client, || saving.is_finished());
    let took = start.elapsed();
    let id = saving.join().expect("it does not panic").expect("a snapshot is made");
    let after = handle.status();
    let at = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64;
    for (name, one) in [("without", &without), ("during", &during)] {
        println!(
            "  renewals {name} it: {}, p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms",
            one.len(),
            at(one, 0.5) / 1e3,
            at(one, 0.99) / 1e3,
            one.max() as f64 / 1e3
        );
    }
    println!("  the snapshot up to entry {} took {:.1} s", id.index, took.as_secs_f64());
    bars.check(after.role == before.role, "no change of leaders");
    let (quiet, busy) = (at(&without, 0.99), at(&during, 0.99));
    let ratio = busy / quiet;
    bars.check(ratio <= 5.0, &format!("p99 during it is {ratio:.1} times as long (bar: 5)"));
    drop(client);
    cluster.stop();
}

fn acquire_all(handle: &Handle) {
    let client = Client::new(handle, Class::Ordinary);
    let mut next = 0;
    client.closed_loop(1_024, None, || {
        next += 1;
        let lease = LeaseRef::from(LeaseId(i64::try_from(next % LEASES + 1).expect("small")));
        let name = LockName::from(format!("bench/lock/{next:07}").as_str());
        let acquire = Acquire { name, lease, ..Acquire::default() };
        (next <= LOCKS).then(|| encoded(Action::Acquire(acquire)))
    });
}

/// Waits until the snapshots are made that filling the state has called for.
fn settle(handle: &Handle) {
    let mut last = handle.status().snapshot;
    loop {
        let newer = |status: &fencepost_node::shell::Status| status.snapshot != last;
        match handle.board().wait_until(Duration::from_secs(10), newer) {
            Ok(status) => last = status.snapshot,
            Err(_) => return,
        }
    }
}

/// Renews evenly until it is `over`, and measures each renewal in microseconds.
fn renew_until(client: &Client, mut over: impl FnMut() -> bool) -> Histogram<u64> {
    let mut micros = Histogram::new(3).expect("three digits are possible");
    let mut open: BTreeMap<RequestId, Instant> = BTreeMap::new();
    let mut due = Instant::now();
    let mut sent = 0;
    loop {
        let is_over = over();
        if is_over && open.is_empty() {
            return micros;
        }
        let now = Instant::now();
        if now >= due && !is_over {
            let command = renewal(sent % (LEASES / LEASES_EACH), LEASES_EACH, sent);
            open.insert(client.send(command), due);
            (due, sent) = (due + GAP, sent + 1);
            continue;
        }
        let wait = due.saturating_duration_since(now).max(Duration::from_millis(1));
        for (request, delivery) in client.answers(wait) {
            assert!(matches!(delivery, Delivery::Answer(Ok(_))), "{delivery:?}");
            let since = open.remove(&request).expect("it was sent");
            let passed = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
            micros.record(passed).expect("it fits");
        }
    }
}
