//! What can be measured. No key and no client is a label: both are without bound.

mod known;
mod node;
mod state;
mod tally;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use fencepost_core::query::Sizes;
use fencepost_core::work::Work;
use fencepost_core::{Event, LogTime, State};
use fencepost_node::io::Role;
use fencepost_node::shell::Handle;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use known::Known;
use state::StateNumbers;
use tally::Tally;

/// Lines of this process's log that were dropped. The writer of the log counts them; all servers of the
/// process show them.
static DROPPED_LOG_LINES: AtomicU64 = AtomicU64::new(0);

/// Counts the lines of this process's log that were dropped, because standard error was not read.
#[must_use]
pub fn dropped_log_lines() -> &'static AtomicU64 {
    &DROPPED_LOG_LINES
}

type Labels = [(&'static str, &'static str); 1];
type TwoLabels = [(&'static str, &'static str); 2];

/// What can be measured about one server. Each has its own, so that several in one process do not
/// mix.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<TwoLabels, Counter>,
    /// Those of the requests that went well, by kind.
    requests_ok: Known,
    renewals: Family<Labels, Counter>,
    grants: Counter,
    ends: Family<Labels, Counter>,
    /// The same, by cause.
    ends_known: Known,
    waits: Histogram,
    holds: Histogram,
    holders: Gauge,
    waiters: Gauge,
    pub(crate) pending: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) sessions: Gauge,
    pub(crate) sessions_ahead: Counter,
    pub(crate) connections: Gauge,
    refused: Family<Labels, Counter>,
    pub(crate) unread: Gauge,
    leader_changes: Counter,
    leases: Gauge,
    locks: Gauge,
    clients: Gauge,
    keys: Gauge,
    bytes: Gauge,
    quota: Gauge,
    work: StateNumbers,
    tally: Mutex<Tally>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// From a tenth of a millisecond to an hour.
