//! Watching what happens to keys and locks.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fencepost_proto::v1::Event;
use futures_core::Stream;

use crate::core::{Input, WatchId, WatchSpec};
use crate::error::Error;
use crate::shell::{News, Order, Shell, WatchQueue};

/// A stream of events, in their order, each once, without a gap.
///
/// It begins when it is first polled, outlives connections, and goes on from where it was. If that
/// is not possible because history was compacted meanwhile, it ends with [`Error::Compacted`]; the
/// reader then has to look at the present state, and watch from there.
#[must_use = "a watch tells nothing until it is polled"]
pub struct Watch {
    shell: Arc<Shell>,
    spec: WatchSpec,
    queue: Arc<WatchQueue>,
    id: Option<WatchId>,
    is_over: bool,
    started: Option<i64>,
    /// Read ahead while waiting for the beginning.
    ahead: Option<Result<Event, Error>>,
}

impl Watch {
    pub(crate) fn new(shell: Arc<Shell>, key: String, prefix: bool) -> Watch {
        let spec = WatchSpec { key, prefix, ..WatchSpec::default() };
        let queue = Arc::new(WatchQueue::default());
        Watch { shell, spec, queue, id: None, is_over: false, started: None, ahead: None }
    }

    /// From this revision on, also if it is past. Without this: from when the watch begins.
    pub fn from(mut self, revision: i64) -> Watch {
        self.spec.from = revision;
        self
    }

    /// Also tell what a key was before.
    pub fn prev_kv(mut self) -> Watch {
        self.spec.prev_kv = true;
        self
    }

    /// Also tell what happens to locks without a change of keys: grants, losses, demands of
    /// operators, budgets that are used up.
    pub fn lock_events(mut self) -> Watch {
        self.spec.lock_events = true;
        self
    }

    /// Leave out writes.
    pub fn no_put(mut self) -> Watch {
        self.spec.no_put = true;
        self
    }

    /// Leave out deletions.
    pub fn no_delete(mut self) -> Watch {
        self.spec.no_delete = true;
        self
    }

    /// Waits until the watch has begun. Everything that happens after the revision that this returns
    /// will be told.
    ///
    /// # Errors
    ///
    /// As the stream's: the watch could not begin.
    pub async fn started(&mut self) -> Result<i64, Error> {
        poll_fn(|context| {
            while self.started.is_none() && self.ahead.is_none() {
                match self.poll_news(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => return Poll::Ready(Err(Error::Closed)),
                    Poll::Ready(Some(item)) => self.ahead = item,
                }
            }
            match (self.started, self.ahead.take()) {
                (Some(revision), ahead) => {
                    self.ahead = ahead;
                    Poll::Ready(Ok(revision))
                }
                (None, Some(Err(error))) => Poll::Ready(Err(error)),
                (None, other) => {
                    // An event came first: then it has begun before that.
                    let before = other.as_ref().and_then(|event| event.as_ref().ok());
                    let revision = before.map_or(0, |event| event.revision - 1);
                    self.ahead = other;
                    Poll::Ready(Ok(revision))
                }
            }
        })
        .await
    }

    /// The next event; nothing after the watch has ended.
    pub async fn next(&mut self) -> Option<Result<Event, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// One piece of news. `Some(None)` is news that is no item of the stream.
    fn poll_news(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Option<Result<Event, Error>>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let id = match self.id {
            Some(id) => id,
            None => self.begin(),
        };
        let (news, has_room) = std::task::ready!(self.queue.poll(context));
        if has_room {
            self.shell.order(Order::Tell(Input::WatchRoom(id)));
        }
        Poll::Ready(match news {
            None => {
                self.is_over = true;
                None
            }
            Some(News::Started(revision)) => {
                self.started = Some(revision);
                Some(None)
            }
            Some(News::Event(event)) => Some(Some(Ok(*event))),
            Some(News::Ended(error)) => {
                self.is_over = true;
                Some(Some(Err(error)))
            }
        })
    }

    fn begin(&mut self) -> WatchId {
        let id = self.shell.next_watch();
        self.id = Some(id);
        let queue = Arc::clone(&self.queue);
        self.shell.order(Order::Watch(id, self.spec.clone(), queue));
        id
    }
}

impl Stream for Watch {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let watch = self.get_mut();
        if let Some(item) = watch.ahead.take() {
            return Poll::Ready(Some(item));
        }
        loop {
            match std::task::ready!(watch.poll_news(context)) {
                None => return Poll::Ready(None),
                Some(None) => {}
                Some(Some(item)) => return Poll::Ready(Some(item)),
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(id) = self.id
            && !self.is_over
        {
            self.shell.order(Order::Tell(Input::Unwatch(id)));
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("spec", &self.spec).finish_non_exhaustive()
    }
}
