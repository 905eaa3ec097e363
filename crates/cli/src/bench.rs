//! `fencepost bench`: what a cluster does under load, through the SDK alone.
//!
//! Guarantees: everything that it leaves behind ends by itself, within the TTL at the latest.

mod drive;
mod job;
mod summary;
mod tally;
mod watcher;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use fencepost_client::{CancellationToken, Client};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;

use crate::common::Common;
use crate::failure::{Failure, Told as _};
use crate::signals;
use crate::words::parse_length;
use drive::{Pace, Span};
use job::Job;
use tally::Tally;

/// Requests that may be open at once: beyond this only the load generator would be measured.
const OPEN_MAX: usize = 100_000;
/// How often the bar moves.
const MOVE_EVERY: Duration = Duration::from_millis(250);

/// Put a cluster under load, and tell what it does
///
/// Every client takes its turns one after the other, as fast as it is answered, unless a rate is
/// given: then turns are due at their times, and a turn that begins late because the one before took
/// long counts from when it was due. Names begin with --prefix. Everything that is left behind ends
/// with its TTL.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_enum, default_value_t = Workload::Cycle)]
    workload: Workload,

    /// How many clients
    #[arg(long, default_value_t = 64, value_name = "N")]
    clients: usize,

    /// Over how many connections [default: 1; for handoff, as many as clients]
    #[arg(long, value_name = "N")]
    conns: Option<usize>,

    /// How many turns each client has open at once
    #[arg(long, default_value_t = 1, value_name = "N")]
    pipeline: usize,

    /// For how long
    #[arg(long, default_value = "10s", value_parser = parse_length, value_name = "TIME")]
    duration: Duration,

    /// What comes before, and does not count
    #[arg(long, default_value = "1s", value_parser = parse_length, value_name = "TIME")]
    warm_up: Duration,

    /// So many turns a second, over all clients [default: as many as are answered]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// The TTL of locks and leases
    #[arg(long, default_value = "30s", value_parser = parse_length, value_name = "TIME")]
    ttl: Duration,

    /// Names of locks and keys begin with this
    #[arg(long, default_value = "bench", value_name = "TEXT")]
    prefix: String,

    /// For hold: how many locks each turn-taker holds at most
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    held_max: usize,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Take a lock that nobody else wants, and give it back
    Cycle,
    /// All clients want the same lock, and give it back at once
    Handoff,
    /// Renew a lease
    Renew,
    /// Take locks and keep them
    Hold,
    /// Write a key, and wait until a watch tells of it
    Watch,
    /// Of ten turns: six cycles, two on few locks that others want too, a renewal, a write
    Mixed,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let conns = check(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start: the system has no room for threads")?;
    runtime.block_on(bench(args, conns, common))
}

/// Refuses what makes no sense; how many connections there will be.
fn check(args: &Args) -> Result<usize, Failure> {
    let usual = if args.workload == Workload::Handoff { args.clients } else { 1 };
    let conns = args.conns.unwrap_or(usual);
    let refused = |why: String, remedy: &str| Failure::usage("cannot run this", why, remedy);
    for (flag, value) in
        [("--clients", args.clients), ("--conns", conns), ("--pipeline", args.pipeline)]
    {
        if value == 0 {
            return Err(refused(format!("{flag} is 0"), "name at least 1"));
        }
    }
    let open = args.clients.saturating_mul(args.pipeline);
    if open > OPEN_MAX {
        let why = format!("{open} requests would be open at once, and {OPEN_MAX} is the most");
        return Err(refused(why, "choose fewer --clients or a smaller --pipeline"));
    }
    if conns > args.clients {
        let why = format!("{conns} connections for {} clients leave some idle", args.clients);
        return Err(refused(why, "choose more --clients or fewer --conns"));
    }
    if args.duration.is_zero() {
        return Err(refused("--duration is 0".to_owned(), "name a length of time, as 10s"));
    }
    Ok(conns)
}

async fn bench(args: &Args, conns: usize, common: &Common) -> anyhow::Result<ExitCode> {
    let mut clients = Vec::new();
    for _ in 0..conns {
        clients.push(common.connect("bench").await?);
    }
    let jobs = jobs(args, &clients).await?;
    let slots = jobs.len();
    let span = Span::from_now(args.warm_up, args.duration);
    let (stop, done) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for (number, job) in jobs.into_iter().enumerate() {
        let pace = Pace::new(args.rate, number, slots, span);
        tasks.spawn(drive::turns(job, pace, span, stop.clone(), Arc::clone(&done)));
    }
    let shown = tokio::spawn(show(span, stop.clone(), done));
    let tally = collect(tasks, &stop).await?;
    stop.cancel();
    shown.await?;
    let counted = span.counted(tally.ended);
    for client in clients {
        client.close().await;
    }
    summary::write(args, conns, &tally, counted, common)?;
    Ok(if tally.turns() == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// One job for each client and each turn that it has open.
async fn jobs(args: &Args, clients: &[Client]) -> anyhow::Result<Vec<Job>> {
    let mut watchers = Vec::new();
    if args.workload == Workload::Watch {
        for client in clients {
            let watcher = watcher::Watcher::begin(client, &args.prefix).await;
            watchers.push(Arc::new(watcher.told(format!("watch {}", args.prefix))?));
        }
    }
    let mut jobs = Vec::new();
    for number in 0..args.clients * args.pipeline {
        let conn = number % clients.len();
        let client = clients[conn].clone();
        let watcher = watchers.get(conn).cloned();
        let job = Job::new(args, client, number, watcher).await;
        jobs.push(job.told("make a lease")?);
    }
    Ok(jobs)
}

/// Waits for all of them, or for somebody who wants to see the result now.
async fn collect(mut tasks: JoinSet<Tally>, stop: &CancellationToken) -> anyhow::Result<Tally> {
    let mut end = signals::End::listen()?;
    let mut whole = Tally::default();
    loop {
        tokio::select! {
            next = tasks.join_next() => match next {
                Some(tally) => whole.merge(tally?),
                None => return Ok(whole),
            },
            _ = end.heard(), if !stop.is_cancelled() => stop.cancel(),
        }
    }
}

/// How it goes, on a terminal.
async fn show(span: Span, stop: CancellationToken, done: Arc<AtomicU64>) {
    if !io::stderr().is_terminal() {
        return;
    }
    let bar = ProgressBar::new(span.whole().as_secs().max(1));
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} s  {msg}") {
        bar.set_style(style);
    }
    let mut before = 0;
    while !stop.is_cancelled() && span.left() > Duration::ZERO {
        tokio::time::sleep(MOVE_EVERY).await;
        let now = done.load(Ordering::Relaxed);
        let per_s = (now - before) * 1_000 / 250;
        before = now;
        bar.set_position((span.whole() - span.left()).as_secs());
        bar.set_message(format!("{per_s} turns/s"));
    }
    bar.finish_and_clear();
}
