//! The answers of a stream, made when there is somebody to take them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fencepost_proto::v1;
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tonic::Status;

use super::Session;

/// Tells whoever listens for frames that the answers have nowhere to go.
type Farewell = oneshot::Sender<()>;

/// The answers of a stream. `show` turns them into its messages; one that has nothing to say to
/// them is left out.
pub(crate) struct Outgoing<F> {
    session: Arc<Session>,
    ready: VecDeque<v1::SessionResponse>,
    show: F,
    _farewell: Farewell,
}

impl<T, F> Outgoing<F>
where
    F: FnMut(v1::SessionResponse) -> Option<Result<T, Status>> + Unpin,
{
    pub(crate) fn new(session: Arc<Session>, farewell: Farewell, show: F) -> Outgoing<F> {
        Outgoing { session, ready: VecDeque::new(), show, _farewell: farewell }
    }
}

impl<T, F> Stream for Outgoing<F>
where
    F: FnMut(v1::SessionResponse) -> Option<Result<T, Status>> + Unpin,
{
    type Item = Result<T, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(response) = this.ready.pop_front() {
                match (this.show)(response) {
                    Some(shown) => return Poll::Ready(Some(shown)),
                    None => continue,
                }
            }
            let ready = &mut this.ready;
            match this.session.poll_answers(cx, &mut |response| ready.push_back(response)) {
                Poll::Pending => {
                    // An idle stream keeps no room for what it may say one day.
                    this.ready = VecDeque::new();
                    return Poll::Pending;
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(status))) => return Poll::Ready(Some(Err(status))),
                Poll::Ready(Some(Ok(()))) => {}
            }
        }
    }
}

impl<F> Drop for Outgoing<F> {
    fn drop(&mut self) {
        self.session.end();
    }
}
