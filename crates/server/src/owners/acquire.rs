//! An acquire by owner name, from asking to the grant.
//!
//! As with the unary call of gRPC, what waits is bound to its call: when the caller is gone, the
//! place in the queue is given up, and a grant is told only after the log knows that it will be.
//! The difference is the lease: the state makes it, so the place is known only from the reply, and
//! its end may have been seen before that. Guarantees: nothing is missed, because the place is
//! registered first and looked at afterwards.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::command::{
    AcquireAs, Action, CallsAnswered, Cancel, CancelTarget, Command, Wait,
};
use fencepost_core::event::Cause;
use fencepost_core::outcome::Grant;
use fencepost_core::{Key, LeaseId, Outcome, Reply, Revision, State};
use fencepost_node::io::{Class, ProposeError};
use fencepost_node::shell::Freshness;
use fencepost_proto::v1;
use tokio::sync::oneshot;

use super::{Answer, Answered, Taken, Told, Turn};
use crate::error::{Failure, Wrong};
use crate::house::{House, Postbox, unexpected};
use crate::pending::{Ticket, Verdict};
use crate::shares::{Parting, Share, Spot};
use crate::{limits, parse};

/// Has it done by a task of its own, so that it is cleaned up after a caller that is gone.
pub(super) async fn begin(house: &Arc<House>, ask: AcquireAs, turn: Turn) -> Answer {
    let (tell, told) = oneshot::channel();
    // When this call is dropped, so is the sender, and the task knows that nobody waits.
    let (_here, gone) = oneshot::channel();
    tokio::spawn(Call::new(house, ask).run(turn, tell, gone));
    told.await.unwrap_or_else(|_| Answered::Err(ProposeError::Indeterminate.into()).into())
}

struct Call {
    house: Arc<House>,
    ask: AcquireAs,
    share: Share,
}

/// How a call ends.
struct End {
    told: Answered,
    left: Left,
}

/// What a call leaves behind when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing, for certain, or nothing that this call may take back.
    Nothing,
    /// Perhaps a place in the queue, under this lease if it is known.
    Place(Option<LeaseId>),
    /// A hold that its caller is to be told of.
    Hold(LeaseId),
}

/// Why a call stops waiting.
enum Stop {
    Gone,
    Closing,
    TimedOut,
}

impl Call {
    fn new(house: &Arc<House>, mut ask: AcquireAs) -> Call {
        let spot = Spot::Owner(ask.client.clone(), ask.name.clone());
        let share = house.shares.join(&spot, !ask.wait.is_try());
        ask.terms.call = Some(share.call);
        Call { house: Arc::clone(house), ask, share }
    }

    async fn run(self, turn: Turn, tell: oneshot::Sender<Answer>, gone: oneshot::Receiver<()>) {
        let End { told, left } = self.serve(turn, gone).await;
        let Left::Hold(lease) = left else {
            // First the place, then the answer: whoever hears that it has nothing has nothing.
            let (parting, lease) = match left {
                Left::Place(lease) => (Parting::Place, lease),
                Left::Nothing | Left::Hold(_) => (Parting::Nothing, None),
            };
            if self.house.shares.leave(&self.share, parting) {
                self.withdraw(lease).await;
            }
            // The caller may have gone.
            drop(tell.send(told.into()));
            return;
        };
        let (taken, was_taken) = oneshot::channel();
        let answer = Answer { told, taken: Taken(Some(taken)) };
        let is_told = tell.send(answer).is_ok() && was_taken.await.is_ok();
        let parting = if is_told { Parting::Told } else { Parting::Place };
        if self.house.shares.leave(&self.share, parting) {
            // It is held, and nobody knows.
            self.withdraw(Some(lease)).await;
        }
    }

