//! Many clients, one counter in the store, and a leader that is killed meanwhile.
//!
//! Each client takes the lock, reads the counter, writes it back increased with its token, and gives
//! the lock back. Nothing but the lock keeps two of them from counting the same number.

use std::pin::pin;
use std::time::Duration;

use anyhow::Context as _;
use fencepost_client::{BootTime, Client};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::dice::Dice;
use super::ledger::{Ledger, Verdict};
use super::stage::Stage;
use super::story::{Story, Tone};
use super::tally::Tally;
use crate::failure::Told as _;

const KEY: &str = "counter";
/// Much longer than a new leader takes, so that nobody loses a lock by it.
const TTL: Duration = Duration::from_secs(10);
/// How often each client counts.
pub(super) const ROUNDS: u64 = 10;
/// How long a client thinks between two rounds, at most.
const THINKING_MS_MAX: u64 = 300;
/// The leader dies when so much in a hundred is done.
const KILL_PERCENT: (u64, u64) = (25, 50);
/// How often progress is told.
const STEPS: u64 = 8;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(40);
/// Increments that wait to be told of.
const EVENTS_MAX: usize = 1_024;
/// After an acquire that failed, before the next.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// What is in the store at the end.
    pub(super) counter: u64,
    pub(super) killed: String,
    pub(super) leader: String,
    /// From the kill until another node was seen to lead.
    pub(super) leaderless: Duration,
}

/// A number was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) token: i64,
    pub(super) at: BootTime,
}

/// Lets the clients count, and kills the leader.
pub(super) async fn play(
    stage: &mut Stage,
    story: &mut Story,
    clients: u64,
    dice: &mut Dice,
) -> anyhow::Result<Outcome> {
    let all = clients * ROUNDS;
    let kill_at = (all * dice.between(KILL_PERCENT.0, KILL_PERCENT.1) / 100).max(1);
    let (tell, told) = mpsc::channel(EVENTS_MAX);
    let mut crew = JoinSet::new();
    for number in 1..=clients {
        let name = format!("client-{number}");
        let client = Client::builder().endpoints(stage.endpoints()).name(&name);
        let counter = Counter {
            client: client.connect_lazy().told("start a client")?,
            name,
            ledger: stage.ledger().clone(),
            dice: dice.fork(),
            tell: tell.clone(),
        };
        crew.spawn(counter.count());
    }
    // From here on only the clients hold it, so that it is over when they are done.
    drop(tell);
    let watching = watch(stage, story, told, all, kill_at);
    let outcome = timeout(PATIENCE, watching).await;
    let mut outcome = outcome.context("the clients did not come to an end in time")??;
    while let Some(done) = crew.join_next().await {
        done.context("a client has ended badly")??;
    }
    let counter = stage.ledger().read(KEY).await?;
    outcome.counter = counter.parse().context("the counter in the store is no number")?;
    Ok(outcome)
}

/// Tells what the clients do until they are done, and kills the leader at the right moment.
async fn watch(
    stage: &mut Stage,
    story: &mut Story,
    mut told: mpsc::Receiver<Counted>,
    all: u64,
    kill_at: u64,
) -> anyhow::Result<Outcome> {
    let mut tally = Tally::default();
    let step = (all / STEPS).max(1);
    let show = |story: &mut Story, tally: &Tally| {
        let token = format!("token {}", tally.last_token());
        story.progress(tally.count(), all, &token)
    };
    while tally.count() < kill_at {
        let Some(counted) = told.recv().await else { break };
        tally.add(counted);
        if tally.count() % step == 0 {
            show(story, &tally)?;
        }
    }
    let killed = stage.leader(None).await?;
    stage.kill(&killed);
    let at = BootTime::now();
    story.tell(Tone::Bad, &format!("kill -9 {killed}: it was the leader"))?;
    let mut leader = None;
    let mut successor = pin!(stage.leader(Some(&killed)));
    loop {
        tokio::select! {
            found = &mut successor, if leader.is_none() => {
                let (found, gap) = (found?, BootTime::now().since(at));
                let text = format!("{found} leads, {} ms after the kill", gap.as_millis());
                story.tell(Tone::Good, &text)?;
                leader = Some((found, gap));
            }
            counted = told.recv() => {
                let Some(counted) = counted else { break };
                tally.add(counted);
                if tally.count() % step == 0 {
                    show(story, &tally)?;
                }
            }
        }
    }
    let (leader, leaderless) = leader.context("nobody has led the cluster after the kill")?;
    Ok(Outcome { tally, counter: 0, killed: killed.clone(), leader, leaderless })
}

/// One of the clients.
struct Counter {
    client: Client,
    name: String,
    ledger: Ledger,
    dice: Dice,
    tell: mpsc::Sender<Counted>,
}

impl Counter {
    async fn count(mut self) -> anyhow::Result<()> {
        let mut done = 0;
        while done < ROUNDS {
            let lock = self.client.lock(KEY).ttl(TTL);
            let guard = match lock.acquire().await {
                Ok(guard) => guard,
                // Nothing is held, or what is ends with its lease: asking again does no harm.
                Err(why) if why.is_retryable() || why.is_indeterminate() => {
                    sleep(RETRY_PAUSE).await;
                    continue;
                }
                Err(why) => return Err(why).told("take the lock of the counter")?,
            };
            let token = guard.token().get();
            let found = self.ledger.read(KEY).await?;
            let found = if found.is_empty() { 0 } else { found.parse::<u64>()? };
            let next = (found + 1).to_string();
            // A client that has noticed its loss does not even try. One that has not is refused.
            if guard.is_valid()
                && self.ledger.write(KEY, &self.name, token, &next).await? == Verdict::Accepted
            {
                done += 1;
                // Before the lock is given back, so that the order is that of the grants.
                let counted = Counted { token, at: BootTime::now() };
                self.tell.send(counted).await.context("nobody counts with us any more")?;
            }
            // If that is lost, the lease ends it.
            let _ = guard.release().await;
            sleep(Duration::from_millis(self.dice.between(0, THINKING_MS_MAX))).await;
        }
        self.client.close().await;
        Ok(())
    }
}
