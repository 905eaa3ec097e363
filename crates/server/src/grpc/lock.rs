//! Lock and TryLock: calls that a lock is bound to until they are answered.
//!
//! A unary call has no session that would come back for its lock. Its contender carries this
//! member and its boot, so that it ends when this process does; when the caller is gone, it is
//! removed here. A grant is answered only after the log says that it is being answered, because a
//! grant that was told must not be taken back as one that was not.
//!
//! The work is done by a task of its own, so that it goes on when the caller is gone.

use std::sync::Arc;
use std::time::Duration;

use fencepost_core::command::{
    Acquire, Action, CallsAnswered, Cancel, CancelTarget, Command, Wait,
};
use fencepost_core::event::Cause;
use fencepost_core::outcome::Grant;
use fencepost_core::range::KeyRange;
use fencepost_core::{Key, Outcome, Reason, Reply, Token};
use fencepost_node::io::{Class, ProposeError};
use fencepost_proto::v1;
use tokio::sync::oneshot;

use crate::error::{Failure, Wrong};
use crate::house::{House, Postbox, unexpected};
use crate::pending::{Ticket, Verdict};
use crate::{limits, parse, show};

/// What a call is told.
type Told = Result<v1::LockResponse, Failure>;

/// What a call is told, and how it says that it has heard it. A call may be dropped while the
/// answer waits for it.
type Handed = (Told, oneshot::Sender<()>);

pub(super) async fn lock(house: &Arc<House>, request: &v1::LockRequest) -> Told {
    let mut acquire = parse::lock(request)?;
    acquire.terms.call = Some(house.call);
    begin(house, acquire).await
}

