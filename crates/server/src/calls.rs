//! Requests to the node that somebody awaits, one by one.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::codec::encode_command;
use fencepost_core::{Command, Reply};
use fencepost_node::io::{Class, ProposeError, RequestId};
use fencepost_node::machine::Machine;
use fencepost_node::shell::{Delivery, Found, Freshness, Handle, Line, Mailbox, Query};
use tokio::sync::oneshot;

use crate::error::Failure;

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
        let mut answered = Vec::with_capacity(deliveries.len());
        {
            let mut calls = self.0.calls();
            let answers = deliveries.into_iter();
            answered.extend(answers.filter_map(|(request, delivery)| {
                calls.remove(&request.0).map(|call| (call, delivery))
            }));
        }
        // Waking somebody takes a while, and meanwhile others want to ask.
        for (call, delivery) in answered {
            // Whoever asked may have gone.
            drop(call.send(delivery));
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
        self.open.calls().remove(&self.request.0);
    }
}

/// The bytes of a command, as the node takes them.
pub(crate) fn encoded(command: &Command) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(command, &mut bytes);
    bytes
}

/// A question to the state in the form that the node takes. The answer comes back as [`Found`].
pub(crate) fn query<T: Any + Send>(ask: impl FnOnce(&Machine) -> T + Send + 'static) -> Query {
    Box::new(move |machine| -> Found { Box::new(ask(machine)) })
}

impl Calls {
    pub(crate) fn new(handle: &Handle) -> Calls {
        let open = Arc::<Open>::default();
        let line = handle.line(Box::new(Answers(Arc::clone(&open))));
        Calls { line, open }
    }

    async fn call(
        &self,
        send: impl FnOnce(&Line, RequestId) -> Result<(), ProposeError>,
    ) -> Result<Delivery, ProposeError> {
        let request = self.line.draw();
        let (sender, answer) = oneshot::channel();
        self.open.calls().insert(request.0, sender);
        let _place = Place { open: &self.open, request };
        send(&self.line, request)?;
        answer.await.map_err(|_| ProposeError::Indeterminate)
    }

    /// Has a command done.
    pub(crate) async fn propose(&self, class: Class, command: &Command) -> Result<Reply, Failure> {
        let bytes = encoded(command);
        let delivery = self.call(|line, request| line.propose(request, class, bytes)).await?;
        match delivery {
            Delivery::Answer(answer) => Ok(answer?),
            _ => Err(ProposeError::Indeterminate.into()),
        }
    }

    /// Puts a question to the state. It runs on the node's loop, so it must be short.
    pub(crate) async fn read<T: Any + Send>(
        &self,
        freshness: Freshness,
        ask: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let ask = query(ask);
        let delivery = self.call(|line, request| line.read(request, freshness, ask)).await;
        // A question changes nothing, so it never has an unknown outcome.
        let Ok(Delivery::Found(found)) = delivery else {
            return Err(match delivery {
                Err(ProposeError::Overloaded) => ProposeError::Overloaded.into(),
                _ => ProposeError::NoLeader.into(),
            });
        };
        let found = found?.downcast::<T>();
        Ok(*found.expect("the question made it, and its type is known"))
    }
}
