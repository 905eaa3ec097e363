//! How it was measured: the words around the figures, as far as they are about this run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{About, Name};
use crate::figures::Figures;
use crate::table::spread;

/// What is measured by whom, and in which turns.
pub(super) fn introduction(about: &About) -> String {
    let names: Vec<String> =
        about.versions.iter().map(|(name, says)| with_version(title(name), says)).collect();
    let names = match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.join(""),
    };
    format!("{names}, {INTRODUCTION}")
}

/// The name, and the version out of what the system says about itself, if there is one in it.
fn with_version(title: &str, says: &str) -> String {
    let words = says.split_whitespace().map(|word| word.trim_start_matches("v="));
    let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    match words.into_iter().find(is_version) {
        Some(version) => format!("{title} {version}"),
        None => title.to_owned(),
    }
}

/// How people write the name of a system.
fn title(name: &str) -> &str {
    match name {
        "zookeeper" => "ZooKeeper",
        "redis" => "Redis",
        "redis-aof" => "Redis with a log",
        "fencepost" => "Fencepost",
        "baseline" => "an earlier build of it",
        other => other,
    }
}

const INTRODUCTION: &str = "\
measured in one run by one load generator, in turns. All of them
and the load share the machine, so **the ratios are what matters**; the absolute numbers move with the
machine. A cell is the median, and in brackets the least and the greatest of the repetitions. Anyone
can repeat it ([benchmarking.md](benchmarking.md) tells how); this page is written by:
";

/// What the rows are called.
const ROWS: [(&str, &str); 13] = [
    (
        "etcd",
        "the lock service `v3lock`, one `Lock` and one `Unlock` for a cycle, with the crate \
         `etcd-client` 0.20; a connection and a lease for each client, clients spread over the nodes. W3, \
         W5, W6, W7, keys and watches are made with bare stubs of the published schemas, over the same gRPC library as \
         Fencepost's.",
    ),
    (
        "zookeeper",
        "the recipe of ephemeral sequential nodes (create, list the children, watch the one before, delete), \
         with the crate `zookeeper-client` 0.11; a session for each client, clients spread over the nodes. \
         The nodes above the locks are made beforehand, so that they cost nothing. It is warmed for 8 s \
         first, because its compiler needs that. W3, W5, W6 and W7 are made with the client of \
         `zookeeper-lean`.",
    ),
    (
        "zookeeper-lean",
        "the same recipe with a client written for this benchmark: what a client made for nothing else \
         would reach. Nobody has that client, so there is no bar.",
    ),
    (
        "redis",
        "`SET NX PX` and a script that compares and deletes, with the crate `redis`; a connection for each \
         client, and nothing on disk. Redis has no queue: whoever waits asks again every 5 to 15 ms.",
    ),
    ("redis-shared", "the same with one connection for all clients."),
    ("redis-aof", "the same as `redis` with `appendfsync always`."),
    (
        "fencepost",
        "a session on a connection of its own, with a lease, for each client: messages with their lengths, \
         as the SDK sends them, with a client written for this benchmark that leaves out renewals and \
         reconnecting. It goes to the leader, as the SDK does by itself.",
    ),
    ("fencepost-grpc", "the same as `fencepost` over gRPC."),
    (
        "fencepost-sdk",
        "the SDK as it comes, one client for the whole process, a lease for every lock.",
    ),
    (
        "fencepost-sdk-own",
        "one SDK client for each logical client, each with its own thread: what as many small processes \
         would cost.",
    ),
    ("fencepost-shared", "waiters with a lease each, over a hundred connections."),
    ("fencepost-etcd", "etcd's API, asked of Fencepost with the same client as etcd."),
    (
        "baseline",
        "an earlier build of Fencepost; `baseline` as `fencepost`, `baseline-sdk` as `fencepost-sdk`. The \
         load generator is the present one.",
    ),
];

const LEFT_OUT: &str = "\
## What was not measured

- Networks: everything is on loopback. A real network adds its round trips to all systems.
- Disks that are slower or faster than this one, and machines with more cores.
- Load and servers on different machines: on these cores, a cheaper client also makes a faster server.
- Other clients of the same systems, and tuned settings. All run with what they come with.
- Reads. Only the locks themselves, leases, and watches are compared.
";