const SECONDS: [f64; 14] =
    [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0];

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let metrics = Metrics {
            registry: Mutex::new(Registry::with_prefix("fencepost")),
            requests: Family::default(),
            requests_ok: Known::default(),
            renewals: Family::default(),
            grants: Counter::default(),
            ends: Family::default(),
            ends_known: Known::default(),
            waits: Histogram::new(SECONDS),
            holds: Histogram::new(SECONDS),
            holders: Gauge::default(),
            waiters: Gauge::default(),
            pending: Gauge::default(),
            watches: Gauge::default(),
            sessions: Gauge::default(),
            sessions_ahead: Counter::default(),
            connections: Gauge::default(),
            refused: Family::default(),
            unread: Gauge::default(),
            leader_changes: Counter::default(),
            leases: Gauge::default(),
            locks: Gauge::default(),
            clients: Gauge::default(),
            keys: Gauge::default(),
            bytes: Gauge::default(),
            quota: Gauge::default(),
            work: StateNumbers::default(),
            tally: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "What is running", build);
        registry.register("door_requests", "Requests by kind and outcome", self.requests.clone());
        registry.register("lease_renewals", "Renewals by outcome", self.renewals.clone());
        registry.register("lease_live", "Leases that are alive", self.leases.clone());
        registry.register("lock_grants", "Grants", self.grants.clone());
        registry.register("lock_live", "Locks that somebody holds or wants", self.locks.clone());
        registry.register("state_clients", "Clients that are remembered", self.clients.clone());
        registry.register("state_keys", "Keys, those of contenders included", self.keys.clone());
        let (bytes, quota) = (self.bytes.clone(), self.quota.clone());
        registry.register_with_unit("state", "What the state takes", Unit::Bytes, bytes);
        registry.register_with_unit("state_quota", "What it may take", Unit::Bytes, quota);
        registry.register("lock_ends", "Places in queues that ended, by cause", self.ends.clone());
        let (waits, holds) = (self.waits.clone(), self.holds.clone());
        registry.register_with_unit(
            "lock_wait",
            "From queueing to the grant",
            Unit::Seconds,
            waits,
        );
        registry.register_with_unit("lock_hold", "From the grant to the end", Unit::Seconds, holds);
        registry.register("lock_holders", "Contenders that hold", self.holders.clone());
        registry.register("lock_waiters", "Contenders that wait", self.waiters.clone());
        registry.register("door_pending", "Calls here that wait for a lock", self.pending.clone());
        registry.register("door_watches", "Watches here", self.watches.clone());
        registry.register("door_sessions", "Streams here", self.sessions.clone());
        registry.register(
            "sessions_ahead",
            "Sessions that had seen a later revision than this leader",
            self.sessions_ahead.clone(),
        );
        registry.register("door_connections", "Connections here", self.connections.clone());
        // They are shown before one was refused.
        for limit in ["address", "server"] {
            drop(self.refused.get_or_create(&[("limit", limit)]));
        }
        registry.register(
            "door_connections_refused",
            "Connections refused, by the limit they would exceed",
            self.refused.clone(),
        );
        registry.register_with_unit(
            "door_unread",
            "Messages that have arrived in part",
            Unit::Bytes,
            self.unread.clone(),
        );
        registry.register("raft_leader_changes", "Changes of leader", self.leader_changes.clone());
        registry.register_collector(Box::new(self.work.clone()));
    }

    /// Adds what the node itself counts.
    pub(crate) fn watch_node(&self, handle: &Handle) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(node::NodeNumbers(handle.clone())));
    }

    /// All of it, in the text format of OpenMetrics.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        text::encode(&mut out, &registry)?;
        Ok(out)
    }

    /// Counts a request and its outcome: `ok` or the code of its failure.
    pub(crate) fn request(&self, kind: &'static str, code: &'static str) {
        let find = || self.requests.get_or_create(&[("kind", kind), ("code", code)]).clone();
        match code {
            "ok" => self.requests_ok.inc(kind, find),
            _ => drop(find().inc()),
        }
    }

    /// Counts a connection that was refused because of a limit.
    pub(crate) fn refused_connection(&self, limit: &'static str) {
        self.refused.get_or_create(&[("limit", limit)]).inc();
    }

    /// Counts renewals.
    pub(crate) fn renewed(&self, alive: u64, gone: u64) {
        for (result, count) in [("alive", alive), ("gone", gone)] {
            if count > 0 {
                self.renewals.get_or_create(&[("result", result)]).inc_by(count);
            }
        }
    }

    /// Takes over what the state counts.
    pub(crate) fn state(&self, sizes: Sizes, work: &Work) {
        let gauges = [
            (&self.leases, sizes.leases),
            (&self.locks, sizes.locks),
            (&self.clients, sizes.clients),
            (&self.keys, sizes.keys),
        ];
        for (gauge, size) in gauges {
            gauge.set(i64::try_from(size).unwrap_or(i64::MAX));
        }
        self.bytes.set(crate::show::signed(sizes.bytes));
        self.quota.set(crate::show::signed(sizes.quota));
        self.work.see(work);
    }

    /// How many hold, and how many wait.
    pub(crate) fn crowd(&self) -> (u64, u64) {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |count: i64| u64::try_from(count).unwrap_or_default();
        (count(tally.holders), count(tally.waiters))
    }

    pub(crate) fn role(&self, role: Role) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if role.leader.is_some() && tally.leader != role.leader {
            tally.leader = role.leader;
            self.leader_changes.inc();
        }
    }

    /// Counts who holds and who waits anew. It looks at every lock, so it is for the beginning.
    pub(crate) fn recount(&self, state: &State) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.recount(state);
        self.show(&tally);
    }

    /// Takes in what happened.
    pub(crate) fn events(&self, events: &[Arc<Event>], now: LogTime) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            let noted = tally.note(event, now);
            if noted.granted {
                self.grants.inc();
            }
            if let Some(cause) = noted.ended {
                let cause = crate::show::cause(cause);
                self.ends_known.inc(cause, || self.ends.get_or_create(&[("cause", cause)]).clone());
            }
            if let Some(waited) = noted.waited {
                self.waits.observe(seconds(waited));
            }
            if let Some(held) = noted.held {
                self.holds.observe(seconds(held));
            }
        }
        self.show(&tally);
    }

    fn show(&self, tally: &Tally) {
        self.holders.set(tally.holders);
        self.waiters.set(tally.waiters);
    }
}

fn seconds(length: fencepost_core::Millis) -> f64 {
    std::time::Duration::from_millis(length.0).as_secs_f64()
}
