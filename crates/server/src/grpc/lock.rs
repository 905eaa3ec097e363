//! Lock and TryLock: calls that a lock is bound to until they are answered.
//!
//! A unary call has no session that would come back for its lock. Its contender carries this
//! member and its boot, so that it ends when this process does; when the caller is gone, it is
//! removed here, unless another call has taken it up since, here or on another member. A grant is
//! answered only after the log says that it is being answered, because a grant that was told must
//! not be taken back as one that was not.
//!
//! The work is done in the caller's own task. When the caller is gone, what is left of it goes on in
//! one of its own.

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fencepost_core::command::{
    Action, CallsAnswered, Cancel, CancelTarget, Command, LeaseRef, Wait,
};
use fencepost_core::event::Cause;
use fencepost_core::outcome::{Denial, Grant};
use fencepost_core::{Key, LeaseId, Outcome, Reason, Reply, State};
use fencepost_node::io::ProposeError;
use fencepost_proto::v1;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::ears::standing;
use crate::error::{Failure, Wrong};
use crate::house::{House, Postbox, unexpected};
use crate::pending::{Standing, Ticket, Verdict};
use crate::shares::{Parting, Share};
use crate::wanted::Wanted;
use crate::{parse, show, signing};

/// What a call is told.
pub(crate) type Told = Result<v1::LockResponse, Failure>;

pub(super) async fn lock(house: &Arc<House>, request: &v1::LockRequest) -> Told {
    begin_signed(house, parse::lock(request)?, request.signed).await
}

pub(super) async fn try_lock(
    house: &Arc<House>,
    request: &v1::TryLockRequest,
) -> Result<v1::TryLockResponse, Failure> {
    let told = begin_signed(house, parse::try_lock(request)?, request.signed).await?;
    let v1::LockResponse {
        header,
        key,
        fencing_token,
        acquired,
        remaining_ms,
        holder,
        signed_token,
    } = told;
    Ok(v1::TryLockResponse {
        header,
        key,
        fencing_token,
        acquired,
        remaining_ms,
        holder,
        signed_token,
    })
}

/// Has it done without a signature.
pub(crate) async fn begin(house: &Arc<House>, wanted: impl Into<Wanted>) -> Told {
    begin_signed(house, wanted, false).await
}

/// Has it done, also if the caller does not wait for it. What is to be signed and cannot be is refused
/// before anything is done.
pub(crate) async fn begin_signed(
    house: &Arc<House>,
    wanted: impl Into<Wanted>,
    signed: bool,
) -> Told {
    if signed {
        house.signing.signer().await?;
    }
    let (here, gone) = oneshot::channel();
    let call = Call::new(house, wanted.into(), signed);
    Attended { work: Some(Box::pin(call.run(gone))), _here: here }.await
}

/// A call whose caller waits for it. When this is dropped, the sender is, so that the call knows, and
/// what is left of the work goes on in a task.
struct Attended {
    work: Option<Pin<Box<dyn Future<Output = Told> + Send>>>,
    _here: oneshot::Sender<()>,
}

impl Future for Attended {
    type Output = Told;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Told> {
        let Some(work) = &mut self.work else {
            return Poll::Ready(Err(ProposeError::Indeterminate.into()));
        };
        let told = ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(told)
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        // Without a runtime the whole process ends. Then the place ends with this boot.
        let runtime = tokio::runtime::Handle::try_current().ok();
        if let (Some(work), Some(runtime)) = (self.work.take(), runtime) {
            runtime.spawn(work);
        }
    }
}

struct Call {
    house: Arc<House>,
    wanted: Wanted,
    /// Whether the token is to be signed.
    signed: bool,
    /// Where it stands in the queue, once that is known.
    place: Option<Place>,
    share: Share,
}

/// A place in a queue, and how its end is heard of.
struct Place {
    key: Key,
    lease: LeaseId,
    ticket: Ticket,
    verdict: oneshot::Receiver<Verdict>,
}

impl Place {
    fn register(house: &House, key: Key, lease: LeaseId) -> Place {
        let (tell, verdict) = oneshot::channel();
        let ticket = house.pending().register(key.clone(), Postbox::Call(tell));
        Place { key, lease, ticket, verdict }
    }
}

/// How a call ends.
struct End {
    told: Told,
    left: Left,
}

/// What a call leaves behind when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing, for certain.
    Nothing,
    /// Perhaps a place in the queue, and perhaps that holds.
    Place,
    /// A hold that its caller is to be told of.
    Hold,
}

impl Call {
    fn new(house: &Arc<House>, mut wanted: Wanted, signed: bool) -> Call {
        let place = wanted.place().map(|(key, lease)| Place::register(house, key, lease));
        let share = house.shares.join(&wanted.spot(), !wanted.wait().is_try());
        wanted.bind(share.call);
        Call { house: Arc::clone(house), wanted, signed, place, share }
    }

