//! The first table of the page: the six figures that a user asks for, before any ratio.

use crate::figures::Figures;
use crate::table::{markdown, number};

/// What each row is called, and how to read it from the figures of so many nodes.
const ROWS: [(&str, &[&str], &str); 6] = [
    (
        "take a free lock, one client: p50 / p99",
        &["w1.{}.1.fencepost.p50_ms", "w1.{}.1.fencepost.p99_ms"],
        " ms",
    ),
    ("locks taken and given back, 64 clients", &["w1.{}.64.fencepost.per_s"], "/s"),
    (
        "hand a lock over to the next of 100 waiters: p50 / p99",
        &["w2.{}.100.fencepost.p50_ms", "w2.{}.100.fencepost.p99_ms"],
        " ms",
    ),
    ("first success after `kill -9` of the leader", &["w5.{}.kill.fencepost.ms"], " ms"),
    ("leases renewed, one at a time on each of 64 connections", &["w3.{}.1.fencepost.per_s"], "/s"),
    ("leases renewed, all of a connection in one message", &["w3.{}.all.fencepost.per_s"], "/s"),
];

/// The table with a line before it, or nothing if none of it was measured.
pub(super) fn table(figures: &Figures) -> String {
    let cell = |names: &[&str], unit: &str, nodes: &str| {
        let medians = names.iter().map(|name| figures.median(&name.replace("{}", nodes)));
        let numbers: Option<Vec<String>> = medians.map(|median| median.map(number)).collect();
        numbers.map(|numbers| numbers.join(" / ") + unit)
    };
    let rows = ROWS.iter().filter_map(|(what, names, unit)| {
        let cells = ["1n", "3n"].map(|nodes| cell(names, unit, nodes));
        let is_measured = cells.iter().any(Option::is_some);
        let cells = cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
        is_measured.then(|| [&[(*what).to_owned()], &cells[..]].concat())
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    let table = markdown(&["medians", "one node", "three nodes"], &rows);
    let is_renewed = rows.iter().any(|row| row[0].starts_with(RENEWED));
    format!("{HEAD}\n{table}\n{}", if is_renewed { RENEWALS } else { "" })
}

const HEAD: &str = "In short, on the machine that the [method](#method) describes:\n";
/// The rows about renewals begin so.
const RENEWED: &str = "leases renewed";
const RENEWALS: &str = "\
A renewal waits up to 25 ms for others, so that many share one entry of the log. So a connection that sends
one at a time is slow, and costs the service little. The SDK sends up to 4,096 of a client in one message.

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_comes_first() {
        let mut figures = Figures::default();
        figures.add("w1.3n.1.fencepost.p50_ms", 0.287);
        figures.add("w1.3n.1.fencepost.p99_ms", 0.624);
        figures.add("w3.1n.1.fencepost.per_s", 2_103.0);
        let table = table(&figures);
        let expected = "| take a free lock, one client: p50 / p99 | - | 0.287 / 0.624 ms |";
        assert!(table.contains(expected), "{table}");
        assert!(table.contains("64 connections | 2,103/s | - |"), "{table}");
        assert_eq!(table.lines().filter(|line| line.starts_with('|')).count(), 4, "{table}");
        assert!(table.contains("waits up to 25 ms"), "{table}");
    }

    #[test]
    fn nothing_measured_is_no_table() {
        assert_eq!(table(&Figures::default()), "");
    }
}
