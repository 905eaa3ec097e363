//! The `fencepost-sim` command.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use fencepost_sim::bug::Bug;
use fencepost_sim::mutants::{Hunt, hunt_all};
use fencepost_sim::options::Options;
use fencepost_sim::run::{Campaign, Tally, hours_and_minutes, run_seed};
use fencepost_sim::seen::Violation;
use fencepost_sim::stopwatch::{Stopwatch, fresh_seed};

/// One seed in so many is run twice.
const TWICE_EVERY: u64 = 100;

fn main() -> anyhow::Result<ExitCode> {
    let mut options = Options::parse();
    if options.fresh {
        options.from = fresh_seed();
    }
    let is_well = match (options.seed, options.mutants) {
        (Some(seed), _) => one(seed, &options)?,
        (None, true) => mutants(&options)?,
        (None, false) => many(&options)?,
    };
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one seed, perhaps with a bug in it, perhaps with a trace.
fn one(seed: u64, options: &Options) -> anyhow::Result<bool> {
    say(&format!("seed {seed}, bug {:?}", options.bug))?;
    let bug = named_bug(options)?;
    let watch = Stopwatch::start();
    let outcome = run_seed(seed, bug, options.trace);
    let mut tally = Tally { seeds: 1, faults: outcome.faults, ..Tally::default() };
    tally.virtual_micros = outcome.virtual_micros;
    if let Some(violation) = outcome.violation {
        show(seed, &violation, options)?;
        tally.violations.push((seed, violation));
    }
    close(&tally, options, watch.elapsed())
}

fn named_bug(options: &Options) -> anyhow::Result<Option<Bug>> {
    let name = options.bug.as_deref();
    name.map(|name| Bug::named(name).context("there is no such bug")).transpose()
}

/// Runs many seeds, for a number or for a time.
fn many(options: &Options) -> anyhow::Result<bool> {
    let twice_every = if options.meta { 1 } else { TWICE_EVERY };
    let seeds = if options.minutes.is_some() { u64::MAX } else { options.seeds };
    let campaign = Campaign::on_all_cores(options.from, seeds, twice_every);
    let length = match options.minutes {
        Some(minutes) => format!("for {minutes} minutes"),
        None => format!("{seeds} of them"),
    };
    let Campaign { from, threads, .. } = campaign;
    say(&format!("seeds from {from} on, {length}, 1 in {twice_every} twice, {threads} threads"))?;
    let watch = Stopwatch::start();
    let limit = options.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let is_over = || limit.is_some_and(|limit| watch.elapsed() >= limit);
    // A reader that went away is no reason to stop.
    let told = |seed, violation: &Violation| drop(show(seed, violation, options));
    let tally = campaign.run(is_over, told);
    close(&tally, options, watch.elapsed())
}

/// Says what must not have happened, and how to see it again.
fn show(seed: u64, violation: &Violation, options: &Options) -> io::Result<()> {
    let Violation { invariant, what } = violation;
    let bug = options.bug.as_ref().map_or(String::new(), |bug| format!(" --bug {bug}"));
    say(&format!(
        "violation of {invariant}: {what}\nreplay: cargo xtask sim --seed {seed} --trace{bug}"
    ))
}

/// Says the closing line.
fn close(tally: &Tally, options: &Options, took: Duration) -> anyhow::Result<bool> {
    if options.kinds {
        say(&tally.faults.to_string())?;
    }
    let rate = u128::from(tally.seeds) * 60_000 / took.as_millis().max(1);
    say(&format!(
        "sim: {} seeds, {} faults, {} virtual, {rate} seeds/min, {} violations",
        tally.seeds,
        tally.faults.total(),
        hours_and_minutes(tally.virtual_micros),
        tally.violations.len()
    ))?;
    Ok(tally.violations.is_empty())
}

/// Hunts every planted bug.
fn mutants(options: &Options) -> anyhow::Result<bool> {
    let bugs = named_bug(options)?.map_or_else(Bug::all, |bug| vec![bug]);
    let threads = Campaign::on_all_cores(0, 0, 1).threads;
    say(&format!(
        "{} planted bugs, seeds from {} on, {threads} threads",
        bugs.len(),
        options.from
    ))?;
    let watch = Stopwatch::start();
    // A reader that went away is no reason to stop.
    let hunts = hunt_all(&bugs, options.from, threads, |hunt| drop(say(&row(hunt))));
    let missed = hunts.iter().filter(|hunt| hunt.caught.is_none()).count();
    let (caught, seconds) = (hunts.len() - missed, watch.elapsed().as_secs());
    say(&format!("mutants: {caught} of {} caught in {seconds} s", hunts.len()))?;
    Ok(missed == 0)
}

fn row(hunt: &Hunt) -> String {
    let Hunt { bug, seeds, caught } = hunt;
    match caught {
        Some((_, violation)) => {
            let what: String = violation.what.chars().take(100).collect();
            format!("{:<34} {seeds:>5} seeds  {:<12} {what}", bug.to_string(), violation.invariant)
        }
        None => format!("{:<34} {seeds:>5} seeds  NOT CAUGHT", bug.to_string()),
    }
}

fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