    /// Does all of it. The caller hears what comes of it in the very moment in which this ends, if
    /// it is not gone by then.
    async fn run(mut self, mut gone: oneshot::Receiver<()>) -> Told {
        let End { told, left } = self.serve(&mut gone).await;
        if let Some(place) = &self.place {
            self.house.pending().forget(&place.ticket);
        }
        if left != Left::Hold {
            // First the place, then the answer: whoever hears that it has nothing has nothing.
            let parting = if left == Left::Place { Parting::Place } else { Parting::Nothing };
            if self.house.shares.leave(&self.share, parting) {
                self.withdraw().await;
            }
            return told;
        }
        let is_told = gone.try_recv() == Err(TryRecvError::Empty);
        let parting = if is_told { Parting::Told } else { Parting::Place };
        if self.house.shares.leave(&self.share, parting) {
            // It is held, and nobody knows.
            self.withdraw().await;
        }
        told
    }

    async fn serve(&mut self, gone: &mut oneshot::Receiver<()>) -> End {
        let command = Command::from(self.wanted.action());
        let timeout = timeout(self.wanted.wait());
        let reply = match self.house.calls.propose_in_company(&command).await {
            Ok(reply) => reply,
            Err(failure) => {
                let left = if failure.indeterminate { Left::Place } else { Left::Nothing };
                return End { told: Err(failure), left };
            }
        };
        let header = self.house.head.at(reply.revision);
        match reply.outcome {
            // The state lets what is held at once live on its lease, so it may be told.
            Outcome::Acquired(grant) => {
                self.stand(&grant.key);
                match self.sign(&grant, Left::Place).await {
                    Ok(signed_token) => hold(header, &grant, signed_token),
                    Err(end) => end,
                }
            }
            // What it held before is not taken back if it cannot be told of again.
            Outcome::Renewed(grant) => {
                self.stand(&grant.key);
                self.granted(header, &grant, Left::Nothing).await
            }
            Outcome::Queued(ref place) => match self.queued(&place.key, &reply).await {
                Ok(seen) => self.wait(seen, timeout, gone).await,
                Err(failure) => End { told: Err(failure), left: Left::Place },
            },
            Outcome::Denied(denial) => {
                let holder = match denial {
                    Denial::Held(client) => client.as_str().to_owned(),
                    Denial::Delayed(_) | Denial::NotOwner => String::new(),
                };
                End { told: Ok(self.not_acquired(header, holder)), left: Left::Nothing }
            }
            Outcome::Rejected(reason) => End { told: Err(reason.into()), left: Left::Nothing },
            _ => End { told: Err(unexpected()), left: Left::Nothing },
        }
    }

    /// The state has said where this call stands.
    fn stand(&mut self, key: &Key) -> Option<&mut Place> {
        if self.place.is_none() {
            let (_, lease) = parse::queue_form(key)?;
            self.place = Some(Place::register(&self.house, key.clone(), lease));
        }
        self.place.as_mut()
    }

    /// It waits, unless its end was seen already.
    async fn queued(&mut self, key: &Key, reply: &Reply) -> Result<Option<Verdict>, Failure> {
        let was_known = self.place.is_some();
        let house = Arc::clone(&self.house);
        let place = self.stand(key).ok_or_else(unexpected)?;
        let seen = house.pending().queued(&place.ticket, reply.revision);
        if was_known || seen.is_some() {
            return Ok(seen);
        }
        // What happened to the key before it was known was heard by nobody. From here on everything
        // is, so the state tells the rest.
        let (key, since) = (key.clone(), reply.revision);
        let look = house
            .ask(true, move |state| (state.revision() >= since).then(|| standing(state, &key)));
        Ok(match look.await?.1 {
            Some(Standing::Holds { token, remaining }) => {
                Some(Verdict::Granted { token, remaining })
            }
            Some(Standing::Absent) => Some(Verdict::Gone),
            // A member that is behind will hear of all of it.
            Some(Standing::Waits) | None => None,
        })
    }

    async fn wait(
        &mut self,
        seen: Option<Verdict>,
        timeout: Option<Duration>,
        gone: &mut oneshot::Receiver<()>,
    ) -> End {
        let Some(place) = &mut self.place else {
            return End { told: Err(unexpected()), left: Left::Place };
        };
        let (key, lease) = (place.key.clone(), place.lease);
        let house = Arc::clone(&self.house);
        let patience = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let verdict = match seen {
            Some(verdict) => Some(verdict),
            None => tokio::select! {
                verdict = &mut place.verdict => verdict.ok(),
                () = patience => Some(Verdict::Ended(Cause::TimedOut)),
                _ = gone => None,
                () = house.closed() => {
                    return End { told: Err(Wrong::ShuttingDown.into()), left: Left::Place };
                }
            },
        };
        let (wrong, left) = match verdict {
            Some(Verdict::Granted { token, remaining }) => {
                let grant = Grant { key, token, lease, remaining };
                return self.granted(self.house.head.now(), &grant, Left::Place).await;
            }
            Some(Verdict::Ended(Cause::TimedOut)) => {
                return End { told: Ok(self.timed_out().await), left: Left::Place };
            }
            Some(Verdict::Ended(Cause::Expired | Cause::Revoked)) => {
                (Wrong::Refused(Reason::LeaseNotFound(lease)), Left::Nothing)
            }
            Some(Verdict::Ended(cause)) => (Wrong::WaitEnded(Some(cause)), Left::Nothing),
            Some(Verdict::Gone) => (Wrong::WaitEnded(None), Left::Place),
            None => (Wrong::WaitEnded(Some(Cause::Cancelled)), Left::Place),
        };
        End { told: Err(wrong.into()), left }
    }

