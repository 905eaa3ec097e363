//! What Fencepost must reach beside the others and beside an earlier build of itself, as ratios of
//! medians.

use serde::Serialize;

use crate::figures::Figures;
use crate::report::Name;

/// How much of an earlier build's speed must be left.
const REGRESSION: f64 = 0.85;
/// With this the names of all ratios beside an earlier build begin.
const EARLIER: &str = "baseline_";

/// On which side of the bar a ratio must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    AtLeast,
    AtMost,
    /// There is no bar: it is only told.
    Told,
}

/// What one figure is divided by.
#[derive(Clone, Debug, PartialEq)]
pub enum Beside {
    /// Another figure of the same run.
    Figure(String),
    /// Nothing: the figure itself is held against the bar.
    Alone,
}

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub name: String,
    pub ours: String,
    pub beside: Beside,
    pub side: Side,
    pub bar: f64,
}

/// A bar, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub name: String,
    pub ratio: f64,
    /// Nothing where a ratio is only told.
    pub bar: Option<f64>,
    pub at: &'static str,
    pub met: bool,
}

impl Verdict {
    /// Whether this is about an earlier build.
    pub fn is_regression(&self) -> bool {
        self.name.starts_with(EARLIER)
    }

    /// Whether this is about an earlier build that was faster, by more than may be.
    pub fn is_slower(&self) -> bool {
        self.is_regression() && !self.met
    }
}

impl Bar {
    fn ratio(&self, figures: &Figures) -> Option<f64> {
        let ours = figures.median(&self.ours)?;
        match &self.beside {
            Beside::Alone => Some(ours),
            Beside::Figure(theirs) => {
                Some(ours / figures.median(theirs)?).filter(|r| r.is_finite())
            }
        }
    }

    /// Nothing, if one of the figures was not measured.
    pub fn judge(&self, figures: &Figures) -> Option<Verdict> {
        let ratio = self.ratio(figures)?;
        let (at, met) = match self.side {
            Side::AtLeast => ("least", ratio >= self.bar),
            Side::AtMost => ("most", ratio <= self.bar),
            Side::Told => ("any", true),
        };
        let bar = (self.side != Side::Told).then_some(self.bar);
        Some(Verdict { name: self.name.clone(), ratio, bar, at, met })
    }
}

/// Collects bars in few words.
#[derive(Default)]
struct List(Vec<Bar>);

impl List {
    fn at_least(&mut self, name: String, ours: String, theirs: String, bar: f64) {
        let beside = Beside::Figure(theirs);
        self.0.push(Bar { name, ours, beside, side: Side::AtLeast, bar });
    }

    fn at_most(&mut self, name: &str, ours: &str, theirs: &str, bar: f64) {
        let (name, ours, beside) = (name.into(), ours.into(), Beside::Figure(theirs.into()));
        self.0.push(Bar { name, ours, beside, side: Side::AtMost, bar });
    }

    fn told(&mut self, name: String, ours: String, theirs: String) {
        let beside = Beside::Figure(theirs);
        self.0.push(Bar { name, ours, beside, side: Side::Told, bar: 0.0 });
    }

    fn alone(&mut self, name: &str, ours: &str, bar: f64) {
        let (name, ours, beside) = (name.into(), ours.into(), Beside::Alone);
        self.0.push(Bar { name, ours, beside, side: Side::AtMost, bar });
    }
}

/// What came of all bars whose figures were measured.
pub fn judge(figures: &Figures) -> Vec<Verdict> {
    all().iter().chain(&regressions(figures)).filter_map(|bar| bar.judge(figures)).collect()
}

/// All bars beside other systems.
pub fn all() -> Vec<Bar> {
    let mut list = List::default();
    cycles(&mut list);
    hand_overs(&mut list);
    renewals(&mut list);
    list.at_most("w4_etcd", "w4.1n.100000.fencepost.bytes", "w4.1n.100000.etcd.bytes", 1.0 / 3.0);
    list.at_most("w5_etcd", "w5.3n.kill.fencepost.ms", "w5.3n.kill.etcd.ms", 1.0 / 3.0);
    list.at_most("w5_zookeeper", "w5.3n.kill.fencepost.ms", "w5.3n.kill.zookeeper.ms", 1.0);
    list.alone("w6_overshoot_p99_ms", "w6.1n.expiry.fencepost.p99_ms", 100.0);
    list.at_most("w7_etcd", "w7.1n.start.fencepost.ms", "w7.1n.start.etcd.ms", 0.25);
    list.at_most(
        "growth_1k_1m",
        "growth.1n.1000000.fencepost.cpu_us",
        "growth.1n.1000.fencepost.cpu_us",
        1.3,
    );
    etcd_door(&mut list);
    lean(&mut list);
    list.0
}

