//! What is said at the end.

use std::fmt::Write as _;
use std::time::Duration;

use clap::ValueEnum as _;
use serde::Serialize;

use super::Args;
use super::tally::Tally;
use crate::common::Common;

/// The result, for programs.
#[derive(Serialize)]
struct Document {
    workload: String,
    clients: usize,
    conns: usize,
    pipeline: usize,
    /// `closed`, or `open` with a rate.
    mode: &'static str,
    rate: Option<u32>,
    duration_ms: u64,
    turns: u64,
    per_s: f64,
    errors: u64,
    unknown: u64,
    behind: u64,
    first_error: Option<String>,
    latency_us: Latency,
}

#[derive(Serialize)]
struct Latency {
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

pub(super) fn write(
    args: &Args,
    conns: usize,
    tally: &Tally,
    counted: Duration,
    common: &Common,
) -> anyhow::Result<()> {
    let document = document(args, conns, tally, counted);
    common.output().either(&document, &text(&document))
}

#[expect(clippy::cast_precision_loss, reason = "a rate, for people")]
fn document(args: &Args, conns: usize, tally: &Tally, counted: Duration) -> Document {
    let workload = args.workload.to_possible_value();
    let seconds = counted.as_secs_f64();
    Document {
        workload: workload.map_or_else(String::new, |value| value.get_name().to_owned()),
        clients: args.clients,
        conns,
        pipeline: args.pipeline,
        mode: if args.rate.is_some() { "open" } else { "closed" },
        rate: args.rate,
        duration_ms: u64::try_from(counted.as_millis()).unwrap_or(u64::MAX),
        turns: tally.turns(),
        per_s: if seconds > 0.0 { tally.turns() as f64 / seconds } else { 0.0 },
        errors: tally.errors,
        unknown: tally.unknown,
        behind: tally.behind,
        first_error: tally.first_error.clone(),
        latency_us: Latency {
            mean: tally.mean(),
            p50: tally.quantile(0.5),
            p90: tally.quantile(0.9),
            p99: tally.quantile(0.99),
            p999: tally.quantile(0.999),
            max: tally.max(),
        },
    }
}

fn text(document: &Document) -> String {
    let Document { workload, clients, conns, pipeline, turns, per_s, .. } = document;
    let mut out = format!("{workload}: {clients} clients, {conns} connections");
    if *pipeline > 1 {
        let _ = write!(out, ", {pipeline} turns open each");
    }
    let pace =
        document.rate.map_or("as fast as answered".to_owned(), |rate| format!("{rate}/s due"));
    let _ = writeln!(out, ", {pace}");
    let seconds = Duration::from_millis(document.duration_ms).as_secs_f64();
    let _ = writeln!(out, "  turns      {turns} in {seconds:.1} s, {per_s:.0}/s");
    let latency = &document.latency_us;
    let _ = writeln!(
        out,
        "  took       p50 {}, p90 {}, p99 {}, p99.9 {}, at most {}",
        millis(latency.p50),
        millis(latency.p90),
        millis(latency.p99),
        millis(latency.p999),
        millis(latency.max)
    );
    let _ = write!(
        out,
        "  went wrong {} failed, {} unknown, {} not begun in time",
        document.errors, document.unknown, document.behind
    );
    if let Some(error) = &document.first_error {
        let _ = write!(out, "\n  the first  {error}");
    }
    out
}

/// Microseconds as people read them.
fn millis(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1_000, micros % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_told_in_milliseconds() {
        assert_eq!(millis(7), "0.007 ms");
        assert_eq!(millis(12_345), "12.345 ms");
    }
}
