//! One client thread that keeps so many commands in flight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_core::codec::encode_command;
use fencepost_core::{Action, Command};
use fencepost_node::io::{Class, RequestId};
use fencepost_node::shell::{Delivery, Handle, Line, Mailbox, Pile, Taken};
use hdrhistogram::Histogram;

/// What a client has measured.
pub(crate) struct Measured {
    pub(crate) done: u64,
    pub(crate) took: Duration,
    pub(crate) micros: Histogram<u64>,
}

impl Measured {
    pub(crate) fn rate(&self) -> f64 {
        self.done as f64 / self.took.as_secs_f64()
    }
}

type Answers = Arc<Pile<(RequestId, Delivery)>>;

struct Box1(Answers);

impl Mailbox for Box1 {
    fn deliver(&self, mut deliveries: Vec<(RequestId, Delivery)>) {
        self.0.push_all(&mut deliveries);
    }
}

impl Drop for Box1 {
    fn drop(&mut self) {
        self.0.close();
    }
}

pub(crate) struct Client {
    line: Line,
    answers: Answers,
    class: Class,
}

impl Client {
    pub(crate) fn new(handle: &Handle, class: Class) -> Client {
        let answers = Arc::new(Pile::new(usize::MAX));
        let line = handle.line(Box::new(Box1(Arc::clone(&answers))));
        Client { line, answers, class }
    }

    /// Keeps `in_flight` commands on their way until `more` has none left or time is up.
    pub(crate) fn closed_loop(
        &self,
        in_flight: usize,
        until: Option<Instant>,
        mut more: impl FnMut() -> Option<Vec<u8>>,
    ) -> Measured {
        let mut sent: Vec<Option<Instant>> = Vec::new();
        let mut micros = Histogram::new(3).expect("three digits are possible");
        let start = Instant::now();
        let mut first = None;
        let mut done = 0;
        let (mut open, mut room) = (0, in_flight);
        let mut taken = Vec::new();
        loop {
            let now = Instant::now();
            if until.is_none_or(|until| now < until) {
                let batch: Vec<(RequestId, Vec<u8>)> =
                    (0..room).map_while(|_| Some((self.line.draw(), more()?))).collect();
                open += batch.len();
                for (request, _) in &batch {
                    first.get_or_insert(request.number);
                    sent.push(Some(now));
                }
                let refused = self.line.propose_all(self.class, batch).expect("the node runs");
                assert!(refused.is_empty(), "more in flight than there is room for");
            }
            room = 0;
            if open == 0 {
                return Measured { done, took: start.elapsed(), micros };
            }
            assert_eq!(self.answers.take(&mut taken, None), Taken::Some, "the node has ended");
            let now = Instant::now();
            for (request, delivery) in taken.drain(..) {
                assert!(matches!(delivery, Delivery::Answer(Ok(_))), "{delivery:?}");
                let at = usize::try_from(request.number - first.unwrap_or(0)).expect("a count");
                let since = sent[at].take().expect("answered once");
                let passed = now.duration_since(since).as_micros();
                micros.record(u64::try_from(passed).unwrap_or(u64::MAX)).expect("it fits");
                (done, open, room) = (done + 1, open - 1, room + 1);
            }
        }
    }

    pub(crate) fn send(&self, command: Vec<u8>) -> RequestId {
        let request = self.line.draw();
        self.line.propose(request, self.class, command).expect("there is room");
        request
    }

    /// What has come back, within `patience`.
    pub(crate) fn answers(&self, patience: Duration) -> Vec<(RequestId, Delivery)> {
        let mut taken = Vec::new();
        self.answers.take(&mut taken, Some(patience));
        taken
    }
}

pub(crate) fn encoded(action: Action) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(&Command::from(action), &mut bytes);
    bytes
}
