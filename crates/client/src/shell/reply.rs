//! Orders of users, and where their answers go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_proto::v1 as pb;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::hold_state::HoldState;
use super::inbox::Inbox;
use super::watch_queue::WatchQueue;
use crate::boot_time::BootTime;
use crate::core::{
    Held, Input, LeaseMade, LeaseNo, Moment, OpId, Place, Released, WatchId, WatchSpec,
};
use crate::error::Error;

/// Where the answer to one request goes.
pub(crate) type To<T> = oneshot::Sender<Result<T, Error>>;

/// Something that a user wants.
pub(crate) enum Order {
    /// Something that is answered.
    Ask(OpId, Reply, Input),
    /// Something that is not.
    Tell(Input),
    /// A watch, and where its news go.
    Watch(WatchId, WatchSpec, Arc<WatchQueue>),
    /// Answer when everything that was given back is confirmed, and end.
    Finish(oneshot::Sender<()>),
}

/// Where an answer goes, by its kind.
pub(crate) enum Reply {
    Ready(To<()>),
    /// Where the grant goes, and where it is told how the wait stands, if that is wanted.
    Acquired(To<Granted>, Option<watch::Sender<Place>>),
    Released(To<Released>),
    LeaseMade(To<(LeaseMade, Arc<LeaseState>)>),
    LeaseRenewed(To<()>),
    LeaseRevoked(To<u64>),
    Answered(To<Box<pb::SessionResponse>>),
}

impl Reply {
    /// Answers with a failure. If nobody waits any more, that is fine.
    pub(crate) fn fail(self, error: Error) {
        match self {
            Reply::Ready(to) | Reply::LeaseRenewed(to) => drop(to.send(Err(error))),
            Reply::Acquired(to, _) => drop(to.send(Err(error))),
            Reply::Released(to) => drop(to.send(Err(error))),
            Reply::LeaseMade(to) => drop(to.send(Err(error))),
            Reply::LeaseRevoked(to) => drop(to.send(Err(error))),
            Reply::Answered(to) => drop(to.send(Err(error))),
        }
    }
}

/// A lock that was granted, on its way to the user. Given back if it never arrives.
pub(crate) struct Granted {
    what: Option<(Box<Held>, Arc<HoldState>)>,
    inbox: Arc<Inbox>,
}

impl Granted {
    pub(super) fn new(held: Box<Held>, state: Arc<HoldState>, inbox: &Arc<Inbox>) -> Granted {
        Granted { what: Some((held, state)), inbox: Arc::clone(inbox) }
    }

    /// It has arrived: whoever takes it gives it back.
    pub(crate) fn take(mut self) -> Option<(Box<Held>, Arc<HoldState>)> {
        self.what.take()
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if let Some((held, _)) = &self.what {
            self.inbox.push(Order::Tell(Input::Release(held.hold, None)));
        }
    }
}

/// What a user's lease and the session share.
#[derive(Debug)]
pub(crate) struct LeaseState {
    pub(crate) no: LeaseNo,
    until: AtomicU64,
    is_gone: AtomicBool,
    gone: CancellationToken,
}

impl LeaseState {
    pub(crate) fn new(no: LeaseNo, until: Moment) -> LeaseState {
        LeaseState {
            no,
            until: AtomicU64::new(until.micros()),
            is_gone: AtomicBool::new(false),
            gone: CancellationToken::new(),
        }
    }

    pub(crate) fn extend(&self, until: Moment) {
        self.until.fetch_max(until.micros(), Ordering::AcqRel);
    }

    pub(crate) fn end(&self) {
        self.is_gone.store(true, Ordering::Release);
        self.gone.cancel();
    }

    pub(crate) fn deadline(&self) -> BootTime {
        BootTime::of(Moment::from_micros(self.until.load(Ordering::Acquire)))
    }

    pub(crate) fn is_valid(&self) -> bool {
        !self.is_gone.load(Ordering::Acquire) && !self.deadline().is_past()
    }

    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }
}
