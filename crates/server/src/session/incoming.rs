//! Takes the frames of a stream as they come.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use fencepost_proto::v1;
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tonic::Status;

use super::Session;
use crate::error::{Failure, Wrong};
use crate::limits;

/// What came in one turn.
struct Frames {
    frames: Vec<v1::SessionRequest>,
    /// Nothing more will come.
    is_end: bool,
    /// Something came that cannot be understood, and nothing behind it can.
    broken: Option<Status>,
}

/// Serves a stream until its client sends nothing more, the server ends, or the answers have
/// nowhere to go.
pub(crate) async fn listen<S>(session: Arc<Session>, mut frames: S, mut gone: oneshot::Receiver<()>)
where
    S: Stream<Item = Result<v1::SessionRequest, Status>> + Unpin,
{
    let house = Arc::clone(&session.house);
    let (closed, idle) = (house.closed(), session.idle(house.idle_patience));
    tokio::pin!(closed, idle);
    loop {
        let taken = tokio::select! {
            taken = take(&mut frames) => taken,
            () = &mut closed => {
                session.finish(Failure::from(Wrong::ShuttingDown).into());
                return;
            }
            () = &mut idle => {
                session.finish(Failure::from(Wrong::Idle).into());
                return;
            }
            _ = &mut gone => return,
        };
        let mut turn = session.turn();
        let mut frames = taken.frames.into_iter();
        let is_end = !frames.all(|frame| turn.take(frame)) || taken.is_end;
        turn.send();
        if let Some(status) = taken.broken {
            // Whoever sent it must not go on believing that it is heard.
            session.finish(status);
            return;
        }
        if is_end {
            session.hang_up();
            return;
        }
    }
}

/// All frames that are ready, and at least one.
async fn take<S>(frames: &mut S) -> Frames
where
    S: Stream<Item = Result<v1::SessionRequest, Status>> + Unpin,
{
    let mut taken = Frames { frames: Vec::new(), is_end: false, broken: None };
    poll_fn(|cx| {
        while taken.frames.len() < limits::FRAMES_PER_TURN_MAX && !taken.is_end {
            match Pin::new(&mut *frames).poll_next(cx) {
                Poll::Ready(Some(Ok(frame))) => taken.frames.push(frame),
                Poll::Ready(None) => taken.is_end = true,
                Poll::Ready(Some(Err(status))) => {
                    taken.is_end = true;
                    taken.broken = Some(status);
                }
                Poll::Pending if taken.frames.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(())
    })
    .await;
    taken
}
