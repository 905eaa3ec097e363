//! A holder that pauses for longer than its lease lasts, and writes when it goes on.
//!
//! | | client A | client B | the store |
//! |---|---|---|---|
//! | 1 | takes the lock, reads, makes sure of its lock | waits | |
//! | 2 | is stopped | | |
//! | 3 | its lease ends | takes the lock, reads, writes, gives it back | has B's update |
//! | 4 | goes on, and writes what it has made of the old contents | | is asked to forget B's update |
//!
//! Step 4 cannot be prevented by A or by the lock service. It can be by the store, if it is sent the
//! token. Nothing here is acted: A is a process that gets SIGSTOP, and its lease really ends.

use super::stage::Stage;
use super::story::{Lane, Story, Tone};
use super::team::Worker;
use super::words::{Order, Said};

/// How long the lease of a client lives without a renewal.
pub(super) const TTL_S: u64 = 3;

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Updates that the store has called a success.
    pub(super) acknowledged: Vec<String>,
    /// What is in the store at the end.
    pub(super) found: String,
    /// Whether the late write was refused.
    pub(super) is_late_refused: bool,
    /// The tokens, in the order of the grants.
    pub(super) tokens: Vec<i64>,
}

impl Outcome {
    /// Acknowledged, and gone.
    pub(super) fn lost(&self) -> Vec<&str> {
        let is_there = |update: &str| self.found.split(", ").any(|found| found == update);
        self.acknowledged.iter().map(String::as_str).filter(|update| !is_there(update)).collect()
    }
}

/// One performance.
pub(super) struct Scene<'a> {
    pub(super) stage: &'a Stage,
    pub(super) story: &'a mut Story,
    /// The lock, and the key in the store.
    pub(super) lock: &'a str,
    pub(super) is_fenced: bool,
}

impl Scene<'_> {
    pub(super) async fn play(mut self) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::default();
        self.story.lanes(["client A", "client B", "the store"])?;
        let mut a = Worker::start(self.stage, "A", self.lock, self.is_fenced)?;
        self.takes_and_reads(&mut a, Lane::A, &mut outcome).await?;
        let mut b = Worker::start(self.stage, "B", self.lock, self.is_fenced)?;
        b.until(|said| matches!(said, Said::Waits).then_some(())).await?;
        self.story.act(Lane::B, Tone::Plain, "waits behind A")?;
        self.story.beat().await;
        a.pause()?;
        self.story.act(Lane::A, Tone::Bad, "is stopped (SIGSTOP)")?;
        self.story.beat().await;
        let waiting = format!("... {TTL_S} s without a sign of life: the lease of A ends ...");
        self.story.tell(Tone::Quiet, &waiting)?;
        self.takes_and_reads(&mut b, Lane::B, &mut outcome).await?;
        b.order(Order::Write)?;
        self.writes(&mut b, Lane::B, &mut outcome).await?;
        self.gives_back(&mut b, Lane::B).await?;
        self.story.beat().await;
        // It lies in its input when it goes on.
        a.order(Order::Write)?;
        a.resume()?;
        self.story.act(Lane::A, Tone::Bad, "goes on (SIGCONT)")?;
        outcome.is_late_refused = !self.writes(&mut a, Lane::A, &mut outcome).await?;
        if outcome.is_late_refused {
            self.story.act(Lane::A, Tone::Good, "knows, and begins anew")?;
            self.story.beat().await;
            a.order(Order::Again)?;
            self.takes_and_reads(&mut a, Lane::A, &mut outcome).await?;
            a.order(Order::Write)?;
            self.writes(&mut a, Lane::A, &mut outcome).await?;
            self.gives_back(&mut a, Lane::A).await?;
        }
        outcome.found = self.stage.ledger().read(self.lock).await?;
        let found = format!("holds {:?}", outcome.found);
        self.story.act(Lane::Store, Tone::Strong, &found)?;
        Ok(outcome)
    }

    async fn takes_and_reads(
        &mut self,
        who: &mut Worker,
        lane: Lane,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        let token = |said: &Said| match said {
            Said::Holds { token } => Some(*token),
            _ => None,
        };
        let token = who.until(token).await?;
        outcome.tokens.push(token);
        self.story.act(lane, Tone::Plain, &format!("takes the lock: token {token}"))?;
        self.story.beat().await;
        who.order(Order::Go)?;
        let data = |said: &Said| match said {
            Said::Reads { data } => Some(data.clone()),
            _ => None,
        };
        let data = who.until(data).await?;
        self.story.act(lane, Tone::Plain, &format!("reads {data:?}"))?;
        self.story.beat().await;
        who.order(Order::Go)?;
        let checks = |said: &Said| match said {
            Said::Checks { is_valid } => Some(*is_valid),
            _ => None,
        };
        let answer = if who.until(checks).await? { "yes" } else { "no" };
        self.story.act(lane, Tone::Plain, &format!("do I hold the lock? {answer}"))?;
        self.story.beat().await;
        Ok(())
    }

    /// Gives whether the write was accepted.
    async fn writes(
        &mut self,
        who: &mut Worker,
        lane: Lane,
        outcome: &mut Outcome,
    ) -> anyhow::Result<bool> {
        let wrote = |said: &Said| match said {
            Said::Wrote { data, refusal } => Some((data.clone(), refusal.clone())),
            _ => None,
        };
        let (data, refusal) = who.until(wrote).await?;
        let text = format!("writes {data:?}");
        let is_late = lane == Lane::A && outcome.tokens.len() == 2;
        match &refusal {
            None => {
                let tone = if is_late { Tone::Bad } else { Tone::Good };
                self.story.ask(lane, &text, tone, "accepted")?;
                outcome.acknowledged.push(who.update().to_owned());
            }
            Some(why) => {
                self.story.ask(lane, &text, Tone::Good, "REFUSED:")?;
                self.story.act(Lane::Store, Tone::Good, why)?;
            }
        }
        let stands = |said: &Said| match said {
            Said::Stands { is_valid } => Some(*is_valid),
            _ => None,
        };
        if !who.until(stands).await? {
            self.story.act(lane, Tone::Quiet, "do I hold the lock? no")?;
        }
        self.story.beat().await;
        Ok(refusal.is_none())
    }

    async fn gives_back(&mut self, who: &mut Worker, lane: Lane) -> anyhow::Result<()> {
        who.order(Order::Finish)?;
        who.until(|said| (*said == Said::Released).then_some(())).await?;
        Ok(self.story.act(lane, Tone::Plain, "gives the lock back")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_acknowledged_and_is_not_there_is_lost() {
        let acknowledged = vec!["order-B".to_owned(), "order-A".to_owned()];
        let outcome = |found: &str| Outcome {
            acknowledged: acknowledged.clone(),
            found: found.to_owned(),
            ..Outcome::default()
        };
        assert_eq!(outcome("order-A").lost(), ["order-B"]);
        assert_eq!(outcome("order-B, order-A").lost(), [""; 0]);
        assert_eq!(outcome("order-AB").lost(), ["order-B", "order-A"]);
    }
}
