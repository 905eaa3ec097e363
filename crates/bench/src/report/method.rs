//! How it was measured: the words around the figures.

use std::fmt::Write as _;

use super::About;
use crate::figures::Figures;
use crate::table::spread;

pub(super) const INTRODUCTION: &str = "\
Fencepost, etcd, ZooKeeper and Redis, measured in one run by one load generator, in turns. All of them
and the load share the machine, so **the ratios are what matters**; the absolute numbers move with the
machine. A cell is the median, and in brackets the least and the greatest of the repetitions. Anyone
can repeat it; this page is written by:
";

/// What the rows are called.
const ROWS: &str = "\
## Who is who

- `etcd`: the lock service `v3lock`, one `Lock` and one `Unlock` for a cycle; a connection and a lease
  for each client, clients spread over the nodes. The calls are made with stubs generated from the
  published schemas, over the same gRPC library as Fencepost's.
- `zookeeper`: the recipe of ephemeral sequential nodes, with a client written for this benchmark that
  does nothing but that; a session for each client, clients spread over the nodes. The nodes above the
  locks are made beforehand, so that they cost nothing. It is warmed for 8 s first, because its
  compiler needs that.
- `redis`: `SET NX PX` and a script that compares and deletes; a connection for each client.
  `redis-shared` has one connection for all. `redis-aof` has `appendfsync always`; the others have
  nothing on disk. Redis has no queue: whoever waits asks again every 5 to 15 ms.
- `fencepost`: a session on a connection of its own, with a lease, for each client, as lean as the
  clients of the others: messages with their lengths, as the SDK sends them. It goes to the leader, as
  the SDK does by itself. `fencepost-grpc` is the same over gRPC.
- `fencepost-sdk`: the SDK as it comes, one client for the whole process, a lease for every lock.
- `fencepost-sdk-own`: one SDK client for each logical client, each with its own thread: what as many
  small processes would cost.
- `fencepost-shared`: waiters with a lease each, over a hundred connections.
- `fencepost-etcd`: etcd's API, asked of Fencepost with the same client as etcd.
";

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
    let mut out = String::from(ROWS);
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
        "- {} rounds. In each, all systems take their turn at one point before the next comes; {} ms \
         of warming up, then {} ms that count. Memory, expiry and growth: one round.",
        about.rounds, about.warm_ms, about.counted_ms
    );
    out.push_str(METHOD);
    for version in &about.versions {
        let _ = writeln!(out, "- {version}");
    }
    out.push('\n');
    out.push_str(LEFT_OUT);
    out
}

const REALTIME: &str = "\
- The machine was busy with other work, so generator and servers ran with real-time priority, all of them
  with the same (`chrt --rr 1`). Without it, whoever sleeps until a disk has synced is woken a tick of 4 ms
  late, and whoever is busy all the time is not.
";

const METHOD: &str = "\
- The load generator is one process with two threads; closed loop, except for the watch.
- W1: a new name for every cycle, except for ZooKeeper, where each client has one parent node.
- W2: that no two clients hold the lock at once is checked; a run in which they do has no figure. etcd
  is started anew for each, because a used one may never again grant to a waiter.
- W3: etcd has one `LeaseKeepAlive` stream for each connection; a session of ZooKeeper is a
  connection, so there 10,000 connections are pinged by 64 tasks; Redis has `PEXPIRE`.
- W4: 64 connections with a lease each; memory is read 5 s after the last lock.
- W5: one client that wants new locks; an attempt may take 100 ms, then the next member is asked. All
  timings are the defaults. A fresh cluster for each.
- W6: 60 pairs of a holder that falls silent and a waiter behind it, begun over two seconds.
- W7: the process is started with an empty directory, and a lock is tried every 2 ms.
- Flags: etcd `--quota-backend-bytes 8 GiB --log-level warn`; ZooKeeper `tickTime=2000 initLimit=10
  syncLimit=5 maxClientCnxns=0`, `-Xmx1000m`, no admin server; Redis `--save \"\"` with `--appendonly
  no`, or `--appendonly yes --appendfsync always`; Fencepost `--log-level warn`. All else is the default.

Versions:

";
