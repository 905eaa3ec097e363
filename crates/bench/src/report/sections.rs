//! The tables of the page, one per workload and number of nodes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Name;
use crate::figures::Figures;
use crate::table::{markdown, spread};

/// A section: of which workload, under which heading, with which columns, beside which plot.
struct Section {
    workload: &'static str,
    heading: &'static str,
    about: &'static str,
    /// The heading of a column, and its metric.
    columns: &'static [(&'static str, &'static str)],
    plots: &'static [&'static str],
}

const SECTIONS: [Section; 9] = [
    Section {
        workload: "w1",
        heading: "Taking a lock and giving it back (W1)",
        about: "Every client takes locks that nobody else wants. Latencies are those of taking one.",
        columns: &[
            ("cycles/s", "per_s"),
            ("p50, ms", "p50_ms"),
            ("p99, ms", "p99_ms"),
            ("p99.9, ms", "p999_ms"),
            ("CPU, µs a cycle: servers", "cpu_us"),
            ("clients", "cpu_us_clients"),
            ("cores of others", "cores_others"),
        ],
        plots: &["throughput", "throughput-3", "latency"],
    },
    Section {
        workload: "w2",
        heading: "Handing a lock over (W2)",
        about: "All clients want one lock, and give it back at once. A latency is the time from asking \
                for the release to the next one's having the lock.",
        columns: &[
            ("hand-overs/s", "per_s"),
            ("p50, ms", "p50_ms"),
            ("p99, ms", "p99_ms"),
            ("max, ms", "max_ms"),
            ("grants differ by", "unfairness"),
            ("servers' CPU, µs each", "cpu_us"),
        ],
        plots: &[],
    },
    Section {
        workload: "w3",
        heading: "Renewing leases (W3)",
        about: "10,000 leases over 64 connections. The point is how many renewals each connection has \
                in flight; `all` is one message with all leases of the connection, which only \
                Fencepost has, and `4 x all` four of them.",
        columns: &[
            ("renewals/s", "per_s"),
            ("cores of servers", "cores_servers"),
            ("cores of others", "cores_others"),
        ],
        plots: &[],
    },
    Section {
        workload: "w4",
        heading: "Memory of held locks (W4)",
        about: "Resident memory of the server, and what each lock adds to it.",
        columns: &[("bytes a lock", "bytes"), ("resident, bytes", "rss")],
        plots: &["memory"],
    },
    Section {
        workload: "w5",
        heading: "The leader is killed (W5)",
        about: "From `kill -9` to the first success of a request that began after it.",
        columns: &[("ms", "ms")],
        plots: &["failover"],
    },
    Section {
        workload: "w6",
        heading: "How late leases end (W6)",
        about: "From the end of the shortest lease that a system grants to the next one's having the \
                lock: 500 ms for Fencepost and Redis, 2 s for etcd, 4 s for ZooKeeper.",
        columns: &[("p50, ms", "p50_ms"), ("p99, ms", "p99_ms")],
        plots: &["expiry"],
    },
    Section {
        workload: "w7",
        heading: "From start to the first lock (W7)",
        about: "",
        columns: &[
            ("first lock, ms", "ms"),
            ("idle memory, MiB", "idle_mib"),
            ("program, MiB", "program_mib"),
        ],
        plots: &[],
    },
    Section {
        workload: "growth",
        heading: "Beside very many held locks",
        about: "Cycles of 64 clients on two servers that differ only in how many locks are held.",
        columns: &[("cycles/s", "per_s"), ("server's CPU, µs a cycle", "cpu_us")],
        plots: &[],
    },
    Section {
        workload: "watch",
        heading: "A watch through etcd's API",
        about: "A prefix is watched while 1,000 keys a second are written below it. Each event came \
                exactly once. A latency counts from when the write was due.",
        columns: &[("p50, ms", "p50_ms"), ("p99, ms", "p99_ms"), ("max, ms", "max_ms")],
        plots: &[],
    },
];

const KEYS: Section = Section {
    workload: "keys",
    heading: "Memory of leased keys through etcd's API",
    about: "",
    columns: &[("bytes a key", "bytes")],
    plots: &[],
};

/// All sections that have figures.
pub(super) fn all(figures: &Figures, drawn: &[String]) -> String {
    SECTIONS.iter().chain([&KEYS]).map(|section| one(figures, section, drawn)).collect()
}

fn one(figures: &Figures, section: &Section, drawn: &[String]) -> String {
    let tables: String = ["1n", "3n"]
        .into_iter()
        .flat_map(|nodes| points(figures, section, nodes).into_iter().map(move |at| (nodes, at)))
        .map(|(nodes, point)| table(figures, section, nodes, point))
        .collect();
    if tables.is_empty() {
        return String::new();
    }
    let mut out = format!("## {}\n\n", section.heading);
    if !section.about.is_empty() {
        let _ = writeln!(out, "{}\n", section.about);
    }
    for plot in section.plots.iter().filter(|plot| drawn.iter().any(|name| name == *plot)) {
        let _ = writeln!(out, "![{}](performance/{plot}.svg)\n", plot.replace('-', " "));
    }
    out + &tables
}

/// The points of a section in the order of their numbers.
fn points<'a>(figures: &'a Figures, section: &Section, nodes: &str) -> Vec<&'a str> {
    let names = figures.names().filter_map(Name::read);
    let own = names.filter(|name| name.workload == section.workload && name.nodes == nodes);
    let shown = own.filter(|name| section.columns.iter().any(|(_, metric)| *metric == name.metric));
    let points: BTreeSet<(u64, &str)> =
        shown.map(|name| (name.point.parse().unwrap_or(u64::MAX), name.point)).collect();
    points.into_iter().map(|(_, point)| point).collect()
}

fn table(figures: &Figures, section: &Section, nodes: &str, point: &str) -> String {
    let here = |name: &Name<'_>| {
        name.workload == section.workload && name.nodes == nodes && name.point == point
    };
    let names = figures.names().filter_map(Name::read).filter(here);
    let systems: BTreeSet<&str> = names.map(|name| name.who).collect();
    let rows: Vec<Vec<String>> = systems
        .into_iter()
        .map(|who| {
            let cell = |(_, metric): &(&str, &str)| {
                let name = format!("{}.{nodes}.{point}.{who}.{metric}", section.workload);
                spread(figures.spread(&name))
            };
            [who.to_owned()].into_iter().chain(section.columns.iter().map(cell)).collect()
        })
        .collect();
    let headings: Vec<&str> =
        ["system"].into_iter().chain(section.columns.iter().map(|(heading, _)| *heading)).collect();
    let nodes = if nodes == "1n" { "One node" } else { "Three nodes" };
    format!(
        "### {nodes}, {}\n\n{}\n",
        describe(section.workload, point),
        markdown(&headings, &rows)
    )
}

/// What a point is.
fn describe(workload: &str, point: &str) -> String {
    match workload {
        "w1" if point == "1" => "1 client".to_owned(),
        "w1" => format!("{point} clients"),
        "w2" => format!("{point} waiters"),
        "w3" => format!("{point} in flight"),
        "w4" | "growth" => format!("{point} locks held"),
        "watch" => format!("{point} events a second"),
        "keys" => format!("{point} keys"),
        _ => point.to_owned(),
    }
}
