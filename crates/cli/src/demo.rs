//! `fencepost demo`: what a fencing token is for, shown with real processes in half a minute.
//!
//! Owns: the order of the scenes, and the exit code. Guarantees: everything that it has started and
//! every directory that it has made is gone at the end, also if it is interrupted.
//!
//! | where | what |
//! |---|---|
//! | `stage.rs`, `process.rs`, `kid.rs` | three nodes and a store, each a process that dies with the demo |
//! | `pause.rs`, `team.rs`, `worker.rs`, `words.rs` | a holder that is stopped for longer than its lease lasts |
//! | `counter.rs`, `tally.rs`, `dice.rs` | many clients, one counter, and a leader that is killed |
//! | `ledger.rs` | the store, as its clients see it |
//! | `story.rs`, `summary.rs` | what is told, and whether it is what it should be |

mod counter;
mod dice;
pub(crate) mod kid;
mod ledger;
mod pause;
mod process;
mod stage;
mod story;
mod summary;
mod tally;
mod team;
mod words;
pub(crate) mod worker;

use std::process::ExitCode;

use anyhow::Context as _;

use self::dice::Dice;
use self::pause::Scene;
use self::stage::Stage;
use self::story::{Story, Tone};
use self::summary::Summary;
use crate::common::Common;
use crate::{output, signals};

/// See in half a minute what a fencing token is for, with real processes on this machine
///
/// Three nodes and a store are started in a throw-away directory. A client is stopped while it holds
/// a lock and writes too late: first without fencing, then with it. Then the leader is killed while
/// many clients count. Exit code 0 means that it all ended as it should.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many clients count when the leader is killed
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=200))]
    clients: u64,

    /// When the leader is killed and how long each client thinks follow from this number
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start: the system has no room for threads")?;
    let is_json = common.output().is_json();
    // On this thread, and no other: the processes die with the thread that has started them.
    let summary = runtime.block_on(async {
        let mut signals = signals::End::listen()?;
        let mut story = Story::begin(is_json);
        let played = tokio::select! {
            summary = play(args, &mut story) => Some(summary?),
            // What was started goes with what is dropped here.
            _ = signals.heard() => None,
        };
        if played.is_none() {
            story.line(Tone::Bad, "interrupted: everything is cleared away")?;
        }
        anyhow::Ok(played)
    })?;
    let Some(summary) = summary else { return Ok(ExitCode::FAILURE) };
    if is_json {
        output::json(&summary)?;
    }
    Ok(if summary.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn play(args: &Args, story: &mut Story) -> anyhow::Result<Summary> {
    let mut dice = Dice::new(args.seed);
    story.line(Tone::Strong, "A lock cannot protect data by itself. A fencing token can.")?;
    story.line(Tone::Plain, "")?;
    let mut stage = Stage::set(story).await?;
    let leader = stage.leader(None).await?;
    story.tell(Tone::Plain, &format!("{leader} leads; the store is {}", stage.ledger().url()))?;

    story.heading("1. Without fencing: the clients keep their tokens to themselves")?;
    story.beat().await;
    let scene = Scene { stage: &stage, story, lock: "unfenced", is_fenced: false };
    let unfenced = scene.play().await?;
    conclude(story, &unfenced)?;

    story.heading("2. With fencing: every write carries the token of its lock")?;
    story.beat().await;
    let scene = Scene { stage: &stage, story, lock: "fenced", is_fenced: true };
    let fenced = scene.play().await?;
    conclude(story, &fenced)?;

    let clients = args.clients;
    let rounds = counter::ROUNDS;
    story.heading(&format!(
        "3. {clients} clients count to {} together, and the leader dies (seed {})",
        clients * rounds,
        args.seed
    ))?;
    story.line(Tone::Plain, "")?;
    story.beat().await;
    let counted = counter::play(&mut stage, story, clients, &mut dice).await?;
    let text = format!("the counter stands at {}", counted.counter);
    story.tell(Tone::Strong, &text)?;

    stage.clear().await?;
    let mut summary = Summary::of(args.seed, clients, &unfenced, &fenced, &counted);
    summary.tell(story)?;
    Ok(summary)
}

fn conclude(story: &mut Story, outcome: &pause::Outcome) -> anyhow::Result<()> {
    let count = outcome.acknowledged.len();
    let (tone, text) = match outcome.lost()[..] {
        [] => (Tone::Good, format!("{count} updates were acknowledged, and both are there")),
        ref lost => {
            let lost = lost.join(" and ");
            (Tone::Bad, format!("{count} updates were acknowledged, and {lost} is LOST"))
        }
    };
    Ok(story.tell(tone, &text)?)
}