/// W1: a lock is taken and given back.
fn cycles(list: &mut List) {
    // Nodes, Fencepost as, the other as, the bar. `fencepost` has a connection for each client, as
    // the others have; `fencepost-sdk` is one process with the SDK as it comes.
    let rows = [
        (1, "fencepost", "etcd", 5.0),
        (1, "fencepost", "zookeeper", 2.5),
        (1, "fencepost", "redis", 0.6),
        (3, "fencepost", "etcd", 5.0),
        (3, "fencepost", "zookeeper", 2.5),
        (1, "fencepost-sdk", "etcd", 12.0),
        (1, "fencepost-sdk", "redis", 1.5),
        (3, "fencepost-sdk", "etcd", 10.0),
    ];
    for (nodes, ours, theirs, bar) in rows {
        for clients in [64, 256] {
            let kind = if ours == "fencepost" { "" } else { "_sdk" };
            let suffix = if nodes == 1 { "" } else { "_3n" };
            list.at_least(
                format!("w1{kind}_{clients}_{theirs}{suffix}"),
                format!("w1.{nodes}n.{clients}.{ours}.per_s"),
                format!("w1.{nodes}n.{clients}.{theirs}.per_s"),
                bar,
            );
        }
    }
    // One connection for all callers of a process on both sides: what `fencepost-sdk` is beside.
    for clients in [64, 256] {
        list.told(
            format!("w1_sdk_{clients}_redis_shared"),
            format!("w1.1n.{clients}.fencepost-sdk.per_s"),
            format!("w1.1n.{clients}.redis-shared.per_s"),
        );
    }
    list.at_most("w1_1_p50_etcd", "w1.1n.1.fencepost.p50_ms", "w1.1n.1.etcd.p50_ms", 0.6);
    list.at_most("w1_1_p50_sync", "w1.1n.1.fencepost.p50_ms", "sync.1n.1.disk.p50_ms", 3.0);
}

/// W2: a lock goes from hand to hand.
fn hand_overs(list: &mut List) {
    let rows = [(1, "etcd", 4.0), (1, "zookeeper", 3.0), (3, "etcd", 6.0), (3, "zookeeper", 2.5)];
    for (nodes, theirs, bar) in rows {
        let suffix = if nodes == 1 { "" } else { "_3n" };
        list.at_least(
            format!("w2_{theirs}{suffix}"),
            format!("w2.{nodes}n.100.fencepost.per_s"),
            format!("w2.{nodes}n.100.{theirs}.per_s"),
            bar,
        );
    }
    list.at_most("w2_p99_etcd", "w2.1n.100.fencepost.p99_ms", "w2.1n.100.etcd.p99_ms", 1.0 / 3.0);
    list.at_most(
        "w2_growth_100_10000",
        "w2.1n.10000.fencepost-shared.us",
        "w2.1n.100.fencepost-shared.us",
        1.3,
    );
    list.alone("w2_fairness", "w2.1n.100.fencepost.unfairness", 1.0);
}

/// W3: leases are renewed.
fn renewals(list: &mut List) {
    for (nodes, suffix) in [(1, ""), (3, "_3n")] {
        list.at_least(
            format!("w3_etcd{suffix}"),
            format!("w3.{nodes}n.best.fencepost.per_s"),
            format!("w3.{nodes}n.best.etcd.per_s"),
            3.0,
        );
        // One lease in each message, as the others have it: the leader collects renewals for up to
        // 25 ms, and what has one in flight waits for that each time.
        for (in_flight, theirs) in
            [(1, "etcd"), (1, "zookeeper"), (1, "redis"), (16, "etcd"), (16, "redis")]
        {
            list.told(
                format!("w3_{theirs}_{in_flight}_in_flight{suffix}"),
                format!("w3.{nodes}n.{in_flight}.fencepost.per_s"),
                format!("w3.{nodes}n.{in_flight}.{theirs}.per_s"),
            );
        }
    }
}

/// etcd's API, served by Fencepost and by etcd, with the same client.
fn etcd_door(list: &mut List) {
    list.at_least(
        "door_lock_64".into(),
        "w1.1n.64.fencepost-etcd.per_s".into(),
        "w1.1n.64.etcd.per_s".into(),
        3.0,
    );
    list.at_most(
        "door_memory",
        "keys.1n.100000.fencepost-etcd.bytes",
        "keys.1n.100000.etcd.bytes",
        0.5,
    );
    list.at_most(
        "door_watch_p99",
        "watch.1n.1000.fencepost-etcd.p99_ms",
        "watch.1n.1000.etcd.p99_ms",
        1.0,
    );
}

