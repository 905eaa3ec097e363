//! Locks by owner name, for doors whose clients have no lease: `{lock, owner, ttl}`.
//!
//! Owns: what such a door can ask, and what it is told, for WebSocket, JSON over TCP and text
//! commands alike. Guarantees: a request of one owner for one lock is not overtaken by the next one
//! on the same connection; a release ends the holding that its token names, or the one that there was
//! when it came. Refuses: to be as strong as a lease. Whoever knows an owner's name can renew and
//! release for it.

mod acquire;
mod holding;
mod text;
mod turns;

use std::sync::Arc;

use fencepost_core::command::{AcquireAs, Action, ReleaseAs, ReleaseHeld, RenewAs, RenewHeld};
use fencepost_core::outcome::{Denial, Grant};
use fencepost_core::{ClientId, LockName, Outcome, Reason, Token};
use fencepost_proto::v1;
use tokio::sync::oneshot;

pub(crate) use holding::{GiveBack, Keep};
pub(crate) use text::{fuzz, tell_in_words, text};
pub(crate) use turns::{Turn, Turns};

use crate::arrival::Arrival;
use crate::error::Failure;
use crate::house::{House, unexpected};

/// What can be asked by owner name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    /// Take a lock, or wait for it.
    Acquire(AcquireAs),
    /// Hold it for longer.
    Renew(Keep),
    /// Give it back, or stop waiting for it.
    Release(GiveBack),
}

impl Ask {
    /// Reads `ACQUIRE:…`, `RELEASE:…` or `HEARTBEAT:…`.
    fn from_text(line: &str) -> Result<Ask, Reason> {
        match fencepost_core::text::parse(line)? {
            Action::AcquireAs(acquire) => Ok(Ask::Acquire(acquire)),
            Action::RenewAs(RenewAs { name, client, ttl }) => {
                Ok(Ask::Renew(Keep { name, client, ttl, token: None }))
            }
            Action::RenewHeld(RenewHeld { name, client, ttl, token }) => {
                Ok(Ask::Renew(Keep { name, client, ttl, token: Some(token) }))
            }
            Action::ReleaseAs(ReleaseAs { name, client }) => {
                Ok(Ask::Release(GiveBack { name, client, token: None }))
            }
            Action::ReleaseHeld(ReleaseHeld { name, client, token }) => {
                Ok(Ask::Release(GiveBack { name, client, token: Some(token) }))
            }
            _ => Err(Reason::InvalidCommand(line.to_owned())),
        }
    }

    /// Whose request for what this is.
    pub(crate) fn pair(&self) -> (LockName, ClientId) {
        let (name, client) = match self {
            Ask::Acquire(ask) => (&ask.name, &ask.client),
            Ask::Renew(ask) => (&ask.name, &ask.client),
            Ask::Release(ask) => (&ask.name, &ask.client),
        };
        (name.clone(), client.clone())
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    /// The lock is held.
    Acquired(Grant),
    /// It was held already, and is for longer now.
    Renewed(Grant),
    /// As before, but an operator has asked for the lock: it is held for so long and no longer.
    MustStop(Grant),
    /// It is not held any more, or not waited for. Its token, if that is known.
    Released(Option<Token>),
    /// Somebody else has it.
    Denied(Denial),
    /// Nobody has it, so there was nothing to do.
    NotFound,
    /// The wait was over before the lock was free. Who was in the way.
    TimedOut(ClientId),
}

impl Told {
    /// For doors that know only success and failure. There is nothing to release is as good as a
    /// release, because it may be repeated; that there is nothing to renew must be noticed.
    pub(crate) fn or_failure(self, is_release: bool) -> Result<Told, Failure> {
        match self {
            Told::Denied(denial) => Err(denial.into()),
            Told::TimedOut(owner) => Err(Denial::Held(owner).into()),
            Told::NotFound if !is_release => Err(Reason::NotHolder.into()),
            done => Ok(done),
        }
    }
}

/// What a door is told.
pub(crate) type Answered = Result<(v1::Header, Told), Failure>;

/// What a door is told, and how it says that it has passed it on. A grant that was never passed on
/// is taken back.
pub(crate) struct Answer {
    pub(crate) told: Answered,
    pub(crate) taken: Taken,
}

/// Says that a client has been told. If it is dropped instead, nobody was.
#[derive(Debug, Default)]
pub(crate) struct Taken(Option<oneshot::Sender<()>>);

impl Taken {
    /// The client has been told.
    pub(crate) fn done(self) {
        if let Some(taken) = self.0 {
            // Whoever waits for this may have ended with the process.
            taken.send(()).ok();
        }
    }
}

impl From<Answered> for Answer {
    fn from(told: Answered) -> Answer {
        Answer { told, taken: Taken::default() }
    }
}

/// Has it done. Whoever stops waiting for this gives up its place in the queue. A request that is
/// late is refused, if it is known when it came.
pub(crate) async fn serve(
    house: &Arc<House>,
    ask: Ask,
    arrival: Option<&Arrival>,
    mut turn: Turn,
) -> Answer {
    let result = match ask {
        Ask::Acquire(ask) => {
            if let Some(Err(late)) = arrival.map(Arrival::check) {
                return Answered::Err(late.into()).into();
            }
            return acquire::begin(house, ask, turn).await;
        }
        Ask::Renew(ask) => {
            turn.comes().await;
            holding::keep(house, &ask, arrival).await
        }
        Ask::Release(ask) => {
            turn.comes().await;
            holding::give_back(house, &ask, arrival).await
        }
    };
    drop(turn);
    result.into()
}

/// The same, for a release that nobody is told of: tries for as long as that helps.
pub(crate) async fn release_silently(
    house: &Arc<House>,
    ask: GiveBack,
    arrival: &Arrival,
    mut turn: Turn,
) {
    turn.comes().await;
    let result = holding::give_back_silently(house, ask, Some(arrival)).await;
    drop(turn);
    if let Err(failure) = result {
        tracing::debug!(failure.code, "a release that nobody is told of was not done");
    }
}

fn told(outcome: Outcome) -> Result<Told, Failure> {
    Ok(match outcome {
        Outcome::Acquired(grant) => Told::Acquired(grant),
        Outcome::Renewed(grant) => Told::Renewed(grant),
        Outcome::Released => Told::Released(None),
        Outcome::Denied(denial) => Told::Denied(denial),
        Outcome::NotFound => Told::NotFound,
        _ => return Err(unexpected()),
    })
}
