//! What all doors of one server share.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencepost_core::command::{Action, Command, Once};
use fencepost_core::outcome::Place;
use fencepost_core::{Boot, Key, NodeId, Outcome, Reply, Revision, State};
use fencepost_fence::signed::KeyError;
use fencepost_node::io::{Class, ProposeError, RequestId};
use fencepost_node::machine::{Machine, StepBudget};
use fencepost_node::shell::{Freshness, Handle, Query};
use fencepost_proto::v1;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::arrival::PauseDetector;
use crate::byte_budget::ByteBudget;
use crate::calls::Calls;
use crate::error::{Failure, Wrong};
use crate::head::Head;
use crate::limits;
use crate::metrics::Metrics;
use crate::outbox::{Item, Outbox};
use crate::pending::{Registry, Verdict};
use crate::scans::Scans;
use crate::serve::Tuning;
use crate::shares::Shares;
use crate::signing::Desk;
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
    /// Which member this is.
    pub(crate) node: NodeId,
    /// Which life of its process.
    pub(crate) boot: Boot,
    /// Notices when this process stood still.
    pub(crate) pauses: Arc<PauseDetector>,
    /// The places that calls wait on.
    pub(crate) shares: Shares,
    /// The turns of those who want a backup.
    pub(crate) backups: Arc<Semaphore>,
    /// The turn of the one that is being made: each takes as much memory as the state.
    pub(crate) backup_maker: Arc<Semaphore>,
    /// Bytes of messages that have arrived in part.
    pub(crate) unread: Arc<ByteBudget>,
    /// How long a session may be unused.
    pub(crate) idle_patience: Duration,
    /// Requests that are being served, of all connections over HTTP.
    pub(crate) open_requests: AtomicUsize,
    pub(crate) requests_max: usize,
    /// How long a message may take to arrive, or a part of an answer to be taken.
    pub(crate) body_patience: Duration,
    /// The room of reads of many keys.
    pub(crate) scans: Scans,
    /// Where tokens are signed.
    pub(crate) signing: Desk,
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

    /// The same, when hardly anybody else is told something.
    pub(crate) fn tell_at_once(self, verdict: Verdict) {
        match self {
            Postbox::Stream(outbox, request) => {
                outbox.push_at_once([Item::Verdict(request, verdict)]);
            }
            call @ Postbox::Call(_) => call.tell(verdict),
        }
    }

    /// Tells where the wait stands, if that can be told.
    fn tell_place(&self, place: &Place) {
        if let Postbox::Stream(outbox, request) = self {
            outbox.push(Item::Place(*request, Box::new(place.clone())));
        }
    }
}

impl House {
    /// Opens this member's signing keys, so it reads files.
    pub(crate) fn new(handle: &Handle, tuning: &Tuning) -> Result<House, KeyError> {
        let status = handle.status();
        let (node, boot) = (NodeId(status.id), Boot(status.boot));
        Ok(House {
            handle: handle.clone(),
            calls: Calls::new(handle),
            head: Head::new(handle),
            pending: Mutex::default(),
            fan_out: Arc::default(),
            metrics: Metrics::new(),
            node,
            boot,
            pauses: Arc::new(PauseDetector::new()),
            shares: Shares::new(node, boot),
            backups: Arc::new(Semaphore::new(limits::BACKUPS_MAX)),
            backup_maker: Arc::new(Semaphore::new(1)),
            unread: ByteBudget::for_server(),
            idle_patience: tuning.idle_patience,
            open_requests: AtomicUsize::new(0),
            requests_max: tuning.requests_max,
            body_patience: tuning.body_patience,
            scans: Scans::default(),
            signing: Desk::open(handle.home(), status.cluster_id, node)?,
            closing: watch::Sender::new(false),
            next_watch: AtomicU64::new(1),
        })
    }

