//! The body of a response, and the deadline of a client that does not take it.
//!
//! A client over HTTP/2 says how much it is ready to take. One that takes nothing keeps its answer
//! in memory, and the permits that come with it, for as long as its connection lasts, although TCP
//! sees nothing wrong. Guarantees: over HTTP/2, a request whose answer makes no progress in time is
//! reset; of an answer at most one piece is kept beyond that. Refuses: HTTP/1, where a client that
//! does not read is a matter of its socket.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use crate::answer_room::AnswerRoom;
use crate::limits;
use crate::requests::OpenRequest;
use crate::unary::Answer;

/// How far an answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// Pieces that were handed over.
    pieces: u64,
    /// Whether the last one waits to be sent.
    waits: bool,
}

tokio::task_local! {
    /// Of the request that is being polled, if it came over HTTP/2.
    static PROGRESS: Cell<Progress>;
}

/// Runs a request over HTTP/2 to its end, or until its answer makes no progress for so long.
/// Dropping it then resets its stream.
pub(crate) fn reset_if_stalled(
    request: impl Future<Output = ()>,
    patience: Duration,
) -> impl Future<Output = ()> {
    PROGRESS.scope(Cell::default(), async move {
        let mut request = pin!(request);
        let mut stalled: Option<(u64, Pin<Box<Sleep>>)> = None;
        poll_fn(|cx| {
            if request.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let Progress { pieces, waits } = PROGRESS.with(Cell::get);
            if !waits {
                stalled = None;
                return Poll::Pending;
            }
            stalled.take_if(|(since, _)| *since != pieces);
            let begin = || (pieces, Box::pin(tokio::time::sleep(patience)));
            stalled.get_or_insert_with(begin).1.as_mut().poll(cx)
        })
        .await;
    })
}

/// The body of a response. Its request is open, and its room taken, until this is dropped.
pub(crate) struct ResponseBody {
    answer: Answer,
    /// What is left of a frame that is handed over in pieces.
    rest: Bytes,
    _request: OpenRequest,
    _room: AnswerRoom,
}

impl ResponseBody {
    pub(crate) fn new(answer: Answer, request: OpenRequest, room: AnswerRoom) -> ResponseBody {
        ResponseBody { answer, rest: Bytes::new(), _request: request, _room: room }
    }

    /// The next piece of a frame.
    fn piece(&mut self, mut data: Bytes) -> Frame<Bytes> {
        self.rest = data.split_off(data.len().min(limits::ANSWER_PIECE_BYTES));
        Frame::data(data)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Ok(progress) = PROGRESS.try_with(Cell::get) else {
            return Pin::new(&mut self.answer).poll_frame(cx);
        };
        let note = |waits| {
            let pieces = progress.pieces + u64::from(waits);
            PROGRESS.with(|cell| cell.set(Progress { pieces, waits }));
        };
        if !self.rest.is_empty() {
            note(true);
            let rest = std::mem::take(&mut self.rest);
            return Poll::Ready(Some(Ok(self.piece(rest))));
        }
        let polled = Pin::new(&mut self.answer).poll_frame(cx);
        note(matches!(polled, Poll::Ready(Some(Ok(_)))));
        polled.map_ok(|frame| match frame.into_data() {
            Ok(data) => self.piece(data),
            Err(trailers) => trailers,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let answer = self.answer.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest + answer.lower());
        if let Some(upper) = answer.upper() {
            hint.set_upper(rest + upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn hand_over() {
        let Progress { pieces, .. } = PROGRESS.with(Cell::get);
        PROGRESS.with(|cell| cell.set(Progress { pieces: pieces + 1, waits: true }));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_ends_its_request() {
        let request = async {
            hand_over();
            std::future::pending::<()>().await;
        };
        tokio::time::timeout(2 * PATIENCE, reset_if_stalled(request, PATIENCE))
            .await
            .expect("it is given up");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_makes_progress_goes_on() {
        let is_done = Arc::new(AtomicBool::new(false));
        let done = Arc::clone(&is_done);
        let request = async move {
            for _ in 0..10 {
                hand_over();
                let pause = tokio::time::timeout(PATIENCE / 2, std::future::pending::<()>());
                drop(pause.await);
            }
            done.store(true, Ordering::Relaxed);
        };
        reset_if_stalled(request, PATIENCE).await;
        assert!(is_done.load(Ordering::Relaxed), "every piece was taken in time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_yet_has_no_deadline() {
        let waits = reset_if_stalled(std::future::pending(), PATIENCE);
        tokio::time::timeout(100 * PATIENCE, waits).await.expect_err("it waits for a lock");
    }
}
