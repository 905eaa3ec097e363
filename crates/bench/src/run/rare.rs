//! The workloads of a round that have servers of their own, or take their time: failover, memory,
//! expiry, start, growth, and etcd's API.

use std::time::Duration;

use super::steps::Steps;
use super::{Workload, say};
use crate::client::Kind;
use crate::server::{System, program_bytes};
use crate::table::number;
use crate::work::{cycle, expiry, failover, hold, start, watch};

/// Writes a second beside a watch.
const EVENTS_PER_S: u32 = 1_000;
/// Locks beside which the cost of a cycle is taken as the base of growth.
const HELD_FEW: u64 = 1_000;
const GROWTH_CLIENTS: usize = 64;

impl Steps<'_> {
    pub(super) async fn failovers(&mut self) {
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

    pub(super) async fn memory(&mut self) {
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

    pub(super) async fn expiries(&mut self) {
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

    pub(super) async fn starts(&mut self) {
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
    pub(super) async fn growth(&mut self) -> anyhow::Result<()> {
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
        for _ in 0..self.plan.rounds * self.plan.laps {
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

    pub(super) async fn door(&mut self) {
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