    /// The lock is held. That may be told when the log knows that it will be. `unsigned` is what
    /// is left if the token cannot be signed.
    async fn granted(&self, header: v1::Header, grant: &Grant, unsigned: Left) -> End {
        let signed_token = match self.sign(grant, unsigned).await {
            Ok(signed_token) => signed_token,
            Err(end) => return end,
        };
        // What does not wait is not bound: it would cost a second entry of the log, and if this
        // process ends before the answer, the lease still does what it is there for.
        if !self.wanted.wait().is_try() {
            let contenders = vec![(grant.key.clone(), grant.token, self.share.call)];
            let answered = Action::CallsAnswered(CallsAnswered { contenders });
            match self.house.insist(answered).await {
                Ok(Outcome::NotFound) => {
                    let told = Err(Wrong::WaitEnded(None).into());
                    return End { told, left: Left::Nothing };
                }
                Ok(_) => {}
                Err(failure) => return End { told: Err(failure), left: Left::Place },
            }
        }
        hold(header, grant, signed_token)
    }

    /// The signed token, or an empty one if none is wanted. If there is none to be had, how the call
    /// ends; `unsigned` is what it leaves then.
    async fn sign(&self, grant: &Grant, unsigned: Left) -> Result<String, End> {
        if !self.signed {
            return Ok(String::new());
        }
        let signed = signing::grant(&self.house, self.wanted.name(), grant.lease, grant.token);
        match signed.await {
            Ok(Some(signed_token)) => Ok(signed_token),
            // The hold is gone already.
            Ok(None) => Err(End { told: Err(Wrong::WaitEnded(None).into()), left: Left::Nothing }),
            Err(failure) => Err(End { told: Err(failure), left: unsigned }),
        }
    }

    fn not_acquired(&self, header: v1::Header, holder: String) -> v1::LockResponse {
        v1::LockResponse {
            header: Some(header),
            key: self.place.as_ref().map(|place| show::text(&place.key)).unwrap_or_default(),
            holder,
            ..v1::LockResponse::default()
        }
    }

    async fn timed_out(&self) -> v1::LockResponse {
        let name = self.wanted.name().clone();
        let ask = self.house.ask(true, move |state| state.in_the_way(&name)).await;
        let holder = ask.map(|(_, client)| client.as_str().to_owned()).unwrap_or_default();
        self.not_acquired(self.house.head.now(), holder)
    }

    /// Gives up the place in the queue, or the hold that nobody was told of, if it is still this
    /// call's.
    async fn withdraw(&self) {
        let Some(lease) = self.lease().await else { return };
        let target = CancelTarget::Call(self.wanted.name().clone(), self.share.call);
        let cancel = Action::Cancel(Cancel { lease, target });
        if self.house.insist(cancel).await.is_err_and(|failure| failure.retryable) {
            let lease = lease.id.0;
            tracing::warn!(lease, "the place of a call that is gone is left to its lease");
        }
    }

    /// The lease that this call stands on, if it may stand anywhere.
    async fn lease(&self) -> Option<LeaseRef> {
        let (name, client) = match &self.wanted {
            Wanted::Leased(acquire) => return Some(acquire.lease),
            Wanted::Owned(acquire) => (acquire.name.clone(), acquire.client.clone()),
        };
        if let Some(place) = &self.place {
            return Some(place.lease.into());
        }
        // The answer got lost, and with it what the state has called the lease.
        let ask = move |state: &State| state.lease_of_owner(&client, &name);
        self.house.insist_on_asking(ask).await.ok()?.map(LeaseRef::from)
    }
}

/// The end of a call that holds.
fn hold(header: v1::Header, grant: &Grant, signed_token: String) -> End {
    let told = v1::LockResponse {
        header: Some(header),
        key: show::text(&grant.key),
        fencing_token: show::signed(grant.token.0),
        acquired: true,
        remaining_ms: show::millis(grant.remaining),
        signed_token,
        ..v1::LockResponse::default()
    };
    End { told: Ok(told), left: Left::Hold }
}

/// How long this member lets a call wait. The state bounds a place by the most patient of those
/// who wait on it.
fn timeout(wait: Wait) -> Option<Duration> {
    match wait {
        Wait::AtMost(length) => Some(Duration::from_millis(length.0)),
        Wait::Try | Wait::WhileLeased => None,
    }
}
