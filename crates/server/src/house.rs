//! What all doors of one server share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::command::{Action, Command, Once};
use fencepost_core::{Boot, CallId, NodeId, Outcome, Revision, State};
use fencepost_node::io::{Class, ProposeError, RequestId};
use fencepost_node::machine::Machine;
use fencepost_node::shell::{Freshness, Handle};
use fencepost_proto::v1;
use tokio::sync::{oneshot, watch};

use crate::calls::Calls;
use crate::error::{Failure, Wrong};
use crate::head::Head;
use crate::limits;
use crate::metrics::Metrics;
use crate::outbox::{Item, Outbox};
use crate::pending::{Registry, Verdict};
use crate::watch::Queue;

/// What all doors of one server share.
pub(crate) struct House {
    pub(crate) handle: Handle,
    pub(crate) calls: Calls,
    pub(crate) head: Head,
    pending: Mutex<Registry<Postbox>>,
    /// The way to the fan-out of events.
    pub(crate) fan_out: Arc<Queue>,
    pub(crate) metrics: Metrics,
    /// Which calls are this process's.
    pub(crate) call: CallId,
    /// Whether the server is about to end.
    closing: watch::Sender<bool>,
    next_watch: AtomicU64,
}

/// Where the end of a wait is told.
#[derive(Debug)]
pub(crate) enum Postbox {
    /// To a call that awaits it.
    Call(oneshot::Sender<Verdict>),
    /// To a stream, as the end of this request.
    Stream(Arc<Outbox>, RequestId),
}

impl Postbox {
    pub(crate) fn tell(self, verdict: Verdict) {
        match self {
            // Whoever waited may have gone.
            Postbox::Call(sender) => drop(sender.send(verdict)),
            Postbox::Stream(outbox, request) => outbox.push(Item::Verdict(request, verdict)),
        }
    }
}

impl House {
    pub(crate) fn new(handle: &Handle) -> House {
        let status = handle.status();
        House {
            handle: handle.clone(),
            calls: Calls::new(handle),
            head: Head::new(handle),
            pending: Mutex::default(),
            fan_out: Arc::default(),
            metrics: Metrics::new(),
            call: CallId { node: NodeId(status.id), boot: Boot(status.boot) },
            closing: watch::Sender::new(false),
            next_watch: AtomicU64::new(1),
        }
    }

    /// The calls that wait for a lock.
    pub(crate) fn pending(&self) -> MutexGuard<'_, Registry<Postbox>> {
        // Nothing panics while it is held, so it is never left half changed.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a watch that no other has.
    pub(crate) fn draw_watch(&self) -> u64 {
        self.next_watch.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets no stream go on.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until the server is about to end.
    pub(crate) async fn closed(&self) {
        let mut closing = self.closing.subscribe();
        // The sender lives as long as this does.
        drop(closing.wait_for(|&is_closing| is_closing).await);
    }

    /// Has something done by a command that cannot be repeated. A refusal is a failure.
    pub(crate) async fn act(&self, action: Action) -> Result<(v1::Header, Outcome), Failure> {
        self.act_as(Class::Ordinary, &Command::from(action)).await
    }

    pub(crate) async fn act_as(
        &self,
        class: Class,
        command: &Command,
    ) -> Result<(v1::Header, Outcome), Failure> {
        let reply = self.calls.propose(class, command).await?;
        match reply.outcome {
            Outcome::Rejected(reason) => Err(reason.into()),
            outcome => Ok((self.head.at(reply.revision), outcome)),
        }
    }

    /// Has something done that does no harm if it is done twice. Tries for as long as that helps,
    /// and a little while.
    pub(crate) async fn insist(&self, action: Action) -> Result<Outcome, Failure> {
        let command = Command::from(action);
        let tries = async {
            let (mut pause, most) = limits::RETRY_PAUSES;
            loop {
                match self.act_as(Class::Ordinary, &command).await {
                    Err(failure) if failure.retryable && !self.has_ended() => {
                        tokio::time::sleep(pause).await;
                    }
                    result => return result.map(|(_, outcome)| outcome),
                }
                pause = (2 * pause).min(most);
            }
        };
        let result = tokio::time::timeout(limits::CLEAN_UP_PATIENCE, tries).await;
        result.unwrap_or_else(|_| Err(ProposeError::Indeterminate.into()))
    }

    /// Whether the node has ended, so that nothing can be done through it any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.handle.status().ended.is_some()
    }

    /// Puts a question to the state, and tells the revision that it was put to.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        is_stale: bool,
        ask: impl FnOnce(&State) -> T + Send + 'static,
    ) -> Result<(v1::Header, T), Failure> {
        let freshness = freshness(is_stale);
        let ask = |machine: &Machine| (machine.state().revision(), ask(machine.state()));
        let (revision, found): (Revision, T) = self.calls.read(freshness, ask).await?;
        Ok((self.head.at(revision), found))
    }
}

pub(crate) fn freshness(is_stale: bool) -> Freshness {
    if is_stale { Freshness::Stale } else { Freshness::Linearizable }
}

/// A command whose repeats act once.
pub(crate) fn command(action: Action, once: Option<Once>) -> Command {
    Command { once, ..Command::from(action) }
}

/// An outcome that this request cannot have.
pub(crate) fn unexpected() -> Failure {
    Wrong::Unexpected.into()
}
