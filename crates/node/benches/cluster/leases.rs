//! A hundred thousand leases that do nothing but live.

use std::path::Path;
use std::time::{Duration, Instant};

use fencepost_core::command::{LeaseGrant, LeaseRef, LeaseRenew, Renewal};
use fencepost_core::{Action, ClientId, LeaseId, Millis};
use fencepost_node::config::NodeConfig;
use fencepost_node::io::Class;
use fencepost_node::shell::{Delivery, Handle};

use crate::bars::Bars;
use crate::client::{Client, encoded};
use crate::{cluster, node, processor};

const CLIENTS: u64 = 1_000;
const LEASES_EACH: u64 = 100;
const TTL: Duration = Duration::from_secs(30);
const LENGTH: Duration = Duration::from_secs(20);

pub(crate) fn report(root: &Path, bars: &mut Bars) {
    println!(
        "{} idle leases of {} s on 3 nodes, {CLIENTS} clients renew {LEASES_EACH} each every {} s",
        CLIENTS * LEASES_EACH,
        TTL.as_secs(),
        TTL.as_secs() / 3
    );
    let (cluster, leader) = cluster(root, "leases", 3, &NodeConfig::new(0));
    let leading = node(&cluster, leader);
    let handle = leading.handle();
    grant(handle, CLIENTS, LEASES_EACH, TTL);
    let client = Client::new(handle, Class::Renewal);
    // All threads of the leader have names that begin with its own.
    let prefix = handle.status().name;
    let before = handle.status();
    let cpu = processor::thread_seconds(&prefix);
    let start = Instant::now();
    let sent = renew_evenly(&client, CLIENTS, LEASES_EACH, TTL / 3, LENGTH);
    let seconds = start.elapsed().as_secs_f64();
    let cpu = (processor::thread_seconds(&prefix) - cpu) / seconds * 100.0;
    let after = handle.status();
    let syncs = (after.syncs - before.syncs) as f64 / seconds;
    println!(
        "  {:.0} renewals/s in {:.0} commands/s, {syncs:.1} syncs/s, {cpu:.1} % of a core",
        (sent * LEASES_EACH) as f64 / seconds,
        sent as f64 / seconds
    );
    bars.check(syncs <= 50.0, &format!("{syncs:.1} syncs/s on the leader (bar: 50)"));
    bars.check(cpu < 10.0, &format!("{cpu:.1} % of a core on the leader (bar: 10)"));
    bars.check(after.role.term == before.role.term, "no change of leaders");
    drop(client);
    cluster.stop();
}

/// Grants the leases `1..=clients * each`, and waits until all are there.
pub(crate) fn grant(handle: &Handle, clients: u64, each: u64, ttl: Duration) {
    let granting = Client::new(handle, Class::Ordinary);
    let ttl = Millis(u64::try_from(ttl.as_millis()).expect("a short time"));
    let mut next = 0;
    granting.closed_loop(1_024, None, || {
        next += 1;
        let id = LeaseId(i64::try_from(next).expect("a small number"));
        let client = ClientId::from(format!("client {}", next / each).as_str());
        let grant = LeaseGrant { id, ttl, client, ..LeaseGrant::default() };
        (next <= clients * each).then(|| encoded(Action::LeaseGrant(grant)))
    });
}

/// Sends one renewal for each client in turn, spread evenly, for so long. How many were sent.
pub(crate) fn renew_evenly(
    client: &Client,
    clients: u64,
    each: u64,
    every: Duration,
    length: Duration,
) -> u64 {
    let start = Instant::now();
    let gap = every / u32::try_from(clients).expect("a small number");
    let (mut sent, mut answered) = (0_u64, 0);
    while start.elapsed() < length {
        let due = start + gap * u32::try_from(sent).expect("a small number");
        let now = Instant::now();
        if now >= due {
            client.send(renewal(sent % clients, each, sent));
            sent += 1;
            continue;
        }
        for (_, delivery) in client.answers(due - now) {
            assert!(matches!(delivery, Delivery::Answer(Ok(_))), "{delivery:?}");
            answered += 1;
        }
    }
    while answered < sent {
        answered += client.answers(Duration::from_secs(1)).len() as u64;
    }
    sent
}

/// One command that renews all leases of a client.
pub(crate) fn renewal(client: u64, each: u64, number: u64) -> Vec<u8> {
    let ids = client * each + 1..=(client + 1) * each;
    let renewals = ids.map(|id| {
        let lease = LeaseRef::from(LeaseId(i64::try_from(id).expect("a small number")));
        Renewal { lease, number }
    });
    encoded(Action::LeaseRenew(LeaseRenew { renewals: renewals.collect() }))
}
