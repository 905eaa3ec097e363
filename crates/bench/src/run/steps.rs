//! One round: every workload, and within it every system.

use std::time::Duration;

use super::fleet::Fleet;
use super::{Outcome, Plan, Workload, say};
use crate::client::Kind;
use crate::latency::Latency;
use crate::server::{System, program_bytes};
use crate::table::number;
use crate::work::renew::Shape;
use crate::work::{Window, cycle, expiry, failover, handoff, hold, renew, start, watch};

/// Waiters of W2.
const WAITERS: usize = 100;
/// Writes a second beside a watch.
const EVENTS_PER_S: u32 = 1_000;
/// Locks beside which the cost of a cycle is taken as the base of growth.
const HELD_FEW: u64 = 1_000;
const GROWTH_CLIENTS: usize = 64;

pub(super) struct Steps<'a> {
    pub(super) plan: &'a Plan,
    pub(super) nodes: usize,
    pub(super) round: usize,
    pub(super) fleet: &'a mut Fleet,
    pub(super) out: &'a mut Outcome,
}

impl Steps<'_> {
    pub(super) async fn run(mut self) {
        let workloads = self.plan.workloads.clone();
        let has = |workload| workloads.contains(&workload);
        if has(Workload::W1) {
            self.cycles().await;
        }
        if has(Workload::W2) {
            self.hand_overs().await;
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

    /// The kinds of clients that are wanted, of these.
    fn wanted(&self, kinds: &[Kind]) -> Vec<Kind> {
        let is_wanted = |kind: &&Kind| {
            let system = kind.system();
            self.plan.peers.contains(&system) && (self.nodes == 1 || system.is_replicated())
        };
        kinds.iter().filter(is_wanted).copied().collect()
    }

    fn add(&mut self, workload: &str, point: &str, who: &str, metric: &str, value: f64) {
        let name = format!("{workload}.{}n.{point}.{who}.{metric}", self.nodes);
        self.out.figures.add(name, value);
    }

    fn add_latency(&mut self, workload: &str, point: &str, who: &str, latency: &Latency) {
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
            Kind::Redis,
            Kind::RedisShared,
            Kind::RedisAof,
            Kind::Fencepost,
            Kind::Baseline,
            Kind::FencepostSdk,
            Kind::BaselineSdk,
            Kind::FencepostSdkOwn,
        ]);
        for clients in self.plan.clients.clone() {
            for &kind in &kinds {
                let outcome = self.cycle(kind, clients).await;
                self.out.note(&format!("w1 {} {clients}", kind.name()), outcome);
            }
        }
    }

    async fn cycle(&mut self, kind: Kind, clients: usize) -> anyhow::Result<()> {
        let window = self.plan.window;
        let server = self.fleet.kept(kind).await?;
        let done = cycle::run(kind, server, clients, window).await?;
        let (point, who) = (clients.to_string(), kind.name());
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
            Kind::Redis,
            Kind::RedisAof,
            Kind::Fencepost,
            Kind::Baseline,
        ]) {
            let outcome = self.hand_over(kind).await;
            self.out.note(&format!("w2 {}", kind.name()), outcome);
        }
        if self.nodes == 1 && self.plan.peers.contains(&System::Fencepost) {
            for waiters in [WAITERS, self.plan.waiters] {
                let outcome = self.many_waiters(waiters).await;
                self.out.note(&format!("w2 fencepost-shared {waiters}"), outcome);
            }
        }
    }

    async fn hand_over(&mut self, kind: Kind) -> anyhow::Result<()> {
        let (window, name) = (self.plan.window, format!("handoff-{}", self.round));
        let done = if kind == Kind::Etcd {
            // A used etcd may never again grant to a waiter of its lock service.
            let server = self.fleet.fresh(kind).await?;
            let done = handoff::run(kind, &server, WAITERS, &name, window).await;
            server.stop().await;
            done?
        } else {
            handoff::run(kind, self.fleet.kept(kind).await?, WAITERS, &name, window).await?
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
        let window = Window { warm: self.plan.window.warm * 3, ..self.plan.window };
        let name = format!("shared-{}-{waiters}", self.round);
        let server = self.fleet.kept(Kind::Fencepost).await?;
        let done = handoff::run_shared(server, waiters, &name, window).await?;
        self.add_hand_over("fencepost-shared", waiters, &done);
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
            let outcome = self.renew(kind).await;
            self.out.note(&format!("w3 {}", kind.name()), outcome);
        }
    }

    async fn renew(&mut self, kind: Kind) -> anyhow::Result<()> {
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
        for (point, shape) in shapes {
            let server = self.fleet.kept(kind).await?;
            let done = renew::run(kind, server, *shape, window).await?;
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

    async fn failovers(&mut self) {
        for kind in self.wanted(&[Kind::Etcd, Kind::Zookeeper, Kind::Fencepost]) {
            let outcome = self.failover(kind).await;
            self.out.note(&format!("w5 {}", kind.name()), outcome);
        }
    }

    async fn failover(&mut self, kind: Kind) -> anyhow::Result<()> {
        let mut server = self.fleet.fresh(kind).await?;
        let done = failover::run(kind, &mut server).await;
        server.stop().await;
        let done = done?;
        let ms = done.gap.as_secs_f64() * 1e3;
        self.add("w5", "kill", kind.name(), "ms", ms);
        if self.round == 1 {
            for at in done.successes {
                self.add("w5", "timeline", kind.name(), "at_ms", at);
            }
        }
        say(&format!("  w5 3n {:<18} {:>7} ms", kind.name(), number(ms)));
        Ok(())
    }

    async fn memory(&mut self) {
        for kind in self.wanted(&[Kind::Etcd, Kind::Zookeeper, Kind::Redis, Kind::Fencepost]) {
            let outcome = self.held(kind).await;
            self.out.note(&format!("w4 {}", kind.name()), outcome);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of locks, divided by")]
    async fn held(&mut self, kind: Kind) -> anyhow::Result<()> {
        let server = self.fleet.fresh(kind).await?;
        let mut held = Vec::new();
        hold::locks(kind, &server, &mut held, 0..1).await?;
        let before = hold::settled(&server).await?;
        self.add("w4", "0", kind.name(), "rss", before);
        let mut from = 1;
        for quarter in 1..=4 {
            let upto = self.plan.held * quarter / 4;
            hold::locks(kind, &server, &mut held, from..upto).await?;
            from = upto;
            let after = hold::settled(&server).await?;
            self.add("w4", &upto.to_string(), kind.name(), "rss", after);
            let bytes = (after - before) / upto as f64;
            self.add("w4", &upto.to_string(), kind.name(), "bytes", bytes);
            say(&format!(
                "  w4 1n {:<18} {upto:>7} held {:>7} bytes each",
                kind.name(),
                number(bytes)
            ));
        }
        drop(held);
        server.stop().await;
        Ok(())
    }

    async fn expiries(&mut self) {
        for kind in self.wanted(&[
            Kind::Etcd,
            Kind::Zookeeper,
            Kind::Redis,
            Kind::RedisAof,
            Kind::Fencepost,
        ]) {
            let outcome = self.expiry(kind).await;
            self.out.note(&format!("w6 {}", kind.name()), outcome);
        }
    }

    async fn expiry(&mut self, kind: Kind) -> anyhow::Result<()> {
        let name = format!("expiry-{}", self.round);
        let mut all = expiry::run(kind, self.fleet.kept(kind).await?, &name).await?;
        all.sort_by(f64::total_cmp);
        for overshoot in &all {
            self.add("w6", "expiry", kind.name(), "overshoot_ms", *overshoot);
        }
        // Of sixty, the largest but none is the 99th percentile.
        let (p50, p99) = (all.get(all.len() / 2), all.last());
        let (p50, p99) = (p50.copied().unwrap_or(f64::NAN), p99.copied().unwrap_or(f64::NAN));
        self.add("w6", "expiry", kind.name(), "p50_ms", p50);
        self.add("w6", "expiry", kind.name(), "p99_ms", p99);
        say(&format!("  w6 1n {:<18} p50 {} ms, p99 {} ms", kind.name(), number(p50), number(p99)));
        Ok(())
    }

    async fn starts(&mut self) {
        for kind in self.wanted(&[
            Kind::Etcd,
            Kind::Zookeeper,
            Kind::Redis,
            Kind::RedisAof,
            Kind::Fencepost,
        ]) {
            let outcome = self.start(kind).await;
            self.out.note(&format!("w7 {}", kind.name()), outcome);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "the size of a file, for people")]
    async fn start(&mut self, kind: Kind) -> anyhow::Result<()> {
        let done = start::run(kind, &self.plan.places).await?;
        let ms = done.first_lock.as_secs_f64() * 1e3;
        self.add("w7", "start", kind.name(), "ms", ms);
        self.add("w7", "start", kind.name(), "idle_mib", done.idle_bytes / 1_048_576.0);
        if self.round == 1 {
            let size = program_bytes(kind.system(), &self.plan.places)? as f64;
            self.add("w7", "start", kind.name(), "program_mib", size / 1_048_576.0);
        }
        say(&format!("  w7 1n {:<18} first lock after {} ms", kind.name(), number(ms)));
        Ok(())
    }

    /// Two servers that differ in nothing but what is held, asked in turns.
    #[expect(clippy::cast_precision_loss, reason = "a number of cycles, divided by")]
    async fn growth(&mut self) -> anyhow::Result<()> {
        if !self.plan.peers.contains(&System::Fencepost) {
            return Ok(());
        }
        let mut servers = Vec::new();
        for held in [HELD_FEW, self.plan.held_growth] {
            let server = self.fleet.fresh(Kind::Fencepost).await?;
            let kept = hold::many_locks(&server, held).await?;
            say(&format!("  growth: {held} locks are held"));
            servers.push((held, server, kept));
        }
        let window = self.plan.window;
        for _ in 0..self.plan.rounds {
            for (held, server, _) in &servers {
                let done = cycle::run(Kind::Fencepost, server, GROWTH_CLIENTS, window).await?;
                let seconds = window.counted.as_secs_f64();
                let cpu_us = done.cores.servers * seconds * 1e6 / done.cycles.max(1) as f64;
                let point = held.to_string();
                self.add("growth", &point, "fencepost", "per_s", done.per_s);
                self.add("growth", &point, "fencepost", "cpu_us", cpu_us);
                say(&format!(
                    "  growth {held:>8} held {:>9}/s, {} us of CPU each",
                    number(done.per_s),
                    number(cpu_us)
                ));
            }
        }
        for (_, server, kept) in servers {
            drop(kept);
            server.stop().await;
        }
        Ok(())
    }

    async fn door(&mut self) {
        for kind in self.wanted(&[Kind::Etcd, Kind::FencepostEtcd]) {
            // With W1, etcd's own cycles were measured in this round already.
            if kind == Kind::FencepostEtcd || !self.plan.workloads.contains(&Workload::W1) {
                let outcome = self.cycle(kind, 64).await;
                self.out.note(&format!("door {} lock", kind.name()), outcome);
            }
            let outcome = self.watched(kind).await;
            self.out.note(&format!("door {} watch", kind.name()), outcome);
            if self.round == 1 {
                let outcome = self.leased_keys(kind).await;
                self.out.note(&format!("door {} memory", kind.name()), outcome);
            }
        }
    }

    async fn watched(&mut self, kind: Kind) -> anyhow::Result<()> {
        let length: Duration = self.plan.watch;
        let late = watch::run(self.fleet.kept(kind).await?, EVENTS_PER_S, length).await?;
        self.add_latency("watch", &EVENTS_PER_S.to_string(), kind.name(), &late);
        say(&format!(
            "  watch 1n {:<18} p50 {} ms, p99 {} ms",
            kind.name(),
            number(late.quantile_ms(0.5)),
            number(late.quantile_ms(0.99))
        ));
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of keys, divided by")]
    async fn leased_keys(&mut self, kind: Kind) -> anyhow::Result<()> {
        let server = self.fleet.fresh(kind).await?;
        let before = hold::settled(&server).await?;
        hold::leased_keys(&server, self.plan.held).await?;
        let bytes = (hold::settled(&server).await? - before) / self.plan.held as f64;
        self.add("keys", &self.plan.held.to_string(), kind.name(), "bytes", bytes);
        say(&format!("  keys 1n {:<18} {} bytes each", kind.name(), number(bytes)));
        server.stop().await;
        Ok(())
    }
}
