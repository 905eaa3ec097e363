//! What a stream does with its session, whatever carries it: turns of frames, answers, an end.

use std::sync::Weak;
use std::task::{Context, Poll};

use fencepost_proto::v1;
use tonic::Status;

use super::Session;
use super::ask::{Batch, Next};
use crate::outbox::Speak;

/// Where messages go as soon as they are made.
pub(crate) type Say<'a> = dyn FnMut(v1::SessionResponse) + 'a;

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
}

impl Session {
    /// Begins a turn.
    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn { session: self, batch: Batch::default() }
    }

    /// Turns the next thing that is to be said into messages, or tells how the stream ends.
    pub(crate) fn poll_answers(
        &self,
        cx: &mut Context<'_>,
        say: &mut Say<'_>,
    ) -> Poll<Option<Result<(), Status>>> {
        self.outbox.poll_pop(cx).map_ok(|item| self.answer(item, say))
    }

    /// The stream is being polled, up to when it is told that there are no answers.
    pub(crate) fn awake(&self) {
        self.outbox.awake();
    }

    /// As [`Session::poll_answers`], for a thread that does not wait. `false` if there is nothing.
    pub(crate) fn next_answers(&self, say: &mut Say<'_>) -> bool {
        let item = self.outbox.pop();
        item.map(|item| self.answer(item, say)).is_some()
    }

    /// Whether nothing more is said than what waits.
    pub(crate) fn is_finished(&self) -> bool {
        self.outbox.is_finished()
    }

    /// Lets somebody send what is to be said at once, without waking the stream.
    pub(crate) fn set_speaker(&self, speaker: Weak<dyn Speak>) {
        self.outbox.set_speaker(speaker);
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