pub(super) async fn try_lock(
    house: &Arc<House>,
    request: &v1::TryLockRequest,
) -> Result<v1::TryLockResponse, Failure> {
    // What does not wait is not bound: it would cost a second entry of the log, and if this
    // process ends before the answer, the lease still does what it is there for.
    let told = begin(house, parse::try_lock(request)?).await?;
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

/// Has it done by a task of its own, and waits for what it says.
async fn begin(house: &Arc<House>, acquire: Acquire) -> Told {
    let (tell, told) = oneshot::channel();
    // When this call is dropped, so is the sender, and the task knows that nobody waits.
    let (_here, gone) = oneshot::channel();
    let call = Call::new(house, acquire);
    tokio::spawn(call.run(tell, gone));
    match told.await {
        Ok((told, taken)) => {
            // The task waits for this, so it is there.
            taken.send(()).ok();
            told
        }
        Err(_) => Err(ProposeError::Indeterminate.into()),
    }
}

struct Call {
    house: Arc<House>,
    acquire: Acquire,
    key: Key,
    ticket: Ticket,
    verdict: oneshot::Receiver<Verdict>,
}

/// How a call ends.
struct End {
    told: Told,
    /// If nobody hears it: the hold that it made.
    made: Option<Token>,
}

impl End {
    fn of(told: Told) -> End {
        End { told, made: None }
    }
}

impl Call {
    fn new(house: &Arc<House>, acquire: Acquire) -> Call {
        let key = parse::contender_key(&acquire.name, acquire.lease.id);
        let (tell, verdict) = oneshot::channel();
        let ticket = house.pending().register(key.clone(), Postbox::Call(tell));
        Call { house: Arc::clone(house), acquire, key, ticket, verdict }
    }

    async fn run(mut self, tell: oneshot::Sender<Handed>, gone: oneshot::Receiver<()>) {
        let End { told, made } = self.serve(gone).await;
        self.house.pending().forget(&self.ticket);
        let (taken, was_taken) = oneshot::channel();
        let is_told = tell.send((told, taken)).is_ok() && was_taken.await.is_ok();
        if let Some(token) = made.filter(|_| !is_told) {
            // It was granted, and nobody knows.
            self.withdraw(token, Some(token)).await;
        }
    }

    async fn serve(&mut self, gone: oneshot::Receiver<()>) -> End {
        let before = Token(u64::try_from(self.house.head.now().revision).unwrap_or(0));
        let command = Command::from(Action::Acquire(self.acquire.clone()));
        let timeout = timeout(self.acquire.wait);
        let reply = match self.house.calls.propose(Class::Ordinary, &command).await {
            Ok(reply) => reply,
            Err(failure) => {
                if failure.indeterminate {
                    // What stood there before is not this call's.
                    self.withdraw(Token(before.0 + 1), None).await;
                }
                return End::of(Err(failure));
            }
        };
        let header = self.house.head.at(reply.revision);
        match reply.outcome {
            Outcome::Acquired(grant) => self.granted(header, &grant, true).await,
            Outcome::Renewed(grant) => self.granted(header, &grant, false).await,
            Outcome::Queued(_) => self.wait(&reply, timeout, gone).await,
            Outcome::Denied(denial) => End::of(Ok(self.not_acquired(header, &denial.into()))),
            Outcome::Rejected(reason) => End::of(Err(reason.into())),
            _ => End::of(Err(unexpected())),
        }
    }

    async fn wait(
        &mut self,
        reply: &Reply,
        timeout: Option<Duration>,
        mut gone: oneshot::Receiver<()>,
    ) -> End {
        let seen = self.house.pending().queued(&self.ticket, reply.revision);
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
                verdict = &mut self.verdict => verdict.ok(),
                () = patience => Some(Verdict::Ended(Cause::TimedOut)),
                _ = &mut gone => None,
                () = house.closed() => {
                    self.withdraw(Token(0), None).await;
                    return End::of(Err(Wrong::ShuttingDown.into()));
                }
            },
        };
        match verdict {
            Some(Verdict::Granted { token, remaining }) => {
                let (key, lease) = (self.key.clone(), self.acquire.lease.id);
                let grant = Grant { key, token, lease, remaining };
                self.granted(self.house.head.now(), &grant, true).await
            }
            Some(Verdict::Ended(Cause::TimedOut)) => {
                self.withdraw(Token(0), None).await;
                End::of(Ok(self.timed_out().await))
            }
            Some(Verdict::Ended(Cause::Expired | Cause::Revoked)) => {
                End::of(Err(Reason::LeaseNotFound(self.acquire.lease.id).into()))
            }
            Some(Verdict::Ended(cause)) => End::of(Err(Wrong::WaitEnded(Some(cause)).into())),
            Some(Verdict::Gone) => End::of(Err(Wrong::WaitEnded(None).into())),
            None => {
                self.withdraw(Token(0), None).await;
                End::of(Err(Wrong::WaitEnded(Some(Cause::Cancelled)).into()))
            }
        }
    }

    /// The lock is held. That may be told when the log knows that it will be.
    async fn granted(&self, header: v1::Header, grant: &Grant, is_new: bool) -> End {
        let made = is_new.then_some(grant.token);
        if self.acquire.terms.call.is_some() {
            let contenders = vec![(grant.key.clone(), grant.token)];
            let answered = Action::CallsAnswered(CallsAnswered { contenders });
            if let Err(failure) = self.house.insist(answered).await {
                if let Some(token) = made {
                    self.withdraw(token, made).await;
                }
                return End::of(Err(failure));
            }
        }
        let told = v1::LockResponse {
            header: Some(header),
            key: show::text(&grant.key),
            fencing_token: show::signed(grant.token.0),
            acquired: true,
            remaining_ms: show::millis(grant.remaining),
            ..v1::LockResponse::default()
        };
        End { told: Ok(told), made }
    }

    fn not_acquired(&self, header: v1::Header, holder: &Holder) -> v1::LockResponse {
        v1::LockResponse {
            header: Some(header),
            key: show::text(&self.key),
            holder: holder.0.clone(),
            ..v1::LockResponse::default()
        }
    }

    async fn timed_out(&self) -> v1::LockResponse {
        let name = self.acquire.name.clone();
        let ask = self.house.ask(true, move |state| state.lock(&name, 0));
        let holder = ask.await.ok().and_then(|(_, view)| view.holders.into_iter().next());
        let holder = holder.map(|holder| holder.client.as_str().to_owned()).unwrap_or_default();
        self.not_acquired(self.house.head.now(), &Holder(holder))
    }

    /// Gives up the place in the queue, or the hold that nobody was told of, if its token is at
    /// least this; or exactly, if it is known. Not, if another call here waits on the same place.
    async fn withdraw(&self, least: Token, exact: Option<Token>) {
        self.house.pending().forget(&self.ticket);
        let tries = async {
            let (mut pause, most) = limits::RETRY_PAUSES;
            // A node that has ended is told of by its next life, and its places end then.
            while self.withdraw_once(least, exact).await.is_err_and(|failure| failure.retryable)
                && !self.house.has_ended()
            {
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(most);
            }
        };
        if tokio::time::timeout(limits::CLEAN_UP_PATIENCE, tries).await.is_err() {
            let lease = self.acquire.lease.id.0;
            tracing::warn!(lease, "the place of a call that is gone is left to its lease");
        }
    }

    async fn withdraw_once(&self, least: Token, exact: Option<Token>) -> Result<(), Failure> {
        let token = match exact {
            Some(token) => token,
            None => {
                let (key, lease) = (self.key.clone(), self.acquire.lease.id);
                let ask = self.house.ask(false, move |state| {
                    let found = state.range(&KeyRange::One(key).into()).kvs.into_iter().next();
                    found.filter(|kv| kv.lease == lease).map(|kv| Token::from(kv.create_revision))
                });
                match ask.await?.1 {
                    Some(token) if token >= least => token,
                    _ => return Ok(()),
                }
            }
        };
        // Whoever asks from here on has its command behind the one that is proposed now.
        if self.house.pending().has(&self.key) {
            return Ok(());
        }
        let target = CancelTarget::Contender(self.acquire.name.clone(), token);
        let cancel = Action::Cancel(Cancel { lease: self.acquire.lease, target });
        self.house.act(cancel).await.map(drop)
    }
}

/// Who is in the way, as far as that is known.
struct Holder(String);

impl From<fencepost_core::outcome::Denial> for Holder {
    fn from(denial: fencepost_core::outcome::Denial) -> Holder {
        match denial {
            fencepost_core::outcome::Denial::Held(client) => Holder(client.as_str().to_owned()),
            _ => Holder(String::new()),
        }
    }
}

/// How long this member lets a call wait. The state bounds a place by the most patient of those
/// who wait on it.
fn timeout(wait: Wait) -> Option<Duration> {
    match wait {
        Wait::AtMost(length) => Some(Duration::from_millis(length.0)),
        Wait::Try | Wait::WhileLeased => None,
    }
}
