//! One round: every workload, and within it every system.

use std::time::Duration;

use anyhow::Context as _;

use super::fleet::Fleet;
use super::{Outcome, Plan, Workload, say, within};
use crate::client::Kind;
use crate::latency::Latency;
use crate::machine;
use crate::profile::Recording;
use crate::server::{Server, System};
use crate::table::number;
use crate::work::renew::Shape;
use crate::work::{Window, cycle, handoff, renew};

/// How long each of very many waiters may need until it stands in the queue.
const QUEUEING_EACH: Duration = Duration::from_micros(400);
/// Waiters of W2.
const WAITERS: usize = 100;

pub(super) struct Steps<'a> {
    pub(super) plan: &'a Plan,
    pub(super) nodes: usize,
    pub(super) round: usize,
    /// Which lap of the round.
    pub(super) lap: usize,
    pub(super) fleet: &'a mut Fleet,
    pub(super) out: &'a mut Outcome,
}

impl Steps<'_> {
    pub(super) async fn run(mut self) {
        let workloads = self.plan.workloads.clone();
        let has = |workload| workloads.contains(&workload);
        for lap in 1..=self.plan.laps {
            self.lap = lap;
            let outcome = self.bare_syncs();
            self.out.note("sync", outcome);
            if has(Workload::W1) {
                self.cycles().await;
            }
            if has(Workload::W2) {
                self.hand_overs().await;
            }
        }
        if has(Workload::W2) {
            self.waiters_of_one_process().await;
        }
        if has(Workload::W3) {
            self.renewals().await;
        }
        if has(Workload::W5) && self.nodes == 3 {
            self.failovers().await;
        }
        if self.nodes > 1 {
            return;
        }
        if has(Workload::W4) && self.round == 1 {
            self.memory().await;
        }
        if has(Workload::W6) && self.round == 1 {
            self.expiries().await;
        }
        if has(Workload::W7) {
            self.starts().await;
        }
        if has(Workload::Growth) && self.round == 1 {
            let outcome = self.growth().await;
            self.out.note("growth", outcome);
        }
        if has(Workload::Door) {
            self.door().await;
        }
    }

    /// What the disk takes by itself.
    fn bare_syncs(&mut self) -> anyhow::Result<()> {
        let sync = machine::bare_sync(&self.plan.places.data)?;
        self.out.figures.add("sync.1n.1.disk.p50_ms", sync.quantile_ms(0.5));
        self.out.figures.add("sync.1n.1.disk.p99_ms", sync.quantile_ms(0.99));
        Ok(())
    }

    /// The kinds of clients that are wanted, of these; every other lap in the opposite order, so that
    /// nobody always comes after the same neighbour.
    pub(super) fn wanted(&self, kinds: &[Kind]) -> Vec<Kind> {
        let is_wanted = |kind: &&Kind| {
            let system = kind.system();
            let is_left_out = self.plan.quick && kind.has_no_bar();
            let can_be = self.nodes == 1 || system.is_replicated();
            self.plan.peers.contains(&system) && can_be && !is_left_out
        };
        let mut wanted: Vec<Kind> = kinds.iter().filter(is_wanted).copied().collect();
        if !(self.round + self.lap).is_multiple_of(2) {
            wanted.reverse();
        }
        wanted
    }

    /// Notes how a cell went that an earlier build may not know how to answer.
    fn note(&mut self, cell: &str, kind: Kind, outcome: anyhow::Result<()>) {
        let outcome = if kind.system() == System::Baseline {
            outcome.context("the earlier build does not do this as the present one does")
        } else {
            outcome
        };
        self.out.note(cell, outcome);
    }

    pub(super) fn add(&mut self, workload: &str, point: &str, who: &str, metric: &str, value: f64) {
        let name = format!("{workload}.{}n.{point}.{who}.{metric}", self.nodes);
        self.out.figures.add(name, value);
    }

    pub(super) fn add_latency(
        &mut self,
        workload: &str,
        point: &str,
        who: &str,
        latency: &Latency,
    ) {
        for (metric, quantile) in
            [("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("p999_ms", 0.999)]
        {
            self.add(workload, point, who, metric, latency.quantile_ms(quantile));
        }
        self.add(workload, point, who, "max_ms", latency.max_ms());
    }

    async fn cycles(&mut self) {
        let kinds = self.wanted(&[
            Kind::Etcd,
            Kind::Zookeeper,
            Kind::ZookeeperLean,
            Kind::Redis,
            Kind::RedisShared,
            Kind::RedisAof,
            Kind::Fencepost,
            Kind::Baseline,
            Kind::FencepostSdk,
            Kind::BaselineSdk,
            Kind::FencepostSdkOwn,
            Kind::FencepostGrpc,
        ]);
        for clients in self.plan.clients.clone() {
            for &kind in &kinds {
                let outcome = self.cycle(kind, clients).await;
                self.note(&format!("w1 {} {clients}", kind.name()), kind, outcome);
            }
        }
    }

    pub(super) async fn cycle(&mut self, kind: Kind, clients: usize) -> anyhow::Result<()> {
        let window = self.plan.window;
        let (point, who) = (clients.to_string(), kind.name());
        let cell = format!("w1-{}n-{point}-{who}", self.nodes);
        let is_ours = matches!(kind.system(), System::Fencepost | System::Baseline);
        // The last one, when everything is warm.
        let is_last = self.round == self.plan.rounds && self.lap == self.plan.laps;
        let is_profiled = self.plan.profile && is_ours && is_last;
        let server = self.fleet.kept(kind).await?;
        machine::settle().await;
        let recording = if is_profiled {
            let length = window.warm + window.counted;
            Some(Recording::start(server.pids(), length, &self.plan.places.out, &cell)?)
        } else {
            None
        };
        let done = within(window, cycle::run(kind, server, clients, window)).await?;
        if let Some(recording) = recording {
            for written in recording.finish().await? {
                say(&format!("  profile: {}", written.display()));
            }
        }
        self.add("w1", &point, who, "per_s", done.per_s);
        self.add_latency("w1", &point, who, &done.acquire);
        self.add("w1", &point, who, "cores_clients", done.cores.clients);
        self.add("w1", &point, who, "cores_servers", done.cores.servers);
        self.add("w1", &point, who, "cores_others", done.cores.others);
        self.add("w1", &point, who, "cpu_us", done.cores.servers * 1e6 / done.per_s);
        self.add("w1", &point, who, "cpu_us_clients", done.cores.clients * 1e6 / done.per_s);
        say(&format!(
            "  w1 {}n {who:<18} {point:>4} clients {:>9}/s  p50 {:>6} ms  p99 {:>6} ms  cores {:.2}/{:.2}/{:.2}",
            self.nodes,
            number(done.per_s),
            number(done.acquire.quantile_ms(0.5)),
            number(done.acquire.quantile_ms(0.99)),
            done.cores.clients,
            done.cores.servers,
            done.cores.others,
        ));
        Ok(())
    }

    async fn hand_overs(&mut self) {
        for kind in self.wanted(&[
            Kind::Etcd,
            Kind::Zookeeper,
            Kind::ZookeeperLean,
            Kind::Redis,
            Kind::RedisAof,
            Kind::Fencepost,
            Kind::Baseline,
        ]) {
            let outcome = self.hand_over(kind).await;
            self.note(&format!("w2 {}", kind.name()), kind, outcome);
        }
    }

    async fn waiters_of_one_process(&mut self) {
        let has_time = !self.plan.quick && self.nodes == 1;
        if has_time && self.plan.peers.contains(&System::Fencepost) {
            for waiters in [WAITERS, self.plan.waiters] {
                let outcome = self.many_waiters(waiters).await;
                self.out.note(&format!("w2 fencepost-shared {waiters}"), outcome);
            }
        }
    }

    async fn hand_over(&mut self, kind: Kind) -> anyhow::Result<()> {
        let (window, name) =
            (self.plan.window, format!("{}-{}-{}", kind.name(), self.round, self.lap));
        let done = if kind == Kind::Etcd {
            // A used etcd may never again grant to a waiter of its lock service.
            let server = self.fleet.fresh(kind).await?;
            machine::settle().await;
            let done = within(window, handoff::run(kind, &server, WAITERS, &name, window)).await;
            server.stop().await;
            done?
        } else {
            let server = self.fleet.kept(kind).await?;
            machine::settle().await;
            within(window, handoff::run(kind, server, WAITERS, &name, window)).await?
        };
        self.add_hand_over(kind.name(), WAITERS, &done);
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "a difference of a few grants")]
    fn add_hand_over(&mut self, who: &str, waiters: usize, done: &handoff::Handoff) {
        let point = waiters.to_string();
        self.add("w2", &point, who, "per_s", done.per_s);
        self.add("w2", &point, who, "us", 1e6 / done.per_s);
        self.add("w2", &point, who, "unfairness", done.unfairness as f64);
        self.add_latency("w2", &point, who, &done.latency);
        self.add("w2", &point, who, "cores_servers", done.cores.servers);
        self.add("w2", &point, who, "cores_others", done.cores.others);
        self.add("w2", &point, who, "cpu_us", done.cores.servers * 1e6 / done.per_s);
        say(&format!(
            "  w2 {}n {who:<18} {point:>5} waiters {:>8}/s  p50 {:>6} ms  p99 {:>6} ms  grants differ by {}  cores {:.2}/{:.2}/{:.2}",
            self.nodes,
            number(done.per_s),
            number(done.latency.quantile_ms(0.5)),
            number(done.latency.quantile_ms(0.99)),
            done.unfairness,
            done.cores.clients,
            done.cores.servers,
            done.cores.others,
        ));
    }

    async fn many_waiters(&mut self, waiters: usize) -> anyhow::Result<()> {
        // They need a while until all of them stand in the queue.
        let queueing = QUEUEING_EACH * u32::try_from(waiters)?;
        let window = Window { warm: self.plan.window.warm + queueing, ..self.plan.window };
        let name = format!("shared-{}-{waiters}", self.round);
        // Their leases outlive them, and nobody else is to be measured beside those.
        let server = self.fleet.fresh(Kind::Fencepost).await?;
        machine::settle().await;
        let done = within(window, handoff::run_shared(&server, waiters, &name, window)).await;
        server.stop().await;
        self.add_hand_over("fencepost-shared", waiters, &done?);
        Ok(())
    }

    async fn renewals(&mut self) {
        for kind in self.wanted(&[
            Kind::Etcd,
            Kind::Zookeeper,
            Kind::Redis,
            Kind::RedisAof,
            Kind::Fencepost,
            Kind::Baseline,
        ]) {
            let outcome = self.renewals_of(kind).await;
            self.note(&format!("w3 {}", kind.name()), kind, outcome);
        }
    }

    async fn renewals_of(&mut self, kind: Kind) -> anyhow::Result<()> {
        // Sessions of ZooKeeper end with their connections, and its compiler wants to be warm. Leases of
        // the others stay, tens of thousands a round, and would weigh on whatever is measured next.
        if kind.system() == System::Zookeeper {
            return self.renew(kind, None).await;
        }
        let server = self.fleet.fresh(kind).await?;
        let outcome = self.renew(kind, Some(&server)).await;
        server.stop().await;
        outcome
    }

    async fn renew(&mut self, kind: Kind, own: Option<&Server>) -> anyhow::Result<()> {
        let (window, who) = (self.plan.window, kind.name());
        let all = renew::LEASES / renew::CONNECTIONS;
        let shapes: &[(&str, Shape)] = match kind.system() {
            // A session is a connection, and has one ping open.
            System::Zookeeper => &[("1", Shape { window: 1, leases: 1 })],
            System::Fencepost | System::Baseline => &[
                ("1", Shape { window: 1, leases: 1 }),
                ("16", Shape { window: 16, leases: 1 }),
                ("all", Shape { window: 1, leases: all }),
                ("4 x all", Shape { window: 4, leases: all }),
            ],
            _ => &[("1", Shape { window: 1, leases: 1 }), ("16", Shape { window: 16, leases: 1 })],
        };
        let mut best = 0.0_f64;
        // In a quick run only what can be the best.
        let is_slow = |shape: &Shape| shape.window == 1 && shapes.len() > 1;
        let is_wanted = |(_, shape): &&(&str, Shape)| !(self.plan.quick && is_slow(shape));
        for (point, shape) in shapes.iter().filter(is_wanted).collect::<Vec<_>>() {
            let server = match own {
                Some(own) => own,
                None => self.fleet.kept(kind).await?,
            };
            machine::settle().await;
            let done = within(window, renew::run(kind, server, *shape, window)).await?;
            self.add("w3", point, who, "per_s", done.per_s);
            self.add("w3", point, who, "cores_servers", done.cores.servers);
            self.add("w3", point, who, "cores_others", done.cores.others);
            best = best.max(done.per_s);
            say(&format!(
                "  w3 {}n {who:<18} {point:>4} in flight {:>9}/s  cores {:.2}/{:.2}/{:.2}",
                self.nodes,
                number(done.per_s),
                done.cores.clients,
                done.cores.servers,
                done.cores.others
            ));
        }
        self.add("w3", "best", who, "per_s", best);
        Ok(())
    }
}
