//! Requests to the node that somebody awaits, one by one.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::{Command, Reply};
use fencepost_node::io::{Class, ProposeError, RequestId};
use fencepost_node::machine::Machine;
use fencepost_node::shell::{Delivery, Freshness, Handle, Line, Mailbox, Query};
use tokio::sync::oneshot;

use crate::booth;
use crate::error::Failure;

/// With so many calls open, there are others who are about to bring something. They go first, so that
/// one turn of the node, and one sync, does for all. With fewer that would be a wait for nobody.
const COMPANY_MIN: usize = 8;

/// One line to the node, shared by all calls that await a single answer.
pub(crate) struct Calls {
    line: Line,
    open: Arc<Open>,
}

/// Who waits for which answer.
#[derive(Default)]
struct Open(Mutex<HashMap<u64, oneshot::Sender<Delivery>>>);

impl Open {
    fn calls(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Delivery>>> {
        // Nothing panics while it is held, so it is never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Answers(Arc<Open>);

impl Mailbox for Answers {
    fn deliver(&self, deliveries: Vec<(RequestId, Delivery)>) {
        let mut calls = self.0.calls();
        for (request, delivery) in deliveries {
            if let Some(call) = calls.remove(&request.number) {
                // Whoever asked may have gone.
                drop(call.send(delivery));
            }
        }
    }
}

impl Drop for Answers {
    /// The node has ended. Those who wait learn that there will be no answer.
    fn drop(&mut self) {
        self.0.calls().clear();
    }
}

/// A call that is dropped unanswered needs no place in the list any more.
struct Place<'a> {
    open: &'a Open,
    request: RequestId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.open.calls().remove(&self.request.number);
    }
}

/// What was brought to the node is worked off when this is dropped, whatever becomes of the call.
struct Brought<'a>(&'a Line);

impl Drop for Brought<'_> {
    fn drop(&mut self) {
        self.0.work();
    }
}

fn replied(answer: Result<Delivery, oneshot::error::RecvError>) -> Result<Reply, Failure> {
    match answer {
        Ok(Delivery::Answer(answer)) => Ok(answer?),
        _ => Err(ProposeError::Indeterminate.into()),
    }
}

impl Calls {
    pub(crate) fn new(handle: &Handle) -> Calls {
        let open = Arc::<Open>::default();
        let line = handle.line(Box::new(Answers(Arc::clone(&open))));
        Calls { line, open }
    }

    /// Opens a call: its place in the list, where its answer comes, and how many are open.
    fn open(&self) -> (Place<'_>, oneshot::Receiver<Delivery>, usize) {
        let request = self.line.draw();
        let (sender, answer) = oneshot::channel();
        let mut calls = self.open.calls();
        calls.insert(request.number, sender);
        (Place { open: &self.open, request }, answer, calls.len())
    }

    /// Has a command done.
    pub(crate) async fn propose(&self, class: Class, command: &Command) -> Result<Reply, Failure> {
        let (place, answer, _) = self.open();
        self.line.bring(place.request, class, command)?;
        booth::work_off(&self.line);
        replied(answer.await)
    }

    /// The same, for calls of many clients with a connection each: if there are others, they may bring
    /// their commands before this one takes a turn.
    pub(crate) async fn propose_in_company(&self, command: &Command) -> Result<Reply, Failure> {
        let (place, answer, open) = self.open();
        self.line.bring(place.request, Class::Ordinary, command)?;
        if booth::call_clerk() {
            return replied(answer.await);
        }
        let brought = Brought(&self.line);
        if open >= COMPANY_MIN {
            tokio::task::yield_now().await;
        }
        drop(brought);
        replied(answer.await)
    }

    /// Puts a question to the state. It runs on the node's loop, so it must be short.
    pub(crate) async fn read<T: Any + Send>(
        &self,
        freshness: Freshness,
        ask: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.ask(freshness, Query::once(ask)).await
    }

    /// Puts a query to the state whose answer is a `T`.
    pub(crate) async fn ask<T: Any + Send>(
        &self,
        freshness: Freshness,
        query: Query,
    ) -> Result<T, Failure> {
        let (place, answer, _) = self.open();
        self.line.bring_query(place.request, freshness, query)?;
        booth::work_off(&self.line);
        // A question changes nothing, so it never has an unknown outcome.
        let Ok(Delivery::Found(found)) = answer.await else {
            return Err(ProposeError::NoLeader.into());
        };
        let found = found?.downcast::<T>();
        Ok(*found.expect("the question made it, and its type is known"))
    }
}
