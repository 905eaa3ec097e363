//! The benchmark's command. `cargo xtask bench` builds it, builds Fencepost, and starts it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use fencepost_bench::bars::{self, Verdict};
use fencepost_bench::figures::Figures;
use fencepost_bench::machine;
use fencepost_bench::plot;
use fencepost_bench::profile;
use fencepost_bench::report::{self, About};
use fencepost_bench::run::{self, Outcome, Plan, Workload};
use fencepost_bench::server::{self, Places, System};
use fencepost_bench::table;
use fencepost_bench::work::Window;
use serde::Serialize;

/// Measure Fencepost beside the systems people use today
#[derive(Parser)]
#[command(name = "fencepost-bench")]
struct Args {
    /// The systems, with commas between them
    #[arg(long, value_delimiter = ',', default_value = "etcd,zookeeper,redis,redis-aof,fencepost")]
    peers: Vec<System>,

    /// How many nodes: 1, 3 or both [default: 1,3; quick: 1]
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<usize>,

    /// Shorter, fewer, less
    #[arg(long)]
    quick: bool,

    /// Only these workloads, with commas between them
    #[arg(long, value_delimiter = ',')]
    only: Vec<Workload>,

    /// How many clients take locks that nobody else wants
    #[arg(long, value_delimiter = ',')]
    clients: Vec<usize>,

    /// How often everything is repeated
    #[arg(long)]
    rounds: Option<usize>,

    /// How often W1 and W2 are gone through in each round
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
    laps: Option<u8>,

    /// How long each closed loop counts, in milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    window: Option<u64>,

    /// The program that is measured
    #[arg(long, value_name = "FILE")]
    fencepost: PathBuf,

    /// An earlier build of it, to compare with
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// Which revision that is, for people
    #[arg(long, value_name = "REV")]
    baseline_revision: Option<String>,

    /// Where servers keep their data while they run
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Where profiles go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Record with `perf` where Fencepost's servers and the load spend their time, beside every cell of
    /// W1 in the last round, and draw it as flame graphs. Recording costs time: no figures for a page
    #[arg(long, conflicts_with = "write")]
    profile: bool,

    /// Write the page and its plots, for the documentation
    #[arg(long)]
    write: bool,

    /// `json` prints ratios and bars as one document
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = measure(&args);
    outcome.unwrap_or_else(|error| {
        // One line, and the last one: a backtrace would bury what the reader needs.
        run::say(&format!("fencepost-bench: {error:#}"));
        ExitCode::FAILURE
    })
}

