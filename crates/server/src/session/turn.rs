//! What a stream does with its session, whatever carries it: turns of frames, answers, an end.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use fencepost_proto::v1;
use tonic::Status;

use super::Session;
use super::ask::{Batch, Next};

/// With so many sessions, others are about to ask as well; and so many requests are company enough for
/// each other. With fewer, one would wait for nobody.
const COMPANY: usize = 8;

/// Frames that have come together, and are proposed together.
pub(crate) struct Turn<'a> {
    session: &'a Session,
    batch: Batch,
}

impl Turn<'_> {
    /// Takes one frame. Whether the stream goes on behind it.
    pub(crate) fn take(&mut self, frame: v1::SessionRequest) -> bool {
        matches!(self.session.take(frame, &mut self.batch), Next::GoOn)
    }

    /// Hands all of them to the node.
    pub(crate) fn send(self) {
        self.session.send(self.batch);
    }

    /// The same, except that others who are about to ask may share the turn of the node, and its sync:
    /// then [`Session::work`] has to be called when they had their chance. Says whether that is so.
    pub(crate) fn bring(self) -> bool {
        let few = 1..COMPANY;
        let sessions = usize::try_from(self.session.house.metrics.sessions.get()).unwrap_or(0);
        let has_company = few.contains(&self.batch.len()) && sessions >= COMPANY;
        if has_company {
            self.session.bring(self.batch);
        } else {
            self.session.send(self.batch);
        }
        has_company
    }
}

impl Session {
    /// Begins a turn.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn { session: self, batch: Batch::default() }
    }

    /// Has what was brought worked off, unless somebody has done so.
    pub(crate) fn work(&self) {
        self.line.work();
    }

    /// Turns the next thing that is to be said into messages, or tells how the stream ends.
    pub(crate) fn poll_answers(
        &self,
        cx: &mut Context<'_>,
        ready: &mut VecDeque<v1::SessionResponse>,
    ) -> Poll<Option<Result<(), Status>>> {
        self.outbox.poll_pop(cx).map_ok(|item| self.answer(item, ready))
    }

    /// The client sends nothing more. The stream ends when all it asked for is answered.
    pub(crate) fn hang_up(&self) {
        let mut state = self.state();
        state.is_done = true;
        self.end_if_done(&state);
    }

    /// Lets the stream end with this, behind what waits to be said.
    pub(crate) fn finish(&self, status: Status) {
        self.outbox.finish(Some(status));
    }
}
