//! Locks by owner name, for doors whose clients have no lease: `{lock, owner, ttl}`.
//!
//! Owns: what such a door can ask, and what it is told, for WebSocket, JSON over TCP and text
//! commands alike. Guarantees: a request of one owner for one lock is not overtaken by the next one
//! on the same connection. Refuses: to be as strong as a lease. Whoever knows an owner's name can
//! renew and release for it, and a copy of a request that comes late acts late; only the fencing
//! token protects the resource from that.

mod acquire;
mod text;
mod turns;

use std::sync::Arc;

use fencepost_core::command::{AcquireAs, Action, Command, ReleaseAs, RenewAs};
use fencepost_core::outcome::{Denial, Grant};
use fencepost_core::{ClientId, LockName, Outcome, Reason};
use fencepost_node::io::Class;
use fencepost_proto::v1;
use tokio::sync::oneshot;

pub(crate) use text::{fuzz, tell_in_words, text};
pub(crate) use turns::{Turn, Turns};

use crate::error::Failure;
use crate::house::{House, unexpected};

/// What can be asked by owner name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    /// Take a lock, or wait for it.
    Acquire(AcquireAs),
    /// Hold it for longer.
    Renew(RenewAs),
    /// Give it back, or stop waiting for it.
    Release(ReleaseAs),
}

impl Ask {
    /// Reads `ACQUIRE:…`, `RELEASE:…` or `HEARTBEAT:…`.
    fn from_text(line: &str) -> Result<Ask, Reason> {
        match fencepost_core::text::parse(line)? {
            Action::AcquireAs(acquire) => Ok(Ask::Acquire(acquire)),
            Action::RenewAs(renew) => Ok(Ask::Renew(renew)),
            Action::ReleaseAs(release) => Ok(Ask::Release(release)),
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
    /// It is not held any more, or not waited for.
    Released,
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

/// Has it done. Whoever stops waiting for this gives up its place in the queue.
pub(crate) async fn serve(house: &Arc<House>, ask: Ask, mut turn: Turn) -> Answer {
    let (class, action) = match ask {
        Ask::Acquire(ask) => return acquire::begin(house, ask, turn).await,
        Ask::Renew(ask) => (Class::Renewal, Action::RenewAs(ask)),
        Ask::Release(ask) => (Class::Ordinary, Action::ReleaseAs(ask)),
    };
    turn.comes().await;
    let result = house.act_as(class, &Command::from(action)).await;
    drop(turn);
    result.and_then(|(header, outcome)| Ok((header, told(outcome)?))).into()
}

/// The same, for a release that nobody is told of: tries for as long as that helps.
pub(crate) async fn release_silently(house: &Arc<House>, ask: ReleaseAs, mut turn: Turn) {
    turn.comes().await;
    let result = house.insist(Action::ReleaseAs(ask)).await;
    drop(turn);
    if let Err(failure) = result {
        tracing::debug!(failure.code, "a release that nobody is told of was not done");
    }
}

fn told(outcome: Outcome) -> Result<Told, Failure> {
    Ok(match outcome {
        Outcome::Acquired(grant) => Told::Acquired(grant),
        Outcome::Renewed(grant) => Told::Renewed(grant),
        Outcome::Released => Told::Released,
        Outcome::Denied(denial) => Told::Denied(denial),
        Outcome::NotFound => Told::NotFound,
        _ => return Err(unexpected()),
    })
}
