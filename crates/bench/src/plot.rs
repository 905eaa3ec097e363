//! The pictures beside the page: vectors, one file each.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

use crate::figures::Figures;
use crate::report::Name;

const SIZE: (u32, u32) = (860, 480);
const FONT: (&str, u32) = ("sans-serif", 15);
const TITLE: (&str, u32) = ("sans-serif", 20);
/// Of the failover, this is shown: milliseconds around the kill, in buckets.
const BEFORE_MS: f64 = -1_000.0;
const AFTER_MS: f64 = 3_000.0;
const BUCKET_MS: f64 = 100.0;

/// Lines by their names, each through points.
type Lines = BTreeMap<String, Vec<(f64, f64)>>;

/// How an axis counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    /// Every step is ten times the one before.
    Log,
}

struct Picture<'a> {
    file: &'a str,
    title: &'a str,
    x: (&'a str, Scale),
    y: (&'a str, Scale),
    lines: Lines,
}

/// Draws everything that there are figures for, and says what that is.
pub fn all(figures: &Figures, folder: &Path) -> anyhow::Result<Vec<String>> {
    std::fs::create_dir_all(folder)?;
    let throughput = |nodes| over_points(figures, "w1", nodes, "per_s");
    let pictures = [
        Picture {
            file: "throughput",
            title: "Lock cycles per second, one node",
            x: ("clients", Scale::Log),
            y: ("cycles/s", Scale::Log),
            lines: throughput("1n"),
        },
        Picture {
            file: "throughput-3",
            title: "Lock cycles per second, three nodes",
            x: ("clients", Scale::Log),
            y: ("cycles/s", Scale::Log),
            lines: throughput("3n"),
        },
        Picture {
            file: "latency",
            title: "Taking a lock, 64 clients on one node",
            x: ("percentile (50, 90, 99, 99.9)", Scale::Linear),
            y: ("ms", Scale::Log),
            lines: latencies(figures),
        },
        Picture {
            file: "memory",
            title: "Resident memory beside held locks",
            x: ("locks held", Scale::Linear),
            y: ("MiB", Scale::Linear),
            lines: memory(figures),
        },
        Picture {
            file: "failover",
            title: "Locks taken around the kill of the leader",
            x: ("ms after the kill", Scale::Linear),
            y: ("locks/s", Scale::Linear),
            lines: timelines(figures),
        },
        Picture {
            file: "expiry",
            title: "How late leases end: share of those that have ended",
            x: ("ms past the end of the lease", Scale::Linear),
            y: ("share", Scale::Linear),
            lines: overshoots(figures),
        },
    ];
    let mut drawn = Vec::new();
    for picture in pictures.iter().filter(|picture| !picture.lines.is_empty()) {
        draw(picture, &folder.join(format!("{}.svg", picture.file)))
            .map_err(|error| anyhow!("cannot draw {}: {error}", picture.file))?;
        drawn.push(picture.file.to_owned());
    }
    Ok(drawn)
}

/// The median of a metric over the points of a workload.
fn over_points(figures: &Figures, workload: &str, nodes: &str, metric: &str) -> Lines {
    let mut lines = Lines::new();
    for whole in figures.names() {
        let Some(name) = Name::read(whole) else { continue };
        let Ok(point) = name.point.parse::<f64>() else { continue };
        if (name.workload, name.nodes, name.metric) != (workload, nodes, metric) {
            continue;
        }
        if let Some(median) = figures.median(whole) {
            lines.entry(name.who.to_owned()).or_default().push((point, median));
        }
    }
    for line in lines.values_mut() {
        line.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    lines.retain(|_, line| line.len() > 1);
    lines
}

fn memory(figures: &Figures) -> Lines {
    let mut lines = over_points(figures, "w4", "1n", "rss");
    for point in lines.values_mut().flatten() {
        point.1 /= 1_048_576.0;
    }
    lines
}

fn latencies(figures: &Figures) -> Lines {
    let mut lines = Lines::new();
    let metrics = ["p50_ms", "p90_ms", "p99_ms", "p999_ms"];
    for (at, metric) in (0_u8..).zip(metrics) {
        for whole in figures.names() {
            let Some(name) = Name::read(whole) else { continue };
            if (name.workload, name.nodes, name.point, name.metric) == ("w1", "1n", "64", metric)
                && let Some(median) = figures.median(whole)
            {
                lines.entry(name.who.to_owned()).or_default().push((f64::from(at), median));
            }
        }
    }
    lines
}

fn timelines(figures: &Figures) -> Lines {
    let mut lines = Lines::new();
    for whole in figures.names() {
        let Some(name) = Name::read(whole) else { continue };
        if (name.workload, name.point) != ("w5", "timeline") {
            continue;
        }
        let mut line = Vec::new();
        let mut from = BEFORE_MS;
        while from < AFTER_MS {
            let inside = |at: &&f64| **at >= from && **at < from + BUCKET_MS;
            let count = figures.values(whole).iter().filter(inside).map(|_| 1.0).sum::<f64>();
            line.push((from + BUCKET_MS / 2.0, count * 1e3 / BUCKET_MS));
            from += BUCKET_MS;
        }
        lines.insert(name.who.to_owned(), line);
    }
    lines
}

#[expect(clippy::cast_precision_loss, reason = "sixty samples")]
fn overshoots(figures: &Figures) -> Lines {
    let mut lines = Lines::new();
    for whole in figures.names() {
        let Some(name) = Name::read(whole) else { continue };
        if (name.workload, name.metric) != ("w6", "overshoot_ms") {
            continue;
        }
        let mut all = figures.values(whole).to_vec();
        all.sort_by(f64::total_cmp);
        let share = |at: usize| (at + 1) as f64 / all.len() as f64;
        let line = all.iter().enumerate().map(|(at, late)| (*late, share(at))).collect();
        lines.insert(name.who.to_owned(), line);
    }
    lines
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(1e-3).log10(),
        }
    }

    fn label(self, place: f64) -> String {
        match self {
            Scale::Linear if place.abs() >= 10.0 => format!("{place:.0}"),
            Scale::Linear => format!("{place:.1}"),
            Scale::Log => {
                let value = 10_f64.powf(place);
                if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.2}") }
            }
        }
    }
}

fn draw(picture: &Picture<'_>, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (x, y) = (picture.x.1, picture.y.1);
    let placed = |at: &(f64, f64)| (x.place(at.0), y.place(at.1));
    let all: Vec<(f64, f64)> = picture.lines.values().flatten().map(placed).collect();
    let range = |values: &dyn Fn(&(f64, f64)) -> f64, from_zero: bool| {
        let low = all.iter().map(values).fold(f64::INFINITY, f64::min);
        let high = all.iter().map(values).fold(f64::NEG_INFINITY, f64::max);
        let low = if from_zero { low.min(0.0) } else { low };
        let room = ((high - low) * 0.05).max(1e-6);
        (low - if from_zero { 0.0 } else { room })..(high + room)
    };
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(picture.title, TITLE)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(70)
        .build_cartesian_2d(range(&|at| at.0, false), range(&|at| at.1, y == Scale::Linear))?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(picture.x.0)
        .y_desc(picture.y.0)
        .label_style(FONT)
        .x_label_formatter(&|place| x.label(*place))
        .y_label_formatter(&|place| y.label(*place))
        .draw()?;
    for (at, (who, line)) in picture.lines.iter().enumerate() {
        let colour = Palette99::pick(at).to_rgba();
        let points: Vec<(f64, f64)> = line.iter().map(placed).collect();
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(who.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(FONT)
        .draw()?;
    root.present()?;
    Ok(())
}
