//! The page `docs/performance.md`, written from the figures of one run.
//!
//! Guarantees: every number on it comes from the figures; what is missing stands as `-`.

mod first;
mod method;
mod sections;

use std::fmt::Write as _;

use crate::bars::Verdict;
use crate::figures::Figures;
use crate::table::{markdown, number};

/// What the page says beside figures.
#[derive(Clone, Debug, Default)]
pub struct About {
    pub machine: String,
    /// The load of the machine before the run and after it.
    pub load: (String, String),
    /// The names of the systems, and what each says that it is.
    pub versions: Vec<(String, String)>,
    /// The plots that were drawn in this run.
    pub plots: Vec<String>,
    pub rounds: usize,
    pub laps: usize,
    pub warm_ms: u128,
    pub counted_ms: u128,
    /// Whether generator and servers went before everything else on the machine.
    pub is_realtime: bool,
    pub command: String,
}

/// One figure's name, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name<'a> {
    pub(crate) workload: &'a str,
    pub(crate) nodes: &'a str,
    pub(crate) point: &'a str,
    pub(crate) who: &'a str,
    pub(crate) metric: &'a str,
}

impl<'a> Name<'a> {
    pub(crate) fn read(name: &'a str) -> Option<Name<'a>> {
        let mut parts = name.split('.');
        let mut part = || parts.next();
        let (workload, nodes, point, who, metric) = (part()?, part()?, part()?, part()?, part()?);
        Some(Name { workload, nodes, point, who, metric })
    }
}

/// The whole page.
pub fn page(figures: &Figures, verdicts: &[Verdict], failures: &[String], about: &About) -> String {
    let mut out = String::from("# Fencepost beside its peers\n\n");
    out.push_str(&first::table(figures));
    out.push_str(&method::introduction(about));
    let _ = writeln!(out, "\n```sh\n{}\n```\n", about.command);
    out.push_str(&headline(verdicts));
    out.push_str(&not_measured(failures));
    out.push_str(&sections::all(figures, &about.plots));
    out.push_str(&method::text(figures, about));
    out
}

/// The ratios: what the page is about.
fn headline(verdicts: &[Verdict]) -> String {
    let row = |verdict: &Verdict| {
        let (bar, met) = match verdict.bar {
            // Rates, all of them: what is below one is slower than the other.
            None if verdict.ratio < 1.0 => ("none".to_owned(), "**behind**"),
            None => ("none".to_owned(), ""),
            Some(bar) if verdict.met => (format!("at {} {}", verdict.at, number(bar)), "met"),
            Some(bar) => (format!("at {} {}", verdict.at, number(bar)), "**missed**"),
        };
        vec![verdict.name.replace('_', " "), number(verdict.ratio), bar, met.to_owned()]
    };
    let rows: Vec<Vec<String>> = verdicts.iter().map(row).collect();
    let bars = verdicts.iter().filter(|verdict| verdict.bar.is_some());
    let (all, met) = (bars.clone().count(), bars.filter(|verdict| verdict.met).count());
    format!(
        "## Ratios\n\nFencepost's median divided by the other's, and the bar that it must reach. \
         {met} of {all} are met. Rows without a bar are marked if the other is faster.\n\n{}\n",
        markdown(&["what", "ratio", "bar", ""], &rows)
    )
}

fn not_measured(failures: &[String]) -> String {
    if failures.is_empty() {
        return String::new();
    }
    let mut out = String::from("Cells that could not be measured in this run:\n\n");
    for failure in failures {
        let _ = writeln!(out, "- {failure}");
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut figures = Figures::default();
        for value in [100.0, 200.0, 300.0] {
            figures.add("w1.1n.64.etcd.per_s", value);
            figures.add("w1.1n.64.fencepost.per_s", value * 10.0);
        }
        figures
    }

    #[test]
    fn a_name_has_five_parts() {
        let name = Name::read("w1.1n.64.redis-aof.p50_ms").unwrap();
        let wanted =
            Name { workload: "w1", nodes: "1n", point: "64", who: "redis-aof", metric: "p50_ms" };
        assert_eq!(name, wanted);
        assert_eq!(Name::read("w1.1n"), None);
    }

    #[test]
    fn the_page_tells_medians_and_spreads() {
        let page = page(&figures(), &[], &[], &About::default());
        assert!(page.contains("| etcd | 200 [100..300] |"), "{page}");
        assert!(page.contains("| fencepost | 2,000 [1,000..3,000] |"), "{page}");
    }

    #[test]
    fn the_page_speaks_only_of_what_was_measured() {
        let versions = ["etcd", "fencepost"].map(|name| (name.to_owned(), "1.0".to_owned()));
        let mut about = About { versions: versions.to_vec(), ..About::default() };
        let page_of = |about: &About| page(&figures(), &[], &[], about);
        let plain = page_of(&about);
        assert!(plain.starts_with("# Fencepost beside its peers\n\nIn short,"), "{plain}");
        assert!(plain.contains("\netcd 1.0 and Fencepost 1.0, measured"), "{plain}");
        for absent in
            ["ZooKeeper", "Redis", "redis", "- W2", "- W5", "real-time", ".svg", "one round"]
        {
            assert!(!plain.contains(absent), "{absent} was not measured: {plain}");
        }
        for present in ["- `etcd`:", "- `fencepost`:", "- W1:", "- etcd: 1.0"] {
            assert!(plain.contains(present), "{present} is missing: {plain}");
        }
        about.is_realtime = true;
        about.plots = vec!["latency".to_owned()];
        let other = page_of(&about);
        assert!(other.contains("real-time priority"), "{other}");
        assert!(other.contains("performance/latency.svg"), "{other}");
        assert!(!other.contains("performance/throughput.svg"), "{other}");
    }

    #[test]
    fn a_missed_bar_and_a_failed_cell_are_told() {
        let verdict = Verdict {
            name: "w1_64_etcd".into(),
            ratio: 4.0,
            bar: Some(5.0),
            at: "least",
            met: false,
        };
        let told = Verdict {
            name: "w1_64_zookeeper_lean".into(),
            ratio: 2.0,
            bar: None,
            at: "any",
            met: true,
        };
        let behind = Verdict { name: "w3_etcd_1_in_flight".into(), ratio: 0.11, ..told.clone() };
        let failures = ["w2 etcd: it does not come up".to_owned()];
        let page = page(&figures(), &[verdict, told, behind], &failures, &About::default());
        assert!(page.contains("| w1 64 etcd | 4.00 | at least 5.00 | **missed** |"), "{page}");
        assert!(page.contains("| w1 64 zookeeper lean | 2.00 | none |  |"), "{page}");
        assert!(page.contains("| w3 etcd 1 in flight | 0.110 | none | **behind** |"), "{page}");
        assert!(page.contains("0 of 1 are met"), "{page}");
        assert!(page.contains("- w2 etcd: it does not come up"), "{page}");
    }
}
