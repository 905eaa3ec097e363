//! Frames on their way out: a queue that the session fills and the connection empties.
//!
//! Bounded by what the session lets be open at once; a connection that takes nothing for too long
//! is given up by the session.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use fencepost_proto::v1::SessionRequest;
use futures_core::Stream;

#[derive(Clone, Default)]
pub(super) struct Outgoing(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    frames: VecDeque<SessionRequest>,
    reader: Option<Waker>,
    is_over: bool,
}

impl Outgoing {
    pub(super) fn push(&self, frame: SessionRequest) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.frames.push_back(frame);
        wake(queue.reader.take());
    }

    /// Lets the stream end after what is in the queue.
    pub(super) fn finish(&self) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.is_over = true;
        wake(queue.reader.take());
    }
}

impl Outgoing {
    /// Takes all that waits, once something does. Whoever finishes the queue also ends the connection,
    /// so its end is not told.
    pub(super) fn poll_take(
        &self,
        context: &mut Context<'_>,
        take: impl FnMut(SessionRequest),
    ) -> Poll<()> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.frames.is_empty() {
            queue.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        queue.frames.drain(..).for_each(take);
        Poll::Ready(())
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Stream for Outgoing {
    type Item = SessionRequest;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<SessionRequest>> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match queue.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None if queue.is_over => Poll::Ready(None),
            None => {
                queue.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