    /// The calls that wait for a lock.
    pub(crate) fn pending(&self) -> MutexGuard<'_, Registry<Postbox>> {
        // Nothing panics while it is held, so it is never left half changed.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells some of those who wait how they stand, and after which of them to go on next time.
    ///
    /// Each look at the state is bounded, however many wait: with few, each of them is looked at
    /// every time; with many, they take turns.
    pub(crate) async fn tell_places(&self, after: Option<Key>) -> Option<Key> {
        let keys = self.pending().in_turn(after.as_ref(), limits::PLACES_PER_LOOK);
        let last = keys.last().cloned()?;
        let look = move |state: &State| {
            let places = keys.iter().filter_map(|key| state.place(key));
            (state.revision(), places.collect::<Vec<Place>>())
        };
        if let Ok((_, (reached, places))) = self.ask(true, look).await {
            let pending = self.pending();
            for place in &places {
                for postbox in pending.waiting_at(&place.key, reached) {
                    postbox.tell_place(place);
                }
            }
        }
        Some(last)
    }

    /// Counts a client that has seen a later revision of this incarnation than the state of its
    /// leader has. Anybody can say so: nothing else follows from it.
    pub(crate) fn count_if_ahead(&self, incarnation: u64, seen_revision: i64) {
        let header = self.head.now();
        let leads = header.leader_id == header.member_id;
        if leads && incarnation == header.incarnation && seen_revision > header.revision {
            self.metrics.sessions_ahead.inc();
        }
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
        self.acted(self.calls.propose(class, command).await?)
    }

    /// As [`House::act`], for calls of many clients with a connection each.
    pub(crate) async fn act_in_company(
        &self,
        action: Action,
    ) -> Result<(v1::Header, Outcome), Failure> {
        self.acted(self.calls.propose_in_company(&Command::from(action)).await?)
    }

    fn acted(&self, reply: Reply) -> Result<(v1::Header, Outcome), Failure> {
        match reply.outcome {
            Outcome::Rejected(reason) => Err(reason.into()),
            outcome => Ok((self.head.at(reply.revision), outcome)),
        }
    }

    /// Has something done that does no harm if it is done twice. Tries for as long as that helps,
    /// and a little while.
    pub(crate) async fn insist(&self, action: Action) -> Result<Outcome, Failure> {
        let command = Command::from(action);
        let (_, outcome) = self.patiently(|| self.act_as(Class::Ordinary, &command)).await?;
        Ok(outcome)
    }

    /// Puts a question to the present state, as patiently.
    pub(crate) async fn insist_on_asking<T: Send + 'static>(
        &self,
        ask: impl Fn(&State) -> T + Clone + Send + 'static,
    ) -> Result<T, Failure> {
        let (_, found) = self.patiently(|| self.ask(false, ask.clone())).await?;
        Ok(found)
    }

    async fn patiently<T, F>(&self, mut once: impl FnMut() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let tries = async {
            let (mut pause, most) = limits::RETRY_PAUSES;
            loop {
                match once().await {
                    Err(failure) if failure.retryable && !self.has_ended() => {
                        tokio::time::sleep(pause).await;
                    }
                    result => return result,
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
        let ask = |machine: &Machine| (machine.state().revision(), ask(machine.state()));
        self.ask_with(is_stale, Query::once(ask)).await
    }

    /// As [`House::ask`], for a question that spends what it costs.
    pub(crate) async fn ask_within<T: Send + 'static>(
        &self,
        is_stale: bool,
        ask: impl FnOnce(&State, &mut StepBudget) -> T + Send + 'static,
    ) -> Result<(v1::Header, T), Failure> {
        let ask = |machine: &Machine, budget: &mut StepBudget| {
            (machine.state().revision(), ask(machine.state(), budget))
        };
        self.ask_with(is_stale, Query::measured(ask)).await
    }

    /// As [`House::ask`], for a query whose answer is a revision and a `T`.
    pub(crate) async fn ask_with<T: Send + 'static>(
        &self,
        is_stale: bool,
        query: Query,
    ) -> Result<(v1::Header, T), Failure> {
        let asked = self.calls.ask(freshness(is_stale), query).await?;
        let (revision, found): (Revision, T) = asked;
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

#[cfg(test)]
mod tests;