    async fn serve(&self, mut turn: Turn, mut gone: oneshot::Receiver<()>) -> End {
        let house = Arc::clone(&self.house);
        let wait = self.ask.wait;
        let stop = async {
            let patience = async {
                match wait {
                    Wait::AtMost(length) if !wait.is_try() => {
                        tokio::time::sleep(Duration::from_millis(length.0)).await;
                    }
                    Wait::Try | Wait::AtMost(_) | Wait::WhileLeased => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = &mut gone => Stop::Gone,
                () = house.closed() => Stop::Closing,
                () = patience => Stop::TimedOut,
            }
        };
        tokio::pin!(stop);
        tokio::select! {
            () = turn.comes() => {}
            why = &mut stop => return self.stopped(why, Left::Nothing).await,
        }
        let reply = match self.propose(&mut stop).await {
            Ok(reply) => reply,
            Err(end) => return end,
        };
        drop(turn);
        let header = self.house.head.at(reply.revision);
        match reply.outcome {
            // The state lets what is held at once live on its lease, so it may be told.
            Outcome::Acquired(grant) => {
                let left = Left::Hold(grant.lease);
                End { told: Ok((header, Told::Acquired(grant))), left }
            }
            Outcome::Renewed(grant) => self.granted(header, grant, Told::Renewed).await,
            Outcome::Queued(place) => self.wait(place.key, reply.revision, stop).await,
            Outcome::Denied(denial) => {
                End { told: Ok((header, Told::Denied(denial))), left: Left::Nothing }
            }
            Outcome::Rejected(reason) => End { told: Err(reason.into()), left: Left::Nothing },
            _ => End { told: Err(unexpected()), left: Left::Nothing },
        }
    }

    /// Asks until there is an answer. Whoever can wait for a lock can wait for a leader; asking
    /// again under the same call finds the place that an earlier try may have made.
    async fn propose(&self, stop: &mut (impl Future<Output = Stop> + Unpin)) -> Result<Reply, End> {
        let command = Command::from(Action::AcquireAs(self.ask.clone()));
        let waits = !self.ask.wait.is_try();
        let (mut pause, most) = limits::RETRY_PAUSES;
        let mut left = Left::Nothing;
        loop {
            let failure = match self.house.calls.propose(Class::Ordinary, &command).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            // What does not wait is not bound to its call, and the same owner can ask again.
            if failure.indeterminate && waits {
                left = Left::Place(None);
            }
            if !waits || !is_passing(&failure) || self.house.has_ended() {
                return Err(End { told: Err(failure), left });
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (2 * pause).min(most),
                why = &mut *stop => return Err(self.stopped(why, left).await),
            }
        }
    }

    /// Waits in the queue since this revision.
    async fn wait(&self, key: Key, since: Revision, stop: impl Future<Output = Stop>) -> End {
        let Some((_, lease)) = parse::queue_form(&key) else {
            return End { told: Err(unexpected()), left: Left::Place(None) };
        };
        let (tell, verdict) = oneshot::channel();
        let ticket = self.house.pending().register(key.clone(), Postbox::Call(tell));
        let entry = Entry { house: &self.house, ticket };
        let seen = self.house.pending().queued(&entry.ticket, since);
        let verdict = async {
            match seen {
                Some(verdict) => verdict,
                None => self.verdict(&key, since, verdict).await,
            }
        };
        let verdict = tokio::select! {
            verdict = verdict => verdict,
            why = stop => return self.stopped(why, Left::Place(Some(lease))).await,
        };
        let (wrong, left) = match verdict {
            Verdict::Granted { token, remaining } => {
                let grant = Grant { key, token, lease, remaining };
                return self.granted(self.house.head.now(), grant, Told::Acquired).await;
            }
            Verdict::Ended(Cause::TimedOut) => {
                return self.stopped(Stop::TimedOut, Left::Nothing).await;
            }
            Verdict::Ended(cause) => (Wrong::WaitEnded(Some(cause)), Left::Nothing),
            Verdict::Gone => (Wrong::WaitEnded(None), Left::Place(Some(lease))),
        };
        End { told: Err(wrong.into()), left }
    }

    /// What becomes of the place: what was seen before it was registered, or what is told since.
    async fn verdict(
        &self,
        key: &Key,
        since: Revision,
        mut told: oneshot::Receiver<Verdict>,
    ) -> Verdict {
        let (mut pause, most) = limits::RETRY_PAUSES;
        loop {
            let looked = key.clone();
            let look = self.house.calls.read(Freshness::Stale, move |machine| {
                let state = machine.state();
                (state.revision(), state.standing(&looked))
            });
            let looked = tokio::select! {
                verdict = &mut told => return verdict.unwrap_or(Verdict::Gone),
                looked = look => looked,
            };
            match looked {
                // This member has not come to the place yet. It will tell of its end.
                Ok((reached, _)) if reached < since => break,
                Ok((_, None)) => return Verdict::Gone,
                Ok((_, Some(one))) if one.holds => {
                    return Verdict::Granted { token: one.token, remaining: one.remaining };
                }
                Ok((_, Some(_))) => break,
                Err(_) if self.house.has_ended() => break,
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (2 * pause).min(most);
        }
        told.await.unwrap_or(Verdict::Gone)
    }

    /// The lock is held. That may be told when the log knows that it will be.
    async fn granted(&self, header: v1::Header, grant: Grant, told: fn(Grant) -> Told) -> End {
        let lease = grant.lease;
        if !self.ask.wait.is_try() {
            let contenders = vec![(grant.key.clone(), grant.token, self.share.call)];
            let answered = Action::CallsAnswered(CallsAnswered { contenders });
            match self.house.insist(answered).await {
                Ok(Outcome::NotFound) => {
                    let told = Err(Wrong::WaitEnded(None).into());
                    return End { told, left: Left::Nothing };
                }
                Ok(_) => {}
                Err(failure) => return End { told: Err(failure), left: Left::Place(Some(lease)) },
            }
        }
        End { told: Ok((header, told(grant))), left: Left::Hold(lease) }
    }

    async fn stopped(&self, why: Stop, left: Left) -> End {
        let told = match why {
            Stop::Gone => Err(Wrong::WaitEnded(Some(Cause::Cancelled)).into()),
            Stop::Closing => Err(Wrong::ShuttingDown.into()),
            Stop::TimedOut => {
                let name = self.ask.name.clone();
                let ask = self.house.ask(true, move |state| state.in_the_way(&name)).await;
                ask.map(|(header, owner)| (header, Told::TimedOut(owner)))
            }
        };
        End { told, left }
    }

    /// Gives up the place in the queue, or the hold that nobody was told of, if it is still this
    /// call's.
    async fn withdraw(&self, lease: Option<LeaseId>) {
        let Some(lease) = (match lease {
            Some(lease) => Some(lease),
            None => self.find_lease().await,
        }) else {
            return;
        };
        let target = CancelTarget::Call(self.ask.name.clone(), self.share.call);
        let cancel = Action::Cancel(Cancel { lease: lease.into(), target });
        if self.house.insist(cancel).await.is_err_and(|failure| failure.retryable) {
            let lease = lease.0;
            tracing::warn!(lease, "the place of a call that is gone is left to its lease");
        }
    }

    /// The lease that the state has made for this owner and lock, if it has.
    async fn find_lease(&self) -> Option<LeaseId> {
        let (client, name) = (self.ask.client.clone(), self.ask.name.clone());
        let ask = move |state: &State| state.lease_of_owner(&client, &name);
        self.house.insist_on_asking(ask).await.ok().flatten()
    }
}

/// A place that somebody waits for. It is forgotten with this.
struct Entry<'a> {
    house: &'a House,
    ticket: Ticket,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.house.pending().forget(&self.ticket);
    }
}

/// Whether a failure passes when there is a leader again.
fn is_passing(failure: &Failure) -> bool {
    failure.indeterminate || failure.code == Failure::from(ProposeError::NoLeader).code
}