/// Everything behind the tables.
pub(super) fn text(figures: &Figures, about: &About) -> String {
    let names: Vec<Name<'_>> = figures.names().filter_map(Name::read).collect();
    let who: BTreeSet<&str> = names.iter().map(|name| name.who).collect();
    let workloads: BTreeSet<&str> = names.iter().map(|name| name.workload).collect();
    let mut out = String::from("## Who is who\n\n");
    for (row, is) in ROWS.iter().filter(|(row, _)| who.contains(row)) {
        let _ = writeln!(out, "- `{row}`: {is}");
    }
    out.push_str("\n## Method\n\n");
    let _ = writeln!(
        out,
        "- Machine: {}. Load averages before: {}; after: {}.",
        about.machine, about.load.0, about.load.1
    );
    if about.is_realtime {
        out.push_str(REALTIME);
    }
    let _ = writeln!(
        out,
        "- A bare write of 256 bytes with `fdatasync` on that disk, into a file that has its blocks, in the same run: p50 {} ms, p99 \
         {} ms.",
        spread(figures.spread("sync.1n.1.disk.p50_ms")),
        spread(figures.spread("sync.1n.1.disk.p99_ms"))
    );
    let _ = writeln!(
        out,
        "- {} rounds, and in each W1 and W2 {} times, so that a minute in which the machine is slow does not \
         decide. All systems take their turn at one point before the next comes, every other \
         time in the opposite order. Each waits, for a second at most, until a fifth of a core or less is busy; then \
         {} ms of warming up, and {} ms that count.{}",
        about.rounds,
        about.laps,
        about.warm_ms,
        about.counted_ms,
        if workloads.iter().any(|one| ONCE.contains(one)) { ONE_ROUND } else { "" }
    );
    out.push_str(
        "- The load generator is one process with two threads; closed loop, except for a watch.\n",
    );
    for (workload, how) in METHOD.iter().filter(|(workload, _)| workloads.contains(workload)) {
        let _ = writeln!(out, "- {}: {how}", workload.to_uppercase());
    }
    for (system, flags) in FLAGS.iter().filter(|(system, _)| who.contains(system)) {
        let _ = writeln!(out, "- Flags of {}: {flags}. All else is the default.", title(system));
    }
    out.push_str("\nVersions:\n\n");
    for (name, version) in &about.versions {
        let _ = writeln!(out, "- {name}: {version}");
    }
    out.push('\n');
    out.push_str(LEFT_OUT);
    out
}

/// What is measured in the first round only.
const ONCE: [&str; 4] = ["w4", "w6", "growth", "keys"];
const ONE_ROUND: &str = " Memory, expiry and growth: one round.";

const REALTIME: &str = "\
- Generator and servers ran with real-time priority, all of them with the same (`chrt --rr 1`), so that other
  work on the machine did not decide. Without it, whoever sleeps until a disk has synced is woken a tick of
  4 ms late on a busy machine, and whoever is busy all the time is not.
";

const METHOD: [(&str, &str); 7] = [
    (
        "w1",
        "a new name for every cycle, except where a lock is a node with children: there each client has one.",
    ),
    (
        "w2",
        "that no two clients hold the lock at once is checked; a run in which they do has no figure. Where \
         etcd is measured, it is started anew for each, because a used one may never again grant to a waiter. \
         So is Fencepost for the many waiters of one process, whose leases would stay behind.",
    ),
    (
        "w3",
        "`LeaseKeepAlive` has one stream for each connection; where a session is a connection, 10,000 \
         connections are pinged by 64 tasks; and `PEXPIRE` is what renews a key. Whatever keeps leases \
         beyond the connection that made them is started anew, so that nothing else is measured beside them.",
    ),
    ("w4", "64 connections with a lease each; memory is read 5 s after the last lock."),
    (
        "w5",
        "one client that wants new locks; an attempt may take 100 ms, then the next member is asked. All \
         timings are the defaults. A fresh cluster for each.",
    ),
    (
        "w6",
        "60 pairs of a holder that falls silent and a waiter behind it, begun over two seconds.",
    ),
    ("w7", "the process is started with an empty directory, and a lock is tried every 2 ms."),
];

const FLAGS: [(&str, &str); 5] = [
    ("etcd", "`--quota-backend-bytes 8 GiB --log-level warn`"),
    (
        "zookeeper",
        "`tickTime=2000 initLimit=10 syncLimit=5 maxClientCnxns=0`, `-Xmx1000m`, no admin server",
    ),
    ("redis", "`--save \"\" --appendonly no`"),
    ("redis-aof", "`--save \"\" --appendonly yes --appendfsync always`"),
    ("fencepost", "`--log-level warn`"),
];