fn measure(args: &Args) -> anyhow::Result<ExitCode> {
    let mut plan = plan(args)?;
    if plan.profile {
        profile::check()?;
    }
    let missing = leave_out_missing(&mut plan)?;
    machine::raise_limits();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let before = machine::load();
    let mut outcome = runtime.block_on(run::run(&plan))?;
    outcome.failures.splice(0..0, missing);
    let verdicts = bars::judge(&outcome.figures);
    tell(args, &outcome, &verdicts)?;
    tell_slower(args, &verdicts);
    if args.write {
        write(args, &plan, &outcome, &verdicts, before)?;
    }
    let good = verdicts.iter().all(|verdict| verdict.met) && outcome.failures.is_empty();
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Systems that are not installed are left out of the plan, with the reason for each. If nothing is
/// left to compare with although something was asked for, there is no run.
fn leave_out_missing(plan: &mut Plan) -> anyhow::Result<Vec<String>> {
    let is_peer = |system: &System| *system != System::Fencepost;
    let asked = plan.peers.iter().filter(|system| is_peer(system)).count();
    let mut missing = Vec::new();
    for system in plan.peers.clone() {
        if let Some(why) = server::missing(system, &plan.places) {
            plan.peers.remove(&system);
            run::say(&format!("{} is left out: {why}", system.name()));
            missing.push(format!("{}: {why}", system.name()));
        }
    }
    let left = plan.peers.iter().filter(|system| is_peer(system)).count();
    ensure!(
        asked == 0 || left > 0,
        "there is nothing to compare with: {}. `--peers fencepost` measures Fencepost alone",
        missing.join("; ")
    );
    Ok(missing)
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    ensure!(args.fencepost.is_file(), "{} is no program", args.fencepost.display());
    std::fs::create_dir_all(&args.data).context("cannot make the data directory")?;
    let window = |warm, counted| Window {
        warm: Duration::from_millis(warm),
        counted: Duration::from_millis(counted),
    };
    let quick = args.quick;
    let counted = args.window.unwrap_or(if quick { 1_000 } else { 700 });
    let clients = match (args.clients.is_empty(), quick) {
        (false, _) => args.clients.clone(),
        (true, true) => vec![1, 64],
        (true, false) => vec![1, 16, 64, 256],
    };
    let nodes = match (args.nodes.is_empty(), quick) {
        (false, _) => args.nodes.clone(),
        (true, true) => vec![1],
        (true, false) => vec![1, 3],
    };
    let few = [Workload::W1, Workload::W2, Workload::W3];
    let workloads: BTreeSet<Workload> = match (args.only.is_empty(), quick) {
        (false, _) => args.only.iter().copied().collect(),
        (true, true) => few.into_iter().collect(),
        (true, false) => Workload::ALL.into_iter().collect(),
    };
    let peers = args.peers.iter().copied().chain(args.baseline.as_ref().map(|_| System::Baseline));
    Ok(Plan {
        peers: peers.collect(),
        nodes,
        workloads,
        rounds: args.rounds.unwrap_or(if quick { 2 } else { 5 }),
        laps: usize::from(args.laps.unwrap_or(if quick { 1 } else { 3 })),
        window: window(if quick { 300 } else { 400 }, counted),
        clients,
        waiters: 10_000,
        held: 100_000,
        held_growth: 1_000_000,
        watch: Duration::from_secs(if quick { 2 } else { 5 }),
        profile: args.profile,
        quick,
        places: Places {
            fencepost: args.fencepost.clone(),
            baseline: args.baseline.clone(),
            out: args.out.clone(),
            data: args.data.clone(),
        },
    })
}

/// Writes the page and its plots into the tree.
fn write(
    args: &Args,
    plan: &Plan,
    outcome: &Outcome,
    verdicts: &[Verdict],
    before: String,
) -> anyhow::Result<()> {
    let version = |system: &System| {
        let version = server::version(*system, &plan.places);
        let revision = args.baseline_revision.as_ref().filter(|_| *system == System::Baseline);
        let at = revision.map(|revision| format!(", revision {revision}")).unwrap_or_default();
        (system.name().to_owned(), version + &at)
    };
    let plots = plot::all(&outcome.figures, "docs/performance".as_ref())?;
    let about = About {
        machine: machine::about(),
        load: (before, machine::load()),
        versions: plan.peers.iter().map(version).collect(),
        plots,
        rounds: plan.rounds,
        laps: plan.laps,
        warm_ms: plan.window.warm.as_millis(),
        counted_ms: plan.window.counted.as_millis(),
        is_realtime: machine::is_realtime(),
        command: command(),
    };
    let page = report::page(&outcome.figures, verdicts, &outcome.failures, &about);
    std::fs::write("docs/performance.md", page).context("cannot write the page")
}

/// The line that repeats this run, without where things happen to be.
fn command() -> String {
    let mut words = vec!["cargo xtask bench".to_owned()];
    if machine::is_realtime() {
        words.push("--realtime".to_owned());
    }
    let mut args = std::env::args().skip(1);
    while let Some(word) = args.next() {
        match word.as_str() {
            "--fencepost" | "--data" | "--out" | "--baseline" => drop(args.next()),
            "--baseline-revision" => words.push("--baseline".to_owned()),
            _ => words.push(word),
        }
    }
    words.join(" ")
}

/// The document for programs.
#[derive(Serialize)]
struct Document<'a> {
    ratios: BTreeMap<&'a str, f64>,
    bars: &'a [Verdict],
    failures: &'a [String],
    figures: &'a Figures,
}

fn tell(args: &Args, outcome: &Outcome, verdicts: &[Verdict]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if args.output == Format::Json {
        let ratios = verdicts.iter().map(|one| (one.name.as_str(), one.ratio)).collect();
        let (failures, figures) = (&outcome.failures[..], &outcome.figures);
        serde_json::to_writer(&mut out, &Document { ratios, bars: verdicts, failures, figures })?;
        writeln!(out)?;
        return Ok(());
    }
    for verdict in verdicts {
        let ratio = table::number(verdict.ratio);
        let bar = match verdict.bar {
            None => "no bar".to_owned(),
            Some(bar) => {
                let met = match (verdict.met, verdict.is_slower()) {
                    (true, _) => "met",
                    (false, true) => "SLOWER",
                    (false, false) => "MISSED",
                };
                format!("at {} {:<7} {met}", verdict.at, table::number(bar))
            }
        };
        writeln!(out, "{:<28} {ratio:>9}  {bar}", verdict.name)?;
    }
    for failure in &outcome.failures {
        writeln!(out, "not measured: {failure}")?;
    }
    Ok(())
}

/// The cells in which an earlier build was faster by more than it may, by name, as the last word.
fn tell_slower(args: &Args, verdicts: &[Verdict]) {
    let Some(revision) = &args.baseline_revision else { return };
    let compared = verdicts.iter().filter(|verdict| verdict.is_regression()).count();
    let slower: Vec<String> = verdicts
        .iter()
        .filter(|verdict| verdict.is_slower())
        .map(|verdict| format!("{} ({})", verdict.name, table::number(verdict.ratio)))
        .collect();
    run::say(&if slower.is_empty() {
        format!("of {compared} cells compared, none is slower than at {revision} by more than 15 %")
    } else {
        format!("SLOWER than at {revision} by more than 15 %: {}", slower.join(", "))
    });
}