/// ZooKeeper with a client that is made for nothing else. Nobody has that client, so there is no bar.
fn lean(list: &mut List) {
    for (nodes, suffix) in [(1, ""), (3, "_3n")] {
        for (workload, points) in [("w1", &[64, 256][..]), ("w2", &[100])] {
            for point in points {
                let at = if workload == "w1" { format!("_{point}") } else { String::new() };
                let cell = format!("{workload}.{nodes}n.{point}");
                list.told(
                    format!("{workload}{at}_zookeeper_lean{suffix}"),
                    format!("{cell}.fencepost.per_s"),
                    format!("{cell}.zookeeper-lean.per_s"),
                );
            }
        }
    }
}

/// Every cell that an earlier build was measured in too: a loss of more than 15 % is one that people
/// should know of before it lands.
fn regressions(figures: &Figures) -> Vec<Bar> {
    let mut list = List::default();
    for whole in figures.names() {
        let Some(name) = Name::read(whole) else { continue };
        let Some(kind) = name.who.strip_prefix("baseline") else { continue };
        if name.metric != "per_s" {
            continue;
        }
        let Name { workload, nodes, point, metric, .. } = name;
        let suffix = if nodes == "1n" { String::new() } else { format!("_{nodes}") };
        let shown = format!("{EARLIER}{workload}_{point}{kind}{suffix}");
        list.at_least(
            shown.replace([' ', '-'], "_"),
            format!("{workload}.{nodes}.{point}.fencepost{kind}.{metric}"),
            whole.to_owned(),
            REGRESSION,
        );
    }
    list.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn bar(side: Side) -> Bar {
        let beside = Beside::Figure("b".into());
        Bar { name: "x".into(), ours: "a".into(), beside, side, bar: 2.0 }
    }

    #[test]
    fn a_ratio_is_one_of_medians() {
        let mut figures = Figures::default();
        for (a, b) in [(10.0, 5.0), (30.0, 10.0), (20.0, 1.0)] {
            figures.add("a", a);
            figures.add("b", b);
        }
        let verdict = bar(Side::AtLeast).judge(&figures).unwrap();
        assert!((verdict.ratio - 4.0).abs() < 1e-9);
        assert!(verdict.met);
        assert!(!bar(Side::AtMost).judge(&figures).unwrap().met);
    }

    #[test]
    fn the_bar_itself_is_good_enough() {
        let mut figures = Figures::default();
        figures.add("a", 4.0);
        figures.add("b", 2.0);
        assert!(bar(Side::AtLeast).judge(&figures).unwrap().met);
        assert!(bar(Side::AtMost).judge(&figures).unwrap().met);
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let mut figures = Figures::default();
        figures.add("a", 4.0);
        assert_eq!(bar(Side::AtLeast).judge(&figures), None);
        figures.add("b", 0.0);
        assert_eq!(bar(Side::AtLeast).judge(&figures), None, "nothing can be divided by zero");
    }

    #[test]
    fn what_is_only_told_is_never_missed() {
        let mut figures = Figures::default();
        figures.add("w1.1n.64.fencepost.per_s", 1.0);
        figures.add("w1.1n.64.zookeeper-lean.per_s", 1_000.0);
        let verdicts = judge(&figures);
        let [told] = &verdicts[..] else { panic!("one ratio: {verdicts:?}") };
        assert_eq!(told.name, "w1_64_zookeeper_lean");
        assert_eq!((told.bar, told.met), (None, true));
    }

    #[test]
    fn a_loss_of_more_than_15_percent_beside_an_earlier_build_is_seen_in_every_cell() {
        let mut figures = Figures::default();
        let cells = [
            ("w1.1n.64.fencepost.per_s", "w1.1n.64.baseline.per_s", 86.0),
            ("w1.3n.64.fencepost-sdk.per_s", "w1.3n.64.baseline-sdk.per_s", 84.0),
            ("w3.1n.4 x all.fencepost.per_s", "w3.1n.4 x all.baseline.per_s", 84.0),
        ];
        for (ours, theirs, speed) in cells {
            figures.add(ours, speed);
            figures.add(theirs, 100.0);
        }
        // Latencies are no rates, and what only one of the builds could do cannot be compared.
        figures.add("w1.1n.64.baseline.p50_ms", 1.0);
        figures.add("w2.1n.100.baseline.per_s", 1.0);
        let verdicts = judge(&figures);
        assert_eq!(verdicts.len(), cells.len(), "{verdicts:?}");
        let slower: Vec<&str> = verdicts
            .iter()
            .filter(|verdict| verdict.is_slower())
            .map(|verdict| verdict.name.as_str())
            .collect();
        assert_eq!(slower, ["baseline_w1_64_sdk_3n", "baseline_w3_4_x_all"]);
    }

    #[test]
    fn every_bar_has_its_own_name() {
        let bars = all();
        let names: BTreeSet<&str> = bars.iter().map(|bar| bar.name.as_str()).collect();
        assert_eq!(names.len(), bars.len());
    }
}
